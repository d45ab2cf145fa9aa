"""Short texts, encrypted with a custodian's key inside other text: `encrypted:` and base64 for addresses.

Reasons that people type about protected data are stored in this form wherever a record has a reason.
"""

from __future__ import annotations

import base64
import binascii
import re

from kfm.crypto.custodian_key import CustodianKey
from kfm.crypto.encryption import HEADER, Keys, decrypted, encrypted, encryption_key_id
from kfm.errors import KfmError

UNREADABLE = "(encrypted)"  # shown to a reader without the key
_MARK = "encrypted:"
_TEXT = re.compile(_MARK + r"([A-Za-z0-9_-]{64,}=*)")


def encrypted_text(text: str, key: CustodianKey) -> str:
    """Return the text encrypted with this key. The same text gives the same result."""
    return _MARK + base64.urlsafe_b64encode(b"".join(encrypted([text.encode()], key))).decode()


def is_encrypted_text(text: str) -> bool:
    """Return whether the text contains an encrypted one."""
    return _TEXT.search(text) is not None


def shown_text(text: str, keys: Keys) -> str:
    """Return the text with each encrypted part decrypted, or replaced by `(encrypted)` if its key is not available."""
    return _TEXT.sub(lambda found: _shown(found[1], keys), text) if _MARK in text else text


def _shown(part: str, keys: Keys) -> str:
    try:
        body = base64.urlsafe_b64decode(part)
        if keys(encryption_key_id(body[:HEADER])) is None:
            return UNREADABLE
        return b"".join(decrypted([body], keys)).decode()
    except (KfmError, binascii.Error, UnicodeDecodeError):
        return UNREADABLE
