"""An object store for a run that the leak check has not judged yet: everything is encrypted until the verdict.

The run and its records name the bytes by their clear digest, as always. Until the verdict the store holds only
encrypted bytes, under a key that is derived from a custodian's key, and the state maps the clear digest to them. After
the verdict the bytes of the run are stored in clear, and the encrypted ones are removed. A run that is denied, killed
or failed leaves encrypted bytes behind, which a resumed run can read.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

import msgspec

from kfm.crypto.custodian_key import CustodianKey
from kfm.crypto.encryption import HEADER, encrypted, encryption_key_id
from kfm.engine.protected.encrypted_objects import (
    DecryptingObjects,
    EncryptedStaging,
    plain,
)
from kfm.errors import Corrupt, Denied
from kfm.model.canonical import canonical
from kfm.model.ports import INLINE_MAX, Objects, Staging, State, Tx
from kfm.model.records import Classification

if TYPE_CHECKING:
    from kfm.engine.protected.protection import Protection

BATCH = 500  # small objects that one transaction stores in clear
_HIDDEN = "encrypted"  # the field of a description that is encrypted until the verdict


@runtime_checkable
class Disposal(Protocol):
    """An object store that can remove an object. Only encrypted bytes that wait for a verdict are ever removed."""

    def discard(self, digest: str) -> None: ...


class UnjudgedObjects:
    """Stores bytes encrypted until `judged` is set, and returns them in clear. Bytes that are encrypted with a
    custodian's key already are stored as they are."""

    def __init__(self, objects: Objects, state: State, protection: Protection, key: CustodianKey | None) -> None:
        self._objects = objects
        self._state = state
        self._protection = protection
        self._key = None if key is None else derived(key)
        self.judged = key is None  # without a key nothing can be encrypted, and nothing protected is known

    # -- writing

    def put(self, body: bytes) -> str:
        staging = self.stage()
        staging.write(body)
        return staging.commit()[0]

    def put_stream(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        staging = self.stage()
        try:
            for chunk in chunks:
                staging.write(chunk)
        except BaseException:
            staging.abort()
            raise
        return staging.commit()

    def stage(self) -> Staging:
        return self._objects.stage() if self.judged else _Staging(self)

    def staging_for(self, head: bytes) -> Staging:
        """Return where bytes that begin with `head` are written."""
        if self._is_encrypted(head):
            return self._objects.stage()
        assert self._key is not None
        return EncryptedStaging(self._objects.stage(), self._key, self._keep)

    def keep_rows(self, tx: Tx, rows: Iterable[tuple[str, bytes]]) -> None:
        """Store small objects, named by their clear digests, in this transaction."""
        if self.judged or self._key is None:
            tx.objects(rows)
            return
        for name, body in rows:
            if self._is_encrypted(body[:HEADER]):
                tx.objects([(name, body)])
                continue
            if self.is_in_clear(name):
                continue
            stored = b"".join(encrypted([body], self._key))
            under = "sha256:" + hashlib.sha256(stored).hexdigest()
            tx.objects([(under, stored)])
            tx.protected.keep_standing(*_row(name, under))

    def _keep(self, under: str, name: str) -> None:
        with self._state.transaction(durable=False) as tx:  # the later commit that names it is durable
            tx.protected.keep_standing(*_row(name, under))

    def _is_encrypted(self, head: bytes) -> bool:
        key_id = encryption_key_id(head)
        return bool(key_id) and self._protection.with_id(key_id) is not None

    def hidden(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return a description of an output as the journal may hold it."""
        if self.judged or self._key is None:
            return said
        return {_HIDDEN: base64.b64encode(b"".join(encrypted([canonical(said)], self._key))).decode()}

    def shown(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return a description of an output from the journal, decrypted."""
        if set(said) != {_HIDDEN}:
            return dict(said)
        found: dict[str, Any] = msgspec.json.decode(plain(base64.b64decode(said[_HIDDEN]), self._keys))
        return found

    # -- reading

    def read(self, digest: str) -> bytes:
        under = self._under(digest)
        return self._clear().read(under) if under else self._objects.read(digest)

    def open(self, digest: str) -> BinaryIO:
        under = self._under(digest)
        return self._clear().open(under) if under else self._objects.open(digest)

    def size(self, digest: str) -> int:
        under = self._under(digest)
        if not under:
            return self._objects.size(digest)
        size = 0
        with self._clear().open(under) as file:
            while block := file.read(1 << 20):
                size += len(block)
        return size

    def has(self, digest: str) -> bool:
        return self._objects.has(digest) or any(self._opens(one) for one in self._waiting(digest))

    def is_damaged(self, digest: str, since_ms: int) -> bool:
        return self._objects.is_damaged(self._under(digest) or digest, since_ms)

    def _under(self, digest: str) -> str:
        """Return the digest of the encrypted bytes; empty if the bytes are in clear. Denied if the key is missing."""
        waiting = self._waiting(digest)
        found = next((under for under in waiting if self._opens(under)), "")
        if waiting and not found and not self._objects.has(digest):
            raise Denied(
                "bytes of this run wait for the leak check, encrypted under a key that is missing",
                hint="resume it where the custodian's key is available, and name it under `custodians:`",
                rule="key.missing",
            )
        return found

    def is_in_clear(self, digest: str) -> bool:
        """Return whether the store has these bytes as they are, undamaged: a forced run repairs damaged ones."""
        try:
            if self._objects.has(digest):
                with self._objects.open(digest) as file:
                    while file.read(1 << 20):
                        pass
                return True
        except Corrupt:
            pass
        return False

    def _waiting(self, digest: str) -> tuple[str, ...]:
        row = self._state.protected.standing(f"unjudged/{digest}")
        return row.rules if row is not None else ()

    def _opens(self, under: str) -> bool:
        if not self._objects.has(under):
            return False
        with self._objects.open(under) as file:
            return self._keys(encryption_key_id(file.read(HEADER))) is not None

    def _clear(self) -> DecryptingObjects:
        return DecryptingObjects(self._objects, self._keys)

    def _keys(self, key_id: str) -> CustodianKey | None:
        if self._key is not None and key_id == self._key.key_id:
            return self._key
        return next((one for key in self._protection.at_hand() if (one := derived(key)).key_id == key_id), None)

    # -- the verdict

    def may_show(self, text: str) -> bool:
        """Return whether an author's message may be shown: nothing protected that is known here was found in it."""
        from kfm.engine.protected.fingerprint_match import key_of_leak

        return key_of_leak(self._state, self._protection, text.encode("utf-8", "replace")) is None

    def release(self, names: Iterable[str]) -> None:
        """Store the bytes of these digests in clear, and remove the encrypted ones. Called after the verdict."""
        waiting = ((name, under) for name in dict.fromkeys(names) if (under := self._under(name)))
        while batch := list(islice(waiting, BATCH)):
            rows, gone = [], []
            for name, under in batch:
                if self._objects.size(under) <= INLINE_MAX:
                    rows.append((name, self._clear().read(under)))
                else:
                    with self._clear().open(under) as file:
                        self._objects.put_stream(iter(lambda file=file: file.read(1 << 20), b""))  # type: ignore[misc]
                    gone.append(under)
            with self._state.transaction(durable=False) as tx:
                tx.objects(rows)
                for name, under in batch:
                    tx.protected.forget_unjudged(name, under)
            if isinstance(self._objects, Disposal):
                for under in gone:
                    self._objects.discard(under)


class _Staging:
    """A stream whose first bytes decide how it is stored."""

    def __init__(self, objects: UnjudgedObjects) -> None:
        self._objects = objects
        self._head = b""
        self._inner: Staging | None = None
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._size += len(chunk)
        if self._inner is not None:
            self._inner.write(chunk)
            return
        self._head += chunk
        if len(self._head) >= HEADER:
            self._begin()

    def _begin(self) -> Staging:
        self._inner = self._objects.staging_for(self._head[:HEADER])
        self._inner.write(self._head)
        return self._inner

    def commit(self) -> tuple[str, int]:
        inner, name = self._inner or self._begin(), "sha256:" + self._hash.hexdigest()
        if self._objects.is_in_clear(name):  # an earlier run passed with the same bytes
            inner.abort()
        else:
            inner.commit()
        return name, self._size

    def abort(self) -> None:
        if self._inner is not None:
            self._inner.abort()


def _row(name: str, under: str) -> tuple[str, Classification]:
    """Return the row of the state that says where bytes wait: their clear digest, and that of the encrypted ones."""
    return f"unjudged/{name}", Classification(level="restricted", rules=(under,))


def derived(key: CustodianKey) -> CustodianKey:
    """Return the key for bytes that wait for a verdict. It is another than the custodian's, so that no protected object
    has the digest of one that is removed."""
    return CustodianKey(key.derived("unjudged"))
