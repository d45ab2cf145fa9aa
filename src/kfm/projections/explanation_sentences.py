"""Plain sentences that explain a run, each with the digests of the facts it cites. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kfm.model.labels import COMMUNITY, PUBLISHABLE
from kfm.model.public_run import WITHHELD_SOURCE, PublicRun
from kfm.model.records import Record, TriggerKind
from kfm.projections.vocabulary import name_of

SHOWN = 10  # most inputs or artifacts listed; the rest are counted
_ASKED: dict[TriggerKind, str] = {
    "manual": "on demand",
    "schedule": "by its schedule",
    "webhook": "by a message from its source",
    "poll": "because its source had changed",
    "event": "because its source or a dataset that it reads had changed",
    "anomaly": "because a run had crossed a threshold",
    "job": "by a job",
    "operation": "by an operator",
}
_DID = {"promote": "published", "rollback": "rolled back", "hotfix": "patched", "freeze": "froze", "thaw": "thawed"}


class Line(Record, frozen=True):
    """One sentence. `cites` are digests; the first belongs to the main subject of the sentence."""

    about: str  # run | input | output | removed | governance | evidence
    text: str
    cites: tuple[str, ...]


def sentences(run: PublicRun, today: str = "") -> list[Line]:
    """Return the sentences about one run. `today` is the present level of what it made, if that is known."""
    return [*_what(run), *_inputs(run), *_outputs(run), *_governance(run, today), *_evidence(run)]


def chain(runs: Iterable[PublicRun]) -> list[Line]:
    """Return the sentences about a chain of runs, oldest first."""
    return [line for run in runs for line in sentences(run)]


def _what(run: PublicRun) -> list[Line]:
    name, who = name_of(run.dataset), f"{run.updater_id} {run.updater_version}"
    asked, day = _ASKED[run.trigger], run.started_at
    dry = "In a dry run, " if run.dry_run else ""
    if run.artifacts or (run.version and run.op not in _DID):
        did = f"{who} made version {_short(run.version)} of {name}"
    elif run.op in _DID and run.ref:
        to = f" to version {_short(run.version)}" if run.version else ", so that nothing of it is there any more"
        did = f"{who} {_DID[run.op]} {name}{to}"
    else:
        did = f"{who} changed nothing of {name}: it ended as {run.outcome}"
    return [
        Line(about="run", text=f"{dry}{did}, asked {asked}, at {day}.", cites=_cites(run.receipt_digest, run.version))
    ]


def _inputs(run: PublicRun) -> list[Line]:
    lines = []
    for each in run.inputs[:SHOWN]:
        size = f", {each.size} bytes" if each.size is not None else ""
        hidden = each.id.startswith(WITHHELD_SOURCE)
        what = "a protected source, whose address is withheld" if hidden else each.id
        lines.append(
            Line(about="input", text=f"It read {what}{size}.", cites=_cites(each.checksum) or (run.receipt_digest,))
        )
    return lines + _more(len(run.inputs) - SHOWN, "input", "inputs", run.input_hash or run.receipt_digest)


def _outputs(run: PublicRun) -> list[Line]:
    lines = [
        Line(about="output", text=f"It made {each.id}, {each.size} bytes.", cites=(each.digest,))
        for each in run.artifacts[:SHOWN]
    ]
    lines += _more(len(run.artifacts) - SHOWN, "output", "files", run.version)
    if run.removed:
        text = f"It removed {len(run.removed)} that the version before had."
        lines.append(Line(about="removed", text=text, cites=_cites(run.version, run.before)))
    if run.rows is not None and run.artifacts:
        held = f", and held {run.held_rows} of them back" if run.held_rows else ""
        lines.append(Line(about="output", text=f"It read {run.rows} rows{held}.", cites=(run.receipt_digest,)))
    return lines


def _governance(run: PublicRun, today: str) -> list[Line]:
    labels = run.labels
    if labels is None:
        return []
    if today in ("", labels.level):
        said = [f"It is {labels.level}; in the words of CARE it is {labels.care}, and access to it is {labels.access}."]
    else:
        said = [f"It was {labels.level} when it was made; today it is {today}."]
    if labels.resolution is not None and (today or labels.level) in PUBLISHABLE:
        said.append(f"No place in it is shown finer than one H3 cell of resolution {labels.resolution}.")
    names = [f"{code} ({COMMUNITY[code][0]})" for code in labels.community_labels if code in COMMUNITY]
    if names:
        said.append(f"It carries the labels {', '.join(names)}.")
    if labels.custodians:
        said.append(f"It is in the custody of {', '.join(labels.custodians)}.")
    if labels.authorities:
        said.append(f"{', '.join(labels.authorities)} decides about it.")
    if labels.expires:
        said.append(f"The consent lasts until {labels.expires}; then it is withdrawn.")
    if labels.rules:
        said.append(f"It is not more open because of {', '.join(labels.rules)}.")
    return [Line(about="governance", text=text, cites=(run.receipt_digest,)) for text in said]


def _evidence(run: PublicRun) -> list[Line]:
    lines = []
    if run.plan_hash:
        lines.append(Line(about="evidence", text="It followed a plan that is kept.", cites=(run.plan_hash,)))
    if run.code_hash:
        lines.append(Line(about="evidence", text="Its code is pinned.", cites=(run.code_hash,)))
    if run.config_hash:
        lines.append(Line(about="evidence", text="So is its configuration.", cites=(run.config_hash,)))
    text = f"Its receipt is entry {run.index} of the ledger."
    return [*lines, Line(about="evidence", text=text, cites=(run.receipt_digest,))]


def _more(count: int, about: str, what: str, digest: str) -> list[Line]:
    return [Line(about=about, text=f"There are {count} more {what}.", cites=_cites(digest))] if count > 0 else []


def _short(digest: str) -> str:
    return digest[7:23]


def _cites(*digests: str) -> tuple[str, ...]:
    return tuple(digest for digest in digests if digest.startswith("sha256:"))
