"""What arrives from outside, over an open house: webhooks, polls, and the triggers that wait because of them.

Doors come in here for it; what is decided is decided in orchestration/, what is kept is kept by the state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from kfm.clock import parse_instant, rfc3339
from kfm.config import Resolved
from kfm.contract.canonical import canonical
from kfm.contract.overrides import overrides_of
from kfm.contract.records import FetchRequest, Receipt, TelemetryBundle, Trigger
from kfm.contract.secret import Secret
from kfm.engine.record import merge
from kfm.errors import BadInput, Broken, Denied, KfmError, Refused
from kfm.orchestration import triggers
from kfm.orchestration.polling import Timetable, note, shared
from kfm.orchestration.webhooks import (
    Header,
    Hook,
    Message,
    Reception,
    Rejected,
    Scheme,
    signature,
    standard_key,
    verify,
)
from kfm.runtime import House
from kfm.telemetry.failures import FailureLog

__all__ = [
    "Message",
    "Reception",
    "Watch",
    "github_workflow",
    "judge",
    "reception_of",
    "replay",
    "report_job",
    "retry",
    "signed_headers",
    "take",
    "telemetry_bundle",
]

FAILURES = ".kfm/webhook_failures.jsonl"


def hook_of(resolved: Resolved, name: str) -> Hook:
    """A webhook with its secrets. Refused if one is empty or short."""
    said = resolved.config.webhooks[name]
    secrets = tuple(resolved.secret(reference, os.environ) for reference in said.secrets)
    if said.accept == "standard":
        for secret in secrets:
            standard_key(secret)
    return Hook(
        source_id=name,
        secrets=secrets,
        accept=said.accept,
        tolerance_ms=round(said.tolerance_s * 1000),
        enabled=said.enabled,
    )


def reception_of(house: House, tell: Callable[[str, str], None] | None = None) -> Reception:
    """Who judges requests at the door, and notes what is turned away; `tell` hears if that cannot be noted."""
    hooks = {name: hook_of(house.resolved, name) for name in sorted(house.config.webhooks)}
    used: dict[bytes, str] = {}
    for name, hook in hooks.items():
        for value in {secret.reveal() for secret in hook.secrets}:
            if used.setdefault(value, name) != name:
                raise Refused(
                    f"webhooks {used[value]} and {name} have the same secret",
                    hint="give each its own: what was signed for one would be taken by the other",
                )
    return Reception(hooks, house.clock, FailureLog(house.resolved.at(FAILURES), tell=tell))


def take(house: House, messages: Sequence[Message]) -> list[list[str] | None]:
    """Verified messages become triggers, all or none, durably: for each the ids, or None for a replay."""

    def told(message: Message) -> list[Trigger]:
        who, why = f"webhook:{message.source_id}", f"{message.trigger}: {message.event_type}"
        datasets = house.config.webhooks[message.source_id].datasets
        return [house.trigger(name, kind="webhook", actor=who, reason=why) for name in datasets]

    return triggers.take(house.state, messages, told, house.clock.now_ms())


def replay(house: House, source: str, headers: Sequence[Header], body: bytes) -> list[str] | None:
    """Take a request that came while nobody listened: its signature must hold, its age is not asked."""
    hook = msgspec.structs.replace(hook_of(house.resolved, source), tolerance_ms=1 << 60)
    try:
        message = verify(hook, headers, body, house.clock.now_ms())
    except Rejected as refusal:
        raise Denied(f"the request is refused ({refusal.reason})", hint="give it exactly as it came") from None
    return take(house, [message])[0]


def judge(resolved: Resolved, source: str, headers: Sequence[Header], body: bytes) -> dict[str, Any]:
    """Would the door take this request now? Says why not to whoever holds the configuration; changes nothing."""
    from kfm.clock import from_environment

    try:
        message = verify(hook_of(resolved, source), headers, body, from_environment().now_ms())
    except Rejected as refusal:
        return {"accepted": False, "reason": refusal.reason, "status": refusal.status}
    return {
        "accepted": True,
        "source_id": message.source_id,
        "scheme": message.scheme,
        "trigger": message.trigger,
        "event_type": message.event_type,
        "sent_at": None if message.sent_ms is None else rfc3339(message.sent_ms),
    }


def signed_headers(scheme: Scheme, secret: Secret, body: bytes, message_id: str = "") -> dict[str, str]:
    """What a sender gives with this body, now."""
    from kfm.clock import from_environment

    if scheme == "kfm":
        return {"X-KFM-Signature": signature("kfm", secret, body)}
    if scheme == "github":
        return {"X-Hub-Signature-256": signature("github", secret, body), "X-GitHub-Event": "push"}
    stamp = str(from_environment().now_ms() // 1000)
    message_id = message_id or f"msg_{stamp}"
    sealed = signature("standard", secret, body, message_id=message_id, timestamp=stamp)
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": sealed}


def retry(house: House, trigger_id: str) -> Receipt:
    """Run a trigger now: one that waits as it is, one that ended as a new one like it."""
    waiting = house.state.kept_trigger(trigger_id)
    if waiting is None:
        ended = house.state.ended_trigger(trigger_id)
        if ended is None:
            raise BadInput(f"there is no trigger {trigger_id[:80]!r}", hint="see `kfm triggers list --all`")
        if ended.trigger.kind == "operation":
            raise Refused("an operation is not done again", hint="order it anew: `kfm promote`, `kfm rollback` …")
        again = msgspec.structs.replace(ended.trigger, trigger_id="", received_at=rfc3339(house.clock.now_ms()))
        waiting = triggers.keep(house.state, again)
    return house.run(waiting, house.updater_of(waiting))


# -- telemetry


def telemetry_bundle(house: House) -> tuple[str, bytes]:
    """Where the telemetry of every run belongs, and the bundle itself."""
    from kfm import __version__

    found = (house.state.telemetry(entry.run_id) for entry in house.state.ledger())
    runs = [telemetry for telemetry in found if telemetry is not None]
    by_status: dict[str, int] = {}
    for telemetry in runs:
        by_status[telemetry.status] = by_status.get(telemetry.status, 0) + 1
    bundle = TelemetryBundle(version=__version__, runs=runs, by_status=by_status)
    return f"releases/{__version__}/updater-telemetry.json", canonical(bundle)


# -- inside GitHub Actions


def github_workflow(resolved: Resolved, cron: str) -> str:
    """The workflow that runs this installation there."""
    from kfm import DISTRIBUTION, __version__
    from kfm.projections.workflow import workflow

    releases = resolved.config.publish.startswith("github:")
    names = sorted(resolved.config.datasets)
    return workflow(names, cron=cron, package=f"{DISTRIBUTION}=={__version__}", writes_releases=releases)


def report_job(receipts: Sequence[Receipt]) -> None:
    """The summary and the outputs of the job we run in, if we run in one."""
    from kfm.publish.actions import report

    report(os.environ, receipts)


# -- watching


class Watch:
    """Looks at sources by their timetable, and runs what waits: triggers of a dataset that wait together make one run.

    It holds nothing that must not be lost. Another `kfm watch`, or `kfm run` beside it, does no harm.
    """

    def __init__(self, house: House, datasets: Sequence[str], tell: Callable[[str, KfmError], None]) -> None:
        self._house = house
        self._tell = tell
        self._watched = frozenset(datasets)
        said = house.config.watch
        self._debounce_ms = round(said.debounce_s * 1000)
        self._table = Timetable(
            shared(self._sources(datasets)),
            self._now(),
            jitter=said.jitter,
            host_pause_ms=round(said.host_pause_s * 1000),
        )
        self._wait: dict[str, int] = {}  # datasets that failed or are frozen: not before this
        self._failures: dict[str, int] = {}

    def _now(self) -> int:
        return round(self._house.clock.monotonic() * 1000)

    def _sources(self, datasets: Sequence[str]) -> Iterator[tuple[str, FetchRequest, int]]:
        for name in datasets:
            declared = self._house.dataset(name).sources
            for source_name, (request, _) in self._house.ports(name).sources.items():
                own = declared[source_name].poll_s
                interval = self._house.config.watch.poll_s if own is None else own
                if interval:
                    yield name, request, round(interval * 1000)

    def take_up(self) -> Iterator[Receipt]:
        """Finish what an earlier process left unfinished."""
        for unfinished in list(self._house.state.open_runs()):
            if unfinished.dataset in self._watched:
                try:
                    yield from self._house.resume(unfinished.run_id, self._tell)
                except Refused as problem:  # another worker ended it meanwhile
                    self._house.log.event("run.ended", error=problem)

    def poll(self) -> list[Trigger]:
        """Look at one source that is due, if any is; returns the triggers that came of it."""
        poll = self._table.due(self._now())
        if poll is None:
            return []
        house = self._house
        request = msgspec.structs.replace(poll.request, now_ms=house.clock.now_ms())
        try:
            fetched = house.fetch(request)
        except Broken:
            raise
        except KfmError as problem:
            wait = problem.fields.get("retry_after_s")
            self._table.failed(poll, self._now(), wait * 1000 if isinstance(wait, int) else 0)
            self._tell(", ".join(poll.datasets), problem)
            return []
        self._table.answered(poll, self._now())
        kept = note(house.state, poll, fetched, self._asking)
        house.log.event(
            "source.polled", source=request.name or "unnamed", not_modified=fetched.not_modified, triggers=len(kept)
        )
        return kept

    def _asking(self, dataset: str) -> Trigger:
        return self._house.trigger(dataset, kind="poll", actor="kfm watch", reason="its source changed")

    def drain(self, *, patient: bool = True) -> Iterator[Receipt]:
        """Run what waits, a dataset at a time. `patient`: only where nothing came for a while, or it waits long."""
        now = self._now()
        wall = self._house.clock.now_ms()
        for dataset, group in self._groups().items():
            if self._wait.get(dataset, now) > now:
                continue
            ages = sorted(wall - parse_instant(each.received_at, "a trigger") for each in group if each.received_at)
            gathering = bool(ages) and ages[0] < self._debounce_ms and ages[-1] < 10 * self._debounce_ms
            if not (patient and gathering):
                yield from self._answer(dataset, group)

    def _groups(self) -> dict[str, list[Trigger]]:
        groups: dict[str, list[Trigger]] = {}
        for trigger in self._house.state.inbox():
            if trigger.dataset in self._watched and trigger.kind != "operation":
                groups.setdefault(trigger.dataset, []).append(trigger)
        return groups

    def _answer(self, dataset: str, group: list[Trigger]) -> Iterator[Receipt]:
        """One run for the oldest and, if it succeeds, for all that wait for the same; the others in their turn."""
        house = self._house
        while group:
            first, rest = group[0], group[1:]
            try:
                receipt = house.run(first, house.updater_of(first))
            except Broken:
                raise
            except KfmError as problem:
                if house.state.kept_trigger(first.trigger_id) is not None:
                    self._tell(dataset, problem)
                    self._later(dataset)
                return
            yield receipt
            if receipt.status == "FAILED" or receipt.outcome == "frozen":
                self._later(dataset)
                return
            self._failures.pop(dataset, None)
            same = [each for each in rest if each.window == first.window and not overrides_of(each)]
            for each in same:
                merged = merge(each, receipt, house.updater_of(each), house.ports(dataset))
                if merged is not None:
                    yield merged
            group = [each for each in rest if each not in same]

    def _later(self, dataset: str) -> None:
        """Again, but not at once: a second, two, four, up to five minutes."""
        count = self._failures[dataset] = self._failures.get(dataset, 0) + 1
        self._wait[dataset] = self._now() + min(1000 << min(count, 20), 300_000)

    def more(self) -> bool:
        """Is there a source that was not looked at yet?"""
        return self._table.unseen()

    def pause_ms(self) -> int:
        """How long nothing is due; at most a second, because others may put triggers into the inbox."""
        at = self._table.next_ms()
        return 1000 if at is None else min(max(at - self._now(), 0), 1000)
