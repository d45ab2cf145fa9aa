"""`kfm up`: an installation that runs itself: schedules, sources that are watched, triggers that wait, and sinks that
follow, in one process.

It decides when; the walk does what. It holds nothing that must not be lost: a second one beside it, a kill or a clock
that jumps do no harm, because a tick is claimed once and a run has its lease.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from kfm.contract.ports import Log
from kfm.contract.records import Receipt
from kfm.errors import Busy, KfmError
from kfm.house.opening import House
from kfm.house.partitioning import Backfills
from kfm.house.scheduling import Ticker
from kfm.house.turns import Turn
from kfm.house.watching import Watch

SETTLE_MS = 10_000  # between two looks at sinks that did not answer, and at what others left unfinished


class Upkeep:
    """What is due, then what waits."""

    def __init__(
        self,
        house: House,
        datasets: Sequence[str],
        tell: Callable[[str, KfmError], None],
        *,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._house = house
        self._tell = tell
        self._goes_on = goes_on
        self._ticker = Ticker(house, datasets, self._told)
        self.watching = Watch(house, datasets, self._told, polled=_is_polled(house), goes_on=self._may)
        self._turn = Turn(house, datasets)
        self._takes_turns = False
        self._has_turn: bool | None = None
        self._settled = -1  # how far the ledger had come when all were told
        self._settled_at = 0.0
        self._backfills = Backfills(house, datasets, self._told, goes_on=self._may)

    @property
    def schedules(self) -> int:
        return len(self._ticker)

    @property
    def log(self) -> Log:
        return self._house.log

    def lend(self, house: House) -> None:
        """What authors wrote is loaded once."""
        house._updaters = self._house._updaters

    def _told(self, about: str, problem: KfmError) -> None:
        """That another has the work just now is no failure to one that looks again."""
        if self._takes_turns and isinstance(problem, Busy):
            self._house.log.event("run.awaited", about=about, error=problem)
        else:
            self._tell(about, problem)

    def _may(self) -> bool:
        return self._goes_on() and (not self._takes_turns or self._turn.take())

    def my_turn(self) -> bool | None:
        """Is it ours to keep this up? None: it is as it was when this was asked last."""
        self._takes_turns = True
        has = self._turn.take()
        changed, self._has_turn = has != self._has_turn, has
        return has if changed else None

    @property
    def stands_by(self) -> bool:
        return self._has_turn is False

    def wait_for_turn(self) -> bool:
        """For one that ends by itself: had at once, or when whoever had it did not renew it. False: another is up, and
        does what is due."""
        seen = self._turn.holder()
        waited_ms = 0
        while not self._turn.take():
            now = self._turn.holder()
            if now is None:
                continue
            if seen is None or (now.token, now.expires_ms) != (seen.token, seen.expires_ms):
                return False
            if waited_ms > now.ttl_ms:  # its time does not pass: the clock stands still
                return True
            self._house.clock.sleep(0.1)
            waited_ms += 100
        return True

    def end(self) -> None:
        self._turn.give_back()

    def begin(self) -> Iterator[Receipt]:
        """Finish what an earlier process left unfinished."""
        return self.watching.take_up()

    def turn(self, *, patient: bool = True) -> Iterator[Receipt]:
        """One round: claim ticks, look at a source that is due, run what waits, and a partition of each backfill."""
        self._ticker.claim()
        self.watching.poll()
        yield from self.watching.drain(patient=patient)
        yield from self._backfills.turn()

    def more(self) -> bool:
        """Is there a source that was not looked at yet?"""
        return self.watching.more()

    def settles(self) -> bool:
        """Is it time to tell sinks, though nothing was run here? Others run things too, and a sink may answer again."""
        newest = next((entry.index for entry in self._house.state.ledger.entries(reverse=True, limit=1)), 0)
        now = self._house.clock.monotonic()
        if newest == self._settled and 0 <= (now - self._settled_at) * 1000 < SETTLE_MS:
            return False
        self._settled, self._settled_at = newest, now
        return True

    def waits(self) -> bool:
        """Does something wait for a slot of a pool?"""
        return self.watching.waits

    def pause_ms(self) -> int:
        """How long nothing is due; at most a second, because others may put triggers into the inbox."""
        if self.stands_by:
            return 1000
        if self._backfills.more:
            return 0
        at_ms = self._ticker.next_ms()
        soon = 1000 if at_ms is None else max(at_ms - self._house.clock.now_ms(), 0)
        return min(self.watching.pause_ms(), soon, 1000)


class Beside(threading.Thread):
    """Looks at the clock while a run is at work: what comes due meanwhile is claimed at its instant, so that it is
    passed over, queued or takes the place of that run, as it is declared. It holds a house of its own."""

    def __init__(
        self, opened: Callable[[], House], upkeep: Upkeep, datasets: Sequence[str], *, pause_s: float = 1.0
    ) -> None:
        super().__init__(name="beside", daemon=True)
        self._opened = opened
        self._upkeep = upkeep
        self._datasets = datasets
        self._pause_s = pause_s
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        with ExitStack() as stack:
            ticker: Ticker | None = None
            while not self._ended.wait(self._pause_s):
                if not self._upkeep.watching.busy:
                    continue
                try:
                    if ticker is None:
                        house = stack.enter_context(self._opened())
                        self._upkeep.lend(house)
                        ticker = Ticker(house, self._datasets)
                    ticker.claim()
                except KfmError as problem:  # the round after this run claims it
                    self._upkeep.log.event("tick.unclaimed", error=problem)


def _is_polled(house: House) -> Callable[[str, str], bool]:
    """A dataset that has a schedule is looked at by it; of its sources only those that say so are polled beside."""
    from kfm.house.scheduling import schedules_of

    schedules = schedules_of(house.resolved)
    scheduled = {each.dataset for each in schedules if each.on != "event" and not each.implied}

    def polled(dataset: str, source: str) -> bool:
        return dataset not in scheduled or house.dataset(dataset).sources[source].poll_s is not None

    return polled
