"""`kfm up`: an installation that runs itself. Schedules, sources that are watched, triggers that wait, in one process.

It decides when; the walk does what. It holds nothing that must not be lost: a second one beside it, a kill or a clock
that jumps do no harm, because a tick is claimed once and a run has its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kfm.contract.records import Receipt
from kfm.errors import KfmError
from kfm.house.opening import House
from kfm.house.scheduling import Ticker
from kfm.house.watching import Watch


class Upkeep:
    """What is due, then what waits."""

    def __init__(self, house: House, datasets: Sequence[str], tell: Callable[[str, KfmError], None]) -> None:
        self._house = house
        self._ticker = Ticker(house, datasets)
        self.watching = Watch(house, datasets, tell, polled=_is_polled(house))

    @property
    def schedules(self) -> int:
        return len(self._ticker)

    def begin(self) -> Iterator[Receipt]:
        """Finish what an earlier process left unfinished."""
        return self.watching.take_up()

    def turn(self, *, patient: bool = True) -> Iterator[Receipt]:
        """One round: claim ticks, look at a source that is due, run what waits."""
        self._ticker.claim()
        self.watching.poll()
        yield from self.watching.drain(patient=patient)

    def more(self) -> bool:
        """Is there a source that was not looked at yet?"""
        return self.watching.more()

    def pause_ms(self) -> int:
        """How long nothing is due; at most a second, because others may put triggers into the inbox."""
        at_ms = self._ticker.next_ms()
        soon = 1000 if at_ms is None else max(at_ms - self._house.clock.now_ms(), 0)
        return min(self.watching.pause_ms(), soon, 1000)


def _is_polled(house: House) -> Callable[[str, str], bool]:
    """A dataset that has a schedule is looked at by it; of its sources only those that say so are polled beside."""
    from kfm.house.scheduling import schedules_of

    scheduled = {each.dataset for each in schedules_of(house.resolved)}

    def polled(dataset: str, source: str) -> bool:
        return dataset not in scheduled or house.dataset(dataset).sources[source].poll_s is not None

    return polled
