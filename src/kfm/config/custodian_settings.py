"""The section `custodians`: whose keys encrypt protected data. It holds references to keys, never a key."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from kfm.config.setting_values import Text
from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document, Path


class CustodianConfig(Record, frozen=True):
    """A keeper of protected data, under the name that labels use."""

    key: Annotated[Text, Meta(description="its key of at least 32 bytes: env:NAME, file:PATH or an installed store")]


def check_custodian(document: Document, path: Path, custodian: CustodianConfig) -> None:
    if not path[-1] or not is_printable(str(path[-1])) or len(str(path[-1])) > 200:
        document.refuse(path, "is not a name for a custodian", "use the name that labels use")
    if not re.match(r"[a-z][a-z0-9+.-]{0,30}:[^\s]", custodian.key) or not is_printable(custodian.key):
        document.refuse((*path, "key"), "is not a reference", "write env:NAME or file:PATH; never write a key here")
