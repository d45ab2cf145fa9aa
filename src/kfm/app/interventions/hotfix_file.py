"""Reads a hotfix from the file that people review: a JSON Patch or a Merge Patch of the STAC collection or of the DCAT
entry of a dataset.

A patch changes only what its file says it expects to find: every changed path has a `test` before it, or a value under
`expect`. Only the texts that people write about a dataset can be patched. Everything else in these documents is
computed from data, refs and labels, so a patch of it would make the catalog say something that is not so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from kfm.errors import BadInput, Refused
from kfm.model import names
from kfm.model.interventions.hotfix_set import Document as Kind
from kfm.model.interventions.hotfix_set import Fix
from kfm.model.names import is_digest
from kfm.model.records import Record
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.documents import Document, Path
from kfm.parsing.record_shape import into, nearest
from kfm.projections.vocabulary import is_licence_id

LONGEST = {"description": 20_000, "license_text": 100_000}
LONG = 1_000  # characters of any other text
# The paths of each document that can be patched, with the field of the metadata that each one shows.
PATHS: dict[Kind, dict[str, str]] = {
    "stac": {
        "/title": "title",
        "/description": "description",
        "/license": "license",
        "/providers/0/name": "attribution",
    },
    "dcat": {"/title": "title", "/description": "description", "/rights/attributionText": "attribution"},
}


class PatchStep(Record, frozen=True):
    """One operation of a JSON Patch (RFC 6902)."""

    op: Literal["test", "add", "replace", "remove"]
    path: str
    value: Any = msgspec.UNSET


class Patch(Record, frozen=True):
    """A JSON Patch, or a Merge Patch (RFC 7396) with the values that it expects to find."""

    patch: list[PatchStep] = []
    expect: dict[str, Any] = {}
    merge: dict[str, Any] = {}


class HotfixFile(Record, frozen=True):
    """A hotfix as a file."""

    hotfix: str  # its name
    dataset: str
    reason: str = ""
    version: str = ""  # it holds for this version alone
    stac: Patch | None = None
    dcat: Patch | None = None


class Step(NamedTuple):
    """One test or change of a field, with its place in the file."""

    at: Path
    path: str  # in the patched document
    field: str
    tests: bool
    value: str | None  # None: it is removed


def read_hotfix(document: Document) -> HotfixFile:
    """Return the hotfix of a file. Raise BadInput, with the place, if it is none."""
    file = into(document, HotfixFile)
    for key, text in (("hotfix", file.hotfix), ("dataset", file.dataset)):
        try:
            names.check_id(text, key)
        except BadInput as problem:
            raise document.mistake((key,), "is no name", problem.hint or problem.message) from None
    if file.version and not is_digest(file.version):
        raise document.mistake(("version",), "is no digest", "write sha256: and 64 hex digits, or remove the line")
    if (file.stac is None) == (file.dcat is None):
        raise document.mistake((), "patches neither or both of stac and dcat", "write one of them in each file")
    kind, patch = kind_of(file)
    if bool(patch.patch) == bool(patch.merge):
        hint = "write patch: with JSON Patch operations, or expect: and merge:"
        raise document.mistake((kind,), "has no patch" if not patch.patch else "has a patch and a merge", hint)
    if patch.patch and patch.expect:
        raise document.mistake((kind, "expect"), "belongs to merge:", "write it as `test` operations of the patch")
    return file


def kind_of(file: HotfixFile) -> tuple[Kind, Patch]:
    """Return which document a hotfix patches, and its patch."""
    if file.stac is not None:
        return "stac", file.stac
    assert file.dcat is not None, "read_hotfix checks it"
    return "dcat", file.dcat


def fix_of(document: Document, file: HotfixFile, metadata: Mapping[str, Any], name: str, version: str) -> Fix:
    """Return the hotfix of a file for a dataset whose published version has these metadata. Raise BadInput if the file
    patches something else than a text of people, or without a precondition, and Refused if a precondition fails."""
    kind, _ = kind_of(file)
    if file.version not in ("", version):
        raise Refused(
            f"{document.place(('version',))}: it is for {file.version[:19]}, and {name} is at {version[:19]}",
            hint="correct the version, or remove the line if the correction is right for every version",
        )
    shown = {**metadata, "title": metadata.get("title") or name}
    shown["description"] = metadata.get("description") or shown["title"]
    now, tested, touched = dict(shown), set[str](), dict[str, str | None]()
    for step in _steps(document, file):
        if step.tests:
            if now.get(step.field) != step.value:
                found = printable(str(now.get(step.field) or "nothing"), LONG)
                raise Refused(
                    f"{document.place(step.at)}: {step.path} is {found} now, which is not what the hotfix expects",
                    hint=f"look at it with `kfm hotfix list {name}`, and correct the file or drop it",
                )
            tested.add(step.field)
            continue
        if step.field == "attribution" and not metadata.get("attribution"):
            raise document.mistake(
                step.at, "corrects an attribution, and there is none", f"write it in kfm.yml: datasets.{name}"
            )
        if step.field not in tested:
            raise document.mistake(
                step.at,
                f"changes {step.path} without a precondition",
                f"say what you expect: `{_expectation(file, step.path, shown.get(step.field))}`",
            )
        now[step.field] = touched[step.field] = step.value
    before = {field: metadata.get(field) or None for field in touched}
    if touched == before or not touched:
        raise document.mistake((kind,), "changes nothing", "write what should be there instead")
    return Fix(name=file.hotfix, document=kind, before=before, after=touched, version=file.version)


def _expectation(file: HotfixFile, path: str, value: str | None) -> str:
    """Return the line that is missing in a file: a `test` operation, or a value under `expect`."""
    text = msgspec.json.encode(value).decode()
    if kind_of(file)[1].patch:
        return f"- {{op: test, path: {path}, value: {text}}}"
    *above, key = path.strip("/").split("/")
    found = f"{key}: {text}"
    for each in reversed(above):
        found = f"{each}: {{{found}}}"
    return f"expect: {{{found}}}"


def _steps(document: Document, file: HotfixFile) -> Iterator[Step]:
    kind, patch = kind_of(file)
    for number, each in enumerate(patch.patch):
        at: Path = (kind, "patch", number)
        if each.op == "remove" and each.value is not msgspec.UNSET:
            raise document.mistake((*at, "value"), "is not for remove", "remove the line")
        if each.op != "remove" and each.value is msgspec.UNSET:
            raise document.mistake(at, "has no value", "add `value:`")
        value = None if each.op == "remove" else each.value
        yield _step(document, at, kind, each.path, value, tests=each.op == "test")
    for tests, key, said in ((True, "expect", patch.expect), (False, "merge", patch.merge)):
        for path, value in _flat(said):
            yield _step(document, (kind, key, *path), kind, "/" + "/".join(path), value, tests=tests)


def _flat(said: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in said.items():
        if isinstance(value, dict):
            yield from _flat(value, (*above, key))
        else:
            yield (*above, key), value


def _step(document: Document, at: Path, kind: Kind, path: str, value: Any, *, tests: bool) -> Step:
    field = PATHS[kind].get(path)
    if field is None:
        close = nearest(path, list(PATHS[kind]))
        can = f"did you mean {close}? " if close else ""
        raise document.mistake(
            at,
            f"is about {printable(path, 80)}, which no hotfix can correct",
            f"{can}a hotfix corrects {', '.join(PATHS[kind])}; all else is computed or declared in kfm.yml",
        )
    if value is not None:
        _check_text(document, at, field, value, tests=tests)
    elif tests:
        raise document.mistake(at, "expects null", "write the text that is there now, as the catalog shows it")
    return Step(at, path, field, tests, value)


def _check_text(document: Document, at: Path, field: str, value: Any, *, tests: bool) -> None:
    if not isinstance(value, str) or not value.strip():
        raise document.mistake(at, "is not a text", "write it in quotes")
    if tests:
        return
    most = LONGEST.get(field, LONG)
    plain = value.replace("\n", " ") if field == "description" else value
    if len(value) > most or not is_printable(plain):
        raise document.mistake(at, f"is not a printable text of at most {most} characters", "write it shorter")
    if field == "license" and not is_licence_id(value):
        raise document.mistake(at, f"{printable(value, 60)} is no SPDX identifier", "such as CC-BY-4.0 or CC0-1.0")
