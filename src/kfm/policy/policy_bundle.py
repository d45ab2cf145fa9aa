"""The shipped and configured policies, and their digest, which identifies them byte for byte."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache

import msgspec
from msgspec import Struct

from kfm.errors import BadInput
from kfm.model.canonical import canonical

SHIPPED = os.path.join(os.path.dirname(__file__), "rego")
_SUFFIX = ".rego"
_TESTS = "_test.rego"


class Policies(Struct, frozen=True):
    files: tuple[tuple[str, str], ...]  # name and text, sorted by name, without tests
    digest: str
    has_own: bool = False  # the installation added policies

    @property
    def data(self) -> str:
        """The data document that policies can read: the digest that identifies them, which every answer repeats."""
        return msgspec.json.encode({"kfm": {"bundle": {"digest": self.digest}}}).decode()


def policies(files: dict[str, str]) -> Policies:
    if not files:
        raise BadInput("there are no policies", hint="put *.rego files into the policies folder")
    listed = tuple(sorted(files.items()))
    digest = "sha256:" + hashlib.sha256(canonical(["kfm.policies/1", [list(item) for item in listed]])).hexdigest()
    return Policies(files=listed, digest=digest)


def read_policies(folder: str) -> Policies:
    return policies(read_files(folder))


def with_own(own: dict[str, str]) -> Policies:
    """Return the shipped policies together with those of an installation. The latter are in packages of their own, so
    they cannot change a shipped rule; their `main` package is asked only after the shipped rules allowed.
    """
    import re

    if not own:
        raise BadInput("there are no policies", hint="put *.rego files into the policies folder")
    packages = {name: re.findall(r"^package[ \t]+([\w.\[\]\"]+)", text, re.MULTILINE) for name, text in own.items()}
    for name, found in packages.items():
        if len(found) != 1 or found[0].partition(".")[0].partition("[")[0] == "kfm":
            raise BadInput(
                f"the policy {name} does not have a package of its own",
                hint="write `package main`; your policies add to the shipped ones and cannot change them",
            )
    mains = [own[name] for name, found in packages.items() if found == ["main"]]
    if not any(re.search(r"^deny[ \t]+contains\b", text, re.MULTILINE) for text in mains):
        raise BadInput(
            "no policy in the folder denies anything",
            hint='write `package main` and rules such as `deny contains "why" if …`',
        )
    both = policies({**dict(shipped().files), **{f"own/{name}": text for name, text in own.items()}})
    return Policies(files=both.files, digest=both.digest, has_own=True)


def read_files(folder: str, *, tests: bool = False) -> dict[str, str]:
    """Return every policy of a folder by name. Links and subfolders are refused, so that the folder itself holds
    everything that decides.
    """
    found = {}
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith(_SUFFIX) and (tests or not entry.name.endswith(_TESTS)):
                if not entry.is_file(follow_symlinks=False):
                    raise BadInput("a policy is not a plain file", hint="copy the policy files into the folder")
                with open(entry.path, encoding="utf-8") as file:
                    found[entry.name] = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput("the policies cannot be read", hint="check the policies folder") from problem
    return found


@lru_cache(maxsize=1)
def shipped() -> Policies:
    return read_policies(SHIPPED)


def bundle(given: Policies) -> bytes:
    """Return the policies as a bundle for an OPA server; the same policies give the same bytes."""
    import gzip
    import io
    import tarfile

    roots = ["kfm", "main"] if given.has_own else ["kfm"]
    manifest = msgspec.json.encode({"revision": given.digest, "roots": roots, "rego_version": 1})
    members = [(".manifest", manifest), ("data.json", given.data.encode())]
    members += [(name, text.encode()) for name, text in given.files]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(f"/{name}")
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)
