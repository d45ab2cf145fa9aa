"""The report of a preview for a reviewer: facts about each dataset and the decision of each gate. Nothing is changed.

It shows only what would be public: sources as in the public record of the run, keys and values only of a version that
the gates would publish under the masking policy in force. The whole report is scanned for protected values before it is
returned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.metadata.catalog_validation import check
from kfm.app.metadata.catalogs import catalog_messages
from kfm.app.runs.policy_checks import ask_all, exit_code
from kfm.app.stewards.leak_scan import known_of_state
from kfm.clock import rfc3339
from kfm.config import Resolved
from kfm.config.setting_values import leaves
from kfm.delivery.catalog_content import around
from kfm.delivery.public_runs import public_run
from kfm.errors import Denied, KfmError
from kfm.masking.leak_scanner import scan
from kfm.masking.lineage_redaction import may_be_named
from kfm.model import manifests, refs
from kfm.model.canonical import canonical
from kfm.model.manifests import Change
from kfm.model.preview_records import Preview, PreviewedDataset
from kfm.model.records import DatasetVersion, Decision, RefEntry
from kfm.model.redaction import redacted
from kfm.model.reports.preview_findings import Check, DatasetReport, Proposed
from kfm.parsing.documents import dotted
from kfm.projections.preview_report_text import junit, markdown, picture

if TYPE_CHECKING:
    from kfm.app.previews.branch_previews import Proposal
    from kfm.app.session.session import Session

MOST_KEYS = 20
MOST_LINES = 12
MOST_BYTES = 1 << 20
MOST_SETTINGS = 40
WIDEST = 160
TEXTS = ("text/", "application/json", "application/geo+json", "application/x-ndjson")


def report_files(
    session: Session, here: Resolved, proposal: Proposal, preview: Preview, at: str
) -> tuple[Proposed, dict[str, bytes]]:
    """Return the report and its files. Denied if one of them shows protected values."""
    said = reported(session, here, proposal, preview, at)
    files = {
        "report.md": markdown(said).encode(),
        "junit.xml": junit(said).encode(),
        "checks.json": canonical(said) + b"\n",
        **{f"extent-{each.dataset}.svg": picture(each).encode() for each in said.datasets if each.bbox},
    }
    check_leaks(session, files)
    return said, files


def reported(session: Session, here: Resolved, proposal: Proposal, preview: Preview, at: str) -> Proposed:
    """Return the report. `session` is open with the declarations of the branch; `here` are those of the
    installation."""
    found = [_dataset(session, here, each) for each in preview.datasets]
    code = max((each.exit_code for each in found), default=0)
    return Proposed(
        branch=preview.branch,
        commit=preview.commit,
        preview=at,
        conclusion="success" if found and not code else "neutral" if not found else "failure",
        datasets=tuple(found),
        removed=preview.removed,
        exit_code=code,
        notes=_notes(here, proposal),
    )


def _notes(here: Resolved, proposal: Proposal) -> tuple[str, ...]:
    """Return the settings outside `datasets` that the branch changes. They are not part of the preview."""
    theirs = proposal.theirs.config
    ours = here.config
    names = [name for name in ours.__struct_fields__ if name not in ("datasets", "schema_url", "kfm")]
    return tuple(sorted(name for name in names if getattr(ours, name) != getattr(theirs, name)))


def _dataset(session: Session, here: Resolved, each: PreviewedDataset) -> DatasetReport:
    version = session.state.ledger.version(each.dataset, each.version) if each.version else None
    checks, decisions = [_built(each)], list[Decision]()
    if version is not None:
        decisions = ask_all(session, each.dataset, "published", each.version)
        checks += [_gate(decision) for decision in decisions]
    good = bool(decisions) and all(decision.allow is True for decision in decisions)
    catalog, wrong = _catalog(session, each) if good else ((), ())
    if good:
        checks.append(Check(name="catalog", passed=not wrong, rules=wrong, reasons=wrong))
    shown = good and may_be_named(version) and not _remasked(session, here, each.dataset)
    receipt = session.state.ledger.receipt(each.run_id)
    changes = list(islice(_changes(session, each), 100_000)) if shown else []
    return DatasetReport(
        dataset=each.dataset,
        run_id=each.run_id,
        version=each.version,
        base=each.base,
        published=each.published,
        updater_version=each.updater_version,
        checks=tuple(checks),
        counts=_counts(version, receipt.changes if receipt is not None and not _is_hidden(version) else {}),
        settings=_settings(session.resolved, here, each.dataset),
        catalog=catalog,
        keys=tuple(_key(change) for change in changes[:MOST_KEYS]),
        more_keys=max(0, len(changes) - MOST_KEYS),
        lines=tuple(_lines(session, changes)) if shown else (),
        bbox=_extent(session, each) if shown else (),
        inputs=tuple(_inputs(session, each)),
        why_hidden="" if shown else _why_hidden(version, good),
        exit_code=exit_code(decisions) or (0 if all(check.passed for check in checks) else Denied.exit_code),
    )


def _built(each: PreviewedDataset) -> Check:
    return Check(name="build", passed=bool(each.version), rules=each.problems, reasons=each.problems)


def _gate(decision: Decision) -> Check:
    passed = decision.allow is True
    return Check(
        name=decision.gate,
        passed=passed,
        rules=() if passed else tuple(decision.rules),
        reasons=() if passed else tuple(decision.reasons),
    )


def _is_hidden(version: DatasetVersion | None) -> bool:
    return version is None or not may_be_named(version)


def _why_hidden(version: DatasetVersion | None, good: bool) -> str:
    if version is None:
        return "nothing was made"
    if not good:
        return "keys and values are shown once every gate says yes"
    if _is_hidden(version):
        return "it is protected"
    return "the branch changes its masking policy: a steward checks it with `kfm mask preview`"


def _remasked(session: Session, here: Resolved, dataset: str) -> bool:
    """Return whether the branch changes the masking of this dataset."""
    theirs, ours = session.config.datasets[dataset].sources, here.config.datasets.get(dataset)
    for name, source in theirs.items():
        known = ours.sources.get(name) if ours is not None else None
        was = known.mask if known is not None else ""
        if (source.mask or was) and _bytes(session.resolved.in_tree, source.mask) != _bytes(here.in_tree, was):
            return True
    return False


def _bytes(at: Any, path: str | None) -> bytes | None:
    if not path:
        return None
    try:
        with open(at(path), "rb") as file:
            return bytes(file.read())
    except OSError:
        return None


def _counts(version: DatasetVersion | None, changes: dict[str, int]) -> dict[str, int]:
    """Return the counts of a version; none if it is protected, because its size may not be shown."""
    if version is None or _is_hidden(version):
        return {}
    counts = {"keys": version.entries, "bytes": version.size, **{name: changes.get(name, 0) for name in changes}}
    return {**counts, "rows": version.validation.get("rows", 0), "held_rows": version.validation.get("held_rows", 0)}


def _settings(theirs: Resolved, ours: Resolved, dataset: str) -> tuple[str, ...]:
    """Return the changed settings of a dataset as `name: before → after`."""
    sides = []
    for resolved in (ours, theirs):
        declared = resolved.config.datasets.get(dataset)
        plain = redacted(msgspec.to_builtins(declared)) if declared is not None else {}
        sides.append({dotted(path): value for path, value in leaves(plain, ())} if plain else {})
    return tuple(_differing(*sides))


def _differing(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    for name in names[:MOST_SETTINGS]:
        yield f"{name}: {_text(before.get(name))} → {_text(after.get(name))}"
    if len(names) > MOST_SETTINGS:
        yield f"and {len(names) - MOST_SETTINGS} more"


def _text(value: Any) -> str:
    said = "nothing" if value in (None, "", (), [], {}) else value if isinstance(value, str) else _json(value)
    return said if len(said) <= WIDEST else said[: WIDEST - 1] + "…"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# -- data


def _changes(session: Session, each: PreviewedDataset) -> Iterator[Change]:
    """Yield the changed keys since the published version; if that may not be shown, all keys as added."""
    before = session.state.ledger.version(each.dataset, each.published) if each.published else None
    return manifests.changes(session.objects, each.published if may_be_named(before) else "", each.version)


def _key(change: Change) -> str:
    sign = {"added": "+", "changed": "~", "removed": "-"}[change.what]
    entry = change.new or change.old
    return f"{sign} {'/'.join(change.key)} ({entry.size if entry else 0} bytes)"


def _lines(session: Session, changes: list[Change]) -> Iterator[str]:
    """Yield the first differing lines of small text files."""
    import difflib

    left = MOST_LINES
    for change in changes:
        sides = [_read(session, entry) for entry in (change.old, change.new)]
        if left <= 0 or any(side is None for side in sides):
            continue
        old, new = (side or [] for side in sides)
        for line in difflib.unified_diff(old, new, lineterm="", n=0):
            if left > 0 and not line.startswith(("---", "+++", "@@")):
                left -= 1
                yield _text(line)


def _read(session: Session, entry: Any) -> list[str] | None:
    if entry is None:
        return []
    if entry.size > MOST_BYTES or not entry.media_type.startswith(TEXTS):
        return None
    try:
        return str(session.objects.read(entry.digest), "utf-8").splitlines()
    except UnicodeDecodeError:
        return None


def _extent(session: Session, each: PreviewedDataset) -> tuple[float, ...]:
    declared = session.config.datasets[each.dataset].extent
    return around(session.objects, each.version)[0] or (declared.bbox if declared is not None else ())


def _inputs(session: Session, each: PreviewedDataset) -> Iterator[str]:
    """Yield the inputs of the run as its public record has them."""
    for entry in session.state.ledger.entries_of(each.dataset):
        if entry.run_id == each.run_id:
            for read in public_run(session.state, session.objects, entry, parts=False).inputs:
                yield f"{read.id} {read.checksum}"
            return


# -- the catalog


def _catalog(session: Session, each: PreviewedDataset) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what would change in the catalog, and which documents would violate their schema."""
    messages, moves = catalog_messages(session), list(session.state.refs.history(refs.published(each.dataset)))
    last = RefEntry(
        ref=refs.published(each.dataset),
        n=len(moves) + 1,
        before=each.published,
        after=each.version,
        run_id=each.run_id,
        op="promote",
        actor="",
        reason="",
        ts=rfc3339(session.clock.now_ms()),
    )
    try:
        sides = [_documents(messages, each.dataset, some) for some in (moves, [*moves, last])]
    except KfmError as problem:
        return (), (f"the catalog cannot be made ({problem.code})",)
    wrong = []
    for path, document in sides[1].items():
        _, problems, _ = check(document)
        wrong += [
            f"{path} {problem.place or '/'}: is not as {problem.schema or 'its kind'} wants" for problem in problems
        ]
    differing = [name for name in sorted({*sides[0], *sides[1]}) if sides[0].get(name) != sides[1].get(name)]
    said = [f"{'+' if name not in sides[0] else '-' if name not in sides[1] else '~'} {name}" for name in differing]
    collection = f"{each.dataset}/collection.json"
    said += _differing(*(_flat(side.get(collection)) for side in sides))
    return tuple(said[: 2 * MOST_SETTINGS]), tuple(wrong[:MOST_KEYS])


def _documents(letters: Any, dataset: str, moves: list[RefEntry]) -> dict[str, Any]:
    found = {}
    for path, body in islice(letters.at(dataset, moves).documents(), 1000):
        if path.endswith((".json", ".jsonld")) and not path.endswith(".proof.json"):
            found[path] = msgspec.json.decode(body)
    return found


def _flat(document: Any) -> dict[str, Any]:
    plain = {name: value for name, value in (document or {}).items() if name not in ("links", "assets")}
    return {dotted(path): value for path, value in leaves(plain, ())} if plain else {}


# -- leak scan


def check_leaks(session: Session, texts: dict[str, bytes]) -> None:
    """Raise Denied if one of these files shows a value that is known to be protected. The error does not name the
    value."""
    if session.state.protected.is_empty():
        return
    for known in known_of_state(session):
        for name, body in texts.items():
            report = scan(body, known.fingerprints, known.marker)
            if report.verdict != "clean":
                rules = ", ".join(sorted({leak.rule for leak in report.leaks}))
                raise Denied(
                    f"the report would show what is protected: {os.path.basename(name)}, {rules}",
                    hint="nothing of it was written; a steward looks at the branch first",
                    rule="report.leak",
                )
