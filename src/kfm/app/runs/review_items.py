"""Work that waits for a steward, apart from change requests: quarantined rows, and work that a gate stopped.

Items hold rules, counts and digests, never a value of the data. Protected values are read with the custodian's key, by
`kfm quarantine --rows` and `kfm cat`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kfm.app.authority.private_reasons import shown_reason
from kfm.app.authority.withdrawals import withdrawing_move
from kfm.app.runs.queries import held_sources
from kfm.app.session.protection_files import readable_objects
from kfm.app.session.review_item import ReviewItem
from kfm.delivery.corrections import fixes_of
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.interventions.hotfix_set import waiting
from kfm.model.manifests import changes
from kfm.model.records import Receipt, RefEntry

if TYPE_CHECKING:
    from kfm.app.session.session import Session

LOOKED_AT = 2000  # how many ledger entries are searched for denials, newest first


def held_items(session: Session) -> Iterator[ReviewItem]:
    """Yield an item for each dataset that has quarantined rows or sources."""
    for name in sorted(session.config.datasets):
        sources = held_sources(session, name)
        if not sources:
            continue
        rows, held = (sum(one[field] for one in sources) for field in ("rows", "held_rows"))
        whole = [one["source"] for one in sources if one["held"]]
        last = next(iter(session.state.refs.history(refs.quarantine(name), reverse=True, limit=1)), None)
        yield ReviewItem(
            kind="held",
            id=f"held-{name}",
            dataset=name,
            what=f"source {', '.join(whole)} is quarantined as a whole"
            if whole
            else f"{held} of {rows} rows are quarantined",
            state="held",
            since=last.ts if last else "",
            more={"next": f"kfm quarantine {name}", "findings": [line for one in sources for line in _findings(one)]},
        )


def hotfix_items(session: Session) -> Iterator[ReviewItem]:
    """Yield an item for each hotfix that does not hold for the published version, because that says something else."""
    for ref, _ in session.state.refs.all(refs.HOTFIX):
        name = refs.parse(ref).dataset
        at = session.state.refs.at(refs.published(name))
        made = session.state.ledger.version(name, at) if at else None
        if made is None:
            continue
        last = next(iter(session.state.refs.history(refs.published(name), reverse=True, limit=1)), None)
        for fix in waiting(made.metadata, made.digest, fixes_of(session.state, session.objects, name)):
            pinned = fix.version not in ("", made.digest)
            found = "version" if pinned else ", ".join(sorted(fix.before))
            yield ReviewItem(
                kind="hotfix",
                id=f"hotfix-{name}-{fix.name}",
                dataset=name,
                what=f"hotfix {fix.name} expects another {found} than {name} has now",
                state="held",
                since=last.ts if last else "",
                more={"next": f"kfm hotfix revert {fix.name} --dataset {name} --reason …"},
            )


def _findings(source: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield one line for each kind of finding, with its count and the first rows that have it."""
    kinds: dict[tuple[str, str, str], list[int]] = {}
    for one in source["findings"]:
        kinds.setdefault((one["column"], one["rule"], one["message"]), []).append(one["row"])
    for (column, rule, message), rows in kinds.items():
        places = [str(row) for row in rows if row]
        yield {
            "source": source["source"],
            "column": column,
            "rule": rule,
            "times": str(len(rows)),
            "rows": ", ".join(places[:3]) + (" …" if len(places) > 3 else ""),
            "what": message,
        }


def gate_items(session: Session) -> Iterator[ReviewItem]:
    """Yield an item for each kind of work on a dataset whose latest run was stopped by a gate."""
    seen: set[tuple[str, str]] = set()
    for entry in session.state.ledger.entries(reverse=True, limit=LOOKED_AT):
        work = (entry.dataset, entry.op_type)
        receipt = session.state.ledger.receipt(entry.run_id) if work not in seen else None
        if receipt is None or receipt.dry_run:
            continue
        seen.add(work)
        reasons = _against(receipt) if receipt.status != "SUCCESS" else []
        if not reasons:
            continue
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        yield ReviewItem(
            kind="gate",
            id=f"gate-{entry.run_id[:12]}",
            dataset=entry.dataset,
            what=f"{entry.op_type}: {reasons[0]['reason']}{more}",
            state="stopped",
            since=receipt.finished_at,
            asked_by=receipt.actor,
            reason=shown_reason(session, receipt.reason),
            more={
                **_difference(session, entry.dataset),
                "next": f"kfm policy gates {entry.dataset}",
                "reasons": reasons,
            },
        )


def _against(receipt: Receipt) -> list[dict[str, str]]:
    said = [
        {"gate": one.gate, "reason": reason, "about": one.subject[:19]}
        for one in receipt.policy_decisions
        if not one.allow
        for reason in one.reasons or ["the gate gave no reason"]
    ]
    denied = [note for note in receipt.errors if note.code.startswith("denied")]
    return said or [{"gate": "", "reason": note.message, "about": ""} for note in denied]


def _difference(session: Session, dataset: str) -> dict[str, str]:
    """Return the published version, the one that would replace it, the number of keys in which they differ, and who
    withdrew the latter before, if that happened."""
    before, after = (session.state.refs.at(refs.in_zone(zone, dataset)) or "" for zone in ("published", "processed"))
    if not after:
        return {}
    try:
        kinds = [each.what for each in changes(readable_objects(session), before, after)]
        counted = ", ".join(f"{kinds.count(what)} {what}" for what in ("added", "changed", "removed"))
    except KfmError:
        counted = "not shown: its key is not at hand"
    said = {"before": before or "nothing", "after": after, "keys": counted}
    move = withdrawing_move(session, dataset, after)
    return {**said, **(withdrawal_evidence(session, move) if move is not None else {})}


def withdrawal_evidence(session: Session, move: RefEntry) -> dict[str, str]:
    """Return by whom, when and why the version was withdrawn that a request would publish again."""
    why = shown_reason(session, move.reason)
    return {"withdrawn": f"by {move.actor} at {move.ts}" + (f": {why}" if why else "")}
