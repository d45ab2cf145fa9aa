"""The energy counters of a processor: which of them count, and what is said where they cannot be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kfm.telemetry import rapl
from kfm.telemetry.rapl import MOST_WATTS, Package, Rapl, machine_idle_s, open_rapl
from tests.telemetry.rapl_tree import RANGE_UJ, RaplTree

WHOLE = 2.0  # processor seconds of this process in a second of two processors that were never idle


class Machine:
    """Two processors, and a clock that a test moves."""

    def __init__(self, tree: RaplTree) -> None:
        self.now, self.idle, self.cpu = 100.0, 50.0, 0.0
        packages = [Package(str(tree.folder / f"intel-rapl:{n}")) for n in range(2)]
        self.rapl = Rapl(packages, monotonic=lambda: self.now, idle_s=lambda: self.idle, cores=2)

    def step(self, cpu: float, idle: float = 0.0, seconds: float = 1.0) -> float | None:
        self.now, self.idle, self.cpu = self.now + seconds, self.idle + idle, self.cpu + cpu
        return self.rapl.step(self.cpu)


@pytest.fixture
def tree(tmp_path: Path) -> RaplTree:
    return RaplTree(tmp_path / "powercap")


def opened(tree: RaplTree) -> Rapl:
    found = open_rapl(str(tree.folder))
    assert isinstance(found, Rapl), found
    return found


def test_packages_count_and_their_parts_do_not_count_again(tree: RaplTree) -> None:
    machine = Machine(tree)
    tree.spend(10, "intel-rapl:0")
    tree.spend(4, "intel-rapl:1")
    assert int(tree.counter("intel-rapl:0:0").read_text()) == 11_000_000, "the part has moved"
    assert int(tree.counter("intel-rapl:2").read_text()) == 15_000_000, "and so has the platform"
    assert machine.step(WHOLE) == pytest.approx(14)
    assert machine.step(WHOLE) == 0, "nothing is counted twice"
    assert len(opened(tree).packages) == 2


def test_a_counter_that_wrapped_around_goes_on(tree: RaplTree) -> None:
    tree.counter("intel-rapl:1").write_text(f"{RANGE_UJ - 3_000_000}\n")
    machine = Machine(tree)
    tree.spend(5, "intel-rapl:1")
    assert int(tree.counter("intel-rapl:1").read_text()) == 2_000_000, "it wrapped"
    assert machine.step(WHOLE) == pytest.approx(5)
    tree.spend(1, "intel-rapl:1")
    assert machine.step(WHOLE) == pytest.approx(1)


def test_a_counter_that_may_have_wrapped_twice_says_nothing_once(tree: RaplTree) -> None:
    machine = Machine(tree)
    longest = RANGE_UJ / 1e6 / MOST_WATTS
    tree.spend(10)
    assert machine.step(WHOLE, seconds=longest + 1) is None and not machine.rapl.problem
    tree.spend(10)
    assert machine.step(WHOLE) == pytest.approx(10)


def test_a_counter_that_was_reset_says_nothing_once(tree: RaplTree) -> None:
    tree.spend(500)
    machine = Machine(tree)
    tree.counter("intel-rapl:0").write_text("0\n")
    assert machine.step(WHOLE) is None and not machine.rapl.problem
    tree.spend(10)
    assert machine.step(WHOLE) == pytest.approx(10)


@pytest.mark.parametrize(
    ("cpu", "idle", "joules"),
    [
        (2.0, 0.0, 100.0),  # it alone was busy
        (0.5, 1.5, 100.0),  # it alone was busy, for a quarter of the time
        (0.5, 1.0, 50.0),  # another process was as busy
        (0.5, 0.0, 25.0),
        (0.0, 1.0, 0.0),
        (0.001, 2.01, 100.0),  # idle time in steps of the kernel: more than there was
        (3.0, 0.0, 100.0),  # a child that ended brought time from before
    ],
)
def test_a_process_has_its_share_of_busy_processor_time(tree: RaplTree, cpu: float, idle: float, joules: float) -> None:
    machine = Machine(tree)
    tree.spend(100)
    assert machine.step(cpu, idle) == pytest.approx(joules)


def test_where_there_are_no_counters_the_reason_is_said(tmp_path: Path, tree: RaplTree) -> None:
    assert open_rapl(str(tmp_path / "nowhere")) == "no such file or directory"
    (tmp_path / "empty").mkdir()
    assert open_rapl(str(tmp_path / "empty")) == "it has no counter of a processor package"
    for name in ("intel-rapl:0", "intel-rapl:1"):
        (tree.folder / name / "name").write_text("psys\n")
    assert open_rapl(str(tree.folder)) == "it has no counter of a processor package"


@pytest.mark.parametrize("body", ["", "abc", "-5", "1.5", "1e9", "9" * 60, "1 2", "\u0663"])
@pytest.mark.parametrize("file", ["energy_uj", "max_energy_range_uj"])
def test_what_is_no_number_is_no_counter(tree: RaplTree, file: str, body: str) -> None:
    (tree.folder / "intel-rapl:1" / file).write_text(body)
    assert open_rapl(str(tree.folder)) == "it is not a number"


def test_a_range_of_nothing_is_no_range(tree: RaplTree) -> None:
    (tree.folder / "intel-rapl:1" / "max_energy_range_uj").write_text("0")
    assert open_rapl(str(tree.folder)) == "it is not a number"


@pytest.mark.parametrize(
    ("code", "said"), [(errno.EACCES, "permission denied"), (errno.EPERM, "permission denied"), (errno.EIO, None)]
)
def test_a_counter_that_may_not_be_read_is_not_measured(
    tree: RaplTree, monkeypatch: pytest.MonkeyPatch, code: int, said: str | None
) -> None:
    refused: list[str] = []
    really = os.open

    def refusing(path: str, flags: int, *more: int) -> int:
        if str(path).endswith("intel-rapl:1/energy_uj"):
            refused.append(path)
            raise OSError(code, os.strerror(code))
        return really(path, flags, *more)

    monkeypatch.setattr(os, "open", refusing)
    before = len(os.listdir("/proc/self/fd"))
    assert open_rapl(str(tree.folder)) == (said or os.strerror(code).lower()) and refused
    assert len(os.listdir("/proc/self/fd")) == before, "the other counter is closed"


@pytest.mark.parametrize("fault", ["gone", "garbage", "idle"])
def test_a_counter_that_fails_later_ends_the_measuring(
    tree: RaplTree, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    machine = Machine(tree)
    tree.spend(1)
    assert machine.step(WHOLE) == pytest.approx(1)
    fired: list[str] = []
    if fault == "garbage":
        tree.counter("intel-rapl:1").write_text("nonsense")
        fired.append(fault)
    elif fault == "idle":
        monkeypatch.setattr(machine.rapl, "_idle_s", lambda: fired.append(fault) or float("x"))
    else:

        def gone(_fd: int, _size: int, _at: int) -> bytes:
            fired.append(fault)
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

        monkeypatch.setattr(os, "pread", gone)
    assert machine.step(WHOLE) is None and fired
    assert machine.rapl.problem == ("no such device" if fault == "gone" else "it is not a number")
    monkeypatch.undo()
    assert machine.step(WHOLE) is None, "it is not read again"


@pytest.mark.parametrize("body", ["", "5.0", "a b", "1 2 3"])
def test_idle_time_that_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    assert machine_idle_s() >= 0, "that of this machine is one"
    (tmp_path / "uptime").write_text(body)
    monkeypatch.setattr(rapl, "IDLE", str(tmp_path / "uptime"))
    with pytest.raises(ValueError):
        machine_idle_s()
