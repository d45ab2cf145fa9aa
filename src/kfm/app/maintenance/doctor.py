"""`kfm doctor`: checks the settings, the storage and the integrity of an installation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kfm.app.authority.classification import declared_settings
from kfm.app.authority.gates import Gates
from kfm.app.authority.label_match import problems
from kfm.app.authority.label_mistakes import without_stewards
from kfm.app.authority.labels_in_force import labels_in_force
from kfm.app.authority.recall import closed_datasets
from kfm.app.jobs.untaken_jobs import untaken_jobs
from kfm.app.metadata.catalog_gate import is_gated
from kfm.app.metadata.completion_records import completion_faults
from kfm.app.metadata.ledger_sinks import sink_progress
from kfm.app.metadata.schema_store import LACKING, is_installed
from kfm.app.runs.trigger_request import default_actor
from kfm.app.session.backends import folders, place_verdicts
from kfm.app.session.datasets import dataset_names, dataset_updater
from kfm.app.session.key_list_file import key_list_of_file
from kfm.app.session.protection_files import can_close, custodian_key, policies_of, readable_objects
from kfm.app.session.session import Session, check_not_empty, load, open_tables, session_on
from kfm.app.stewards.evidence import RESTORE, evidence_checks
from kfm.app.stewards.exported_files import NEXT_RUN, are_of_later_runs, exported_differences
from kfm.app.stewards.public_repair import compare_all, published_datasets
from kfm.config import Resolved
from kfm.engine.changes.code_changes import code_changed
from kfm.engine.verify import verify
from kfm.errors import BadInput, KfmError, Refused
from kfm.model import refs
from kfm.model.records import Decision, RefMove
from kfm.model.updater import check_version
from kfm.model.zone_requests import Asking
from kfm.store.filesystem_check import CheckResult, durability, try_out
from kfm.store.index_check import differences
from kfm.validation.source_check import contract_problems


def diagnose(resolved: Resolved, *, deep: bool = False) -> list[CheckResult]:
    """Check contracts, updaters, storage and the settings in force; with `deep` also every stored byte. Return the
    results."""
    found = contract_verdicts(resolved) + updater_verdicts(resolved) + place_verdicts(resolved)
    for what, folder in folders(resolved):
        found += try_out(folder, what)
    if "s3" in (resolved.location(resolved.config.objects)[0], resolved.location(resolved.config.publish)[0]):
        from kfm.app.session.servers import bucket_verdicts

        found += bucket_verdicts(resolved)
    if not all(verdict.ok for verdict in found if not verdict.check.endswith((".filesystem", ".updater"))):
        return found
    found = [
        CheckResult(check="config", ok=False, found=one.message, why=one.hint) for one in resolved.mistakes
    ] + found
    found += catalog_verdicts(resolved) + otel_verdicts(resolved)
    session = session_on(resolved, "write", open_tables(resolved, "write"))
    try:
        if session.is_new:
            found += empty_state_verdicts(session)
        settings = getattr(session.tables, "settings", None)
        if settings is not None:
            found += _durability(settings())
        waiting = sum(1 for _ in session.state.runs.unfinished())
        found.append(CheckResult(check="runs.unfinished", ok=True, found=str(waiting)))
        pending = sorted(session.state.outbox.due("publish"))
        why = "`kfm resume` delivers what was committed and is still pending" if pending else ""
        found.append(CheckResult(check="publish.waiting", ok=True, found=", ".join(pending) or "0", why=why))
        found += queue_verdicts(session) + key_verdicts(session)
        unfit = label_verdicts(session)
        found += unfit
        closed = closed_verdicts(session)
        known = {one.check for one in closed}
        found += closed + [one for one in published_verdicts(session, unfit=bool(unfit)) if one.check not in known]
        found += sink_verdicts(session) + page_verdicts(session)
        found += code_verdicts(session)
        if deep:
            found += verify_everything(session)
            found += evidence_verdicts(session)
            found += public_verdicts(session)
            found += export_verdicts(session)
    finally:
        session.close()
    return found


def _durability(settings: dict[str, str]) -> list[CheckResult]:
    if "postgres" not in settings:
        return durability(settings)
    from kfm.store.postgres.server_settings import server_verdicts

    return server_verdicts(settings)


def queue_verdicts(session: Session) -> list[CheckResult]:
    """Return whether the broker answers that wakes workers, if there is one, and whether workers take jobs."""
    if not session.config.queue:
        return []
    try:
        count = session.wake_up.messages()
    except KfmError as problem:
        why = problem.hint
        if not isinstance(problem, Refused):  # without the secret or the library a worker does not start
            why += f"; until then workers look into the inbox every {session.config.workers.sweep_s:g} s"
        found = CheckResult(check="queue.broker", ok=False, found=problem.message, why=why)
    else:
        found = CheckResult(check="queue.broker", ok=True, found=f"answers; messages: {count}")
    return [found, *worker_verdicts(session)]


def worker_verdicts(session: Session) -> list[CheckResult]:
    """Return a failure if jobs wait for workers and none takes them."""
    found = untaken_jobs(session)
    if found is None:
        return []
    return [CheckResult(check="queue.workers", ok=False, found=found.what, why=f"start one: `{found.command}`")]


def at_a_glance(session: Session) -> list[CheckResult]:
    """Return the results of those checks that write nothing and load no author's code, for `kfm status`."""
    resolved = session.resolved
    accepted = resolved.config.accept_weak_storage
    places = [
        verdict for verdict in place_verdicts(resolved) if not (accepted and verdict.check.endswith(".filesystem"))
    ]
    return (
        contract_verdicts(resolved)
        + places
        + catalog_verdicts(resolved)
        + otel_verdicts(resolved)
        + key_verdicts(session)
        + label_verdicts(session)
        + closed_verdicts(session)
        + sink_verdicts(session)
        + page_verdicts(session)
        + worker_verdicts(session)
    )


def contract_verdicts(resolved: Resolved) -> list[CheckResult]:
    """Return data contracts that are impossible, unsafe or without effect, before any source is fetched."""
    return [
        CheckResult(check=f"{name}.{source_name}.contract", ok=False, found=problem, why="mend it in kfm.yml")
        for name, dataset in sorted(resolved.config.datasets.items())
        for source_name, source in sorted(dataset.sources.items())
        for problem in contract_problems(source.data_contract())
    ]


def updater_verdicts(resolved: Resolved) -> list[CheckResult]:
    """Return updaters that cannot be loaded or have no semantic version. They are created, but none of their methods is
    called."""
    found = []
    for name, dataset in sorted(resolved.config.datasets.items()):
        try:
            check_version(load(resolved, name, dataset))
        except KfmError as problem:
            found.append(CheckResult(check=f"{name}.updater", ok=False, found=problem.message, why=problem.hint))
    return found


def catalog_verdicts(resolved: Resolved) -> list[CheckResult]:
    """Return a failure if a catalog is configured and the library that checks it is missing: then nothing can be
    promoted."""
    if is_installed() or not is_gated(resolved):
        return []
    found = "jsonschema-rs is not installed: nothing can be promoted"
    return [CheckResult(check="catalog.schemas", ok=False, found=found, why=LACKING)]


def otel_verdicts(resolved: Resolved) -> list[CheckResult]:
    """Return a failure if a collector of OpenTelemetry is configured and the library of its messages is missing."""
    if not resolved.config.otel.endpoint:
        return []
    from kfm.sinks.otlp_collector import LACKING as CURE
    from kfm.sinks.otlp_collector import is_installed as has_messages

    if has_messages():
        return []
    found = "opentelemetry-proto is not installed: nothing is sent to the collector"
    return [CheckResult(check="otel", ok=False, found=found, why=CURE)]


def sink_verdicts(session: Session) -> list[CheckResult]:
    """Return sinks that have stopped, or that have refused a message for good."""
    found = []
    for each in sink_progress(session):
        told = []
        if each.stopped is not None:
            told.append(f"stopped: {each.stopped.message}; tried {each.stopped.tries} times since {each.stopped.since}")
        if each.dead:
            told.append(f"{len(each.dead)} refused for good")
        if told:
            why = f"`kfm sinks` says more, `kfm sinks retry {each.name}` tries again"
            found.append(CheckResult(check=f"sink.{each.name}", ok=False, found="; ".join(told), why=why))
    return found


def empty_state_verdicts(session: Session) -> list[CheckResult]:
    """Return whether the state is empty although files are public: its address is probably mistyped."""
    try:
        check_not_empty(session)
    except Refused as problem:
        return [CheckResult(check="state", ok=False, found=problem.message, why=problem.hint)]
    return []


def page_verdicts(session: Session) -> list[CheckResult]:
    """Return whether pages left files of the archive as they are, which is no failure, and whether a catalog that is
    switched off lies in the public folder, where it shows withdrawn versions, too."""
    from kfm.app.metadata.pages_sink import LEFT_CURE, left_files, left_line

    found = left_files(session)
    verdicts = [CheckResult(check="pages", ok=True, found=left_line(found), why=LEFT_CURE)] if found else []
    if not session.resolved.config.catalog and _has_old_catalog(session):
        cure = "remove the folder `catalog` next to the public files, or take `catalog:` out of kfm.yml"
        verdicts.append(CheckResult(check="catalog", ok=False, found="switched off; its files are public", why=cure))
    return verdicts


def _has_old_catalog(session: Session) -> bool:
    """Return whether a catalog that is switched off is public. A bucket is not asked: the state knows what was written
    there and not yet removed."""
    scheme, folder = session.resolved.location(session.config.publish)
    if scheme == "s3":
        return next(session.state.outbox.notes("catalog"), None) is not None
    return scheme == "file" and Path(folder, "catalog", "catalog.json").exists()


def code_verdicts(session: Session) -> list[CheckResult]:
    """Return for each dataset whether its code or declaration has changed since it made the current version. A change
    is no failure, because the output may be the same."""
    found = []
    for name in dataset_names(session):
        if not session.state.refs.at(refs.processed(name)):
            continue
        try:
            updater = dataset_updater(session, name)
        except KfmError:  # `updater_verdicts` reports it
            continue
        changed = code_changed(session.state, updater, name)
        since = f"changed since version {updater.version} made what is there"
        found.append(
            CheckResult(
                check=f"{name}.code",
                ok=True,
                found=since if changed else "as it was when it made what is there",
                why="nothing is run again until `version` changes (or use --force)" if changed else "",
            )
        )
    return found


def key_verdicts(session: Session) -> list[CheckResult]:
    """Return a failure if the key list is missing or is not the one in force: without it no signature counts."""
    try:
        key_list_of_file(session.resolved, session.state)
    except KfmError as problem:
        return [CheckResult(check="keys.list", ok=False, found=problem.message, why=problem.hint)]
    return []


def label_verdicts(session: Session) -> list[CheckResult]:
    """Return masks without a label, labels that match nothing, and unreadable labels. Each of them stops runs and
    publishing."""
    return [
        CheckResult(check="labels.match", ok=False, found=problem.message, why=problem.hint)
        for problem in (*problems(session), *_unsigned_for(session), *_unreadable(session))
    ]


def _unreadable(session: Session) -> Iterator[BadInput]:
    """Yield the masking policies and the custodians' keys that cannot be read."""
    for name in dataset_names(session):
        try:
            policies_of(session.resolved, name)
        except BadInput as problem:
            yield BadInput(f"{name}: {problem.message}", hint=problem.hint)
    for name in sorted(session.config.custodians):
        try:
            custodian_key(session.resolved, name)
        except BadInput:  # its message may quote what was written in place of a reference, which may be the key itself
            hint = f"look at custodians.{name}.key in kfm.yml, which is env:NAME or file:PATH, and at that place"
            yield BadInput(f"the key of custodian {name} cannot be read", hint=hint)


def _unsigned_for(session: Session) -> Iterator[BadInput]:
    """Yield the custodians of labels for whom no person of the key list could sign."""
    try:
        labels = labels_in_force(session)
    except BadInput:  # `problems` reports it
        return
    yield from without_stewards(session, sorted({label.custodian for label in labels.labels} - {""}))


def closed_verdicts(session: Session) -> list[CheckResult]:
    """Return the public datasets that labels, kfm.yml or a masking policy have closed since. The next command that
    writes withdraws them."""
    if not can_close(session.resolved, session.state):
        return []
    try:
        closed = list(closed_datasets(session))
    except KfmError as problem:
        found = f"whether a public dataset was closed cannot be said: {problem.message}"
        return [CheckResult(check="published.closed", ok=False, found=found, why=problem.hint)]
    return [
        CheckResult(
            check=refs.published(one.dataset).replace("/", "."),
            ok=False,
            found=f"public, and closed since it was published: {', '.join(one.rules)}",
            why="`kfm resume` withdraws it",
        )
        for one in closed
    ]


def published_verdicts(session: Session, *, unfit: bool = False) -> list[CheckResult]:
    """Return whether each published version would pass the gate today. A dataset may have been restricted since."""
    found = []
    asking = Asking(who=default_actor(), what="look", when_ms=session.clock.now_ms(), why="doctor")
    for ref, version in session.state.refs.all(refs.PUBLISHED):
        name = refs.parse(ref).dataset
        move = RefMove(ref=ref, before=version, after=version)
        gates = Gates(session.resolved, name, declared_settings(session, name).metadata, session)
        try:
            decision = gates.published(session.state, session.objects, move, asking=asking, read=False)
        except BadInput as problem:
            if not unfit:
                raise
            cure = f"withdraw it: `kfm rollback {name} --to nothing --reason …`, or mend that"
            found.append(CheckResult(check=ref.replace("/", "."), ok=False, found=problem.message, why=cure))
            continue
        found.append(
            CheckResult(
                check=ref.replace("/", "."),
                ok=decision.allow is True,
                found="may be public" if decision.allow is True else "; ".join(decision.reasons),
                why=_remedy(name, decision),
            )
        )
    return found


def public_verdicts(session: Session) -> list[CheckResult]:
    """Return whether the public files match the refs byte for byte."""
    found = []
    for name in published_datasets(session):
        wrong, problems = compare_all(session, [name])
        kinds = Counter(difference.kind for difference in wrong)
        told = [f"{count} {kind}" for kind, count in sorted(kinds.items())] + [p.message for _, p in problems]
        found.append(
            CheckResult(
                check=f"public.{name}",
                ok=not told,
                found=", ".join(told) or "as the refs say",
                why=f"`kfm reconcile {name}` names them, `--repair` puts it right" if told else "",
            )
        )
    return found


def evidence_verdicts(session: Session) -> list[CheckResult]:
    """Return whether every statement, list and receipt is there that the signed lists and the ledger name, and whether
    every completion names the receipt of its run."""
    wrong = [
        CheckResult(check=f"evidence.{dataset}", ok=False, found=f"{check.what}: {check.found}", why=RESTORE)
        for dataset, check in evidence_checks(session)
    ]
    wrong += [
        CheckResult(check=f"evidence.{dataset}", ok=False, found=fault, why=RESTORE)
        for dataset, fault in completion_faults(session)
    ]
    return wrong or [CheckResult(check="evidence", ok=True, found="as the ledger and the signed lists say")]


def export_verdicts(session: Session) -> list[CheckResult]:
    """Return whether receipts, checkpoints, artifacts and the catalog are outside as the state has them."""
    found = []
    try:
        exported = exported_differences(session)
    except KfmError as problem:
        return [CheckResult(check="exported", ok=False, found=problem.message, why=problem.hint)]
    for what, different in exported.items():
        told = ", ".join(f"{one.path} is {one.kind}" for one in different[:3])
        more = f", and {len(different) - 3} more" if different[3:] else ""
        if what == "artifacts" and not different and are_of_later_runs(session):
            told = "as the receipt says of a run that this state does not hold"
        why = NEXT_RUN if what == "artifacts" else "`kfm reconcile` names them, `kfm reconcile --repair` puts it right"
        found.append(
            CheckResult(
                check=f"exported.{what}",
                ok=not different,
                found=told + more or "as the state says",
                why=why if different else "",
            )
        )
    return found


def _remedy(name: str, decision: Decision) -> str:
    if decision.allow is True:
        return ""
    if any(reason.startswith("checksums:") for reason in decision.reasons):
        return "restore the objects from a backup; `kfm doctor --deep` names what is damaged"
    return f"withdraw it: `kfm rollback {name} --to nothing --reason …`"


def verify_everything(session: Session) -> list[CheckResult]:
    """Read and check every row, index, ledger entry and object. Raises Corrupt at the first that is damaged."""
    check_rows = getattr(session.tables, "verify", None)
    rows = check_rows() if check_rows is not None else 0
    wrong = differences(session.state)
    report = verify(session.state, session.objects, readable_objects(session))
    check_objects = getattr(session.objects, "verify", None)
    stored = check_objects() if check_objects is not None else report.objects
    return [
        CheckResult(check="state.rows", ok=True, found=f"{rows} rows intact"),
        CheckResult(
            check="state.maps",
            ok=not wrong,
            found="; ".join(wrong) or "as the records say",
            why="restore the state from a copy" if wrong else "",
        ),
        CheckResult(check="ledger.chain", ok=True, found=f"{report.entries} entries intact"),
        CheckResult(
            check="objects.bytes",
            ok=True,
            found=f"{stored} objects intact"
            + (f"; {report.closed} versions are encrypted, and their content was not checked" if report.closed else ""),
        ),
    ]
