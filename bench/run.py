"""Measures KFM against what the disk allows and against peers: `make bench`.

Writes bench/results/<date>-<kind of machine>.json and the tables of docs/performance.md. A quick or
partial contest is printed and written nowhere unless --write says so.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import fcntl
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import contest
import peers
import render
import shim
from works import TARGETS, WORKS

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"
RESULTS = HERE / "results"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.render:
        write_page(json.loads(Path(options.render).read_text()))
        return 0
    started = time.monotonic()
    notices: list[str] = []
    room = Path(options.dir).resolve() / ".work" if options.dir else HERE / ".work"
    room.mkdir(parents=True, exist_ok=True)
    (HERE / ".work").mkdir(exist_ok=True)
    alone = (HERE / ".work" / "alone").open("w")  # held until we end
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another contest is being measured here; two at once would measure each other")
        return 1
    machine = describe(room)
    if machine["filesystem"] in ("tmpfs", "ramfs"):
        os.environ["BENCH_IN_MEMORY"] = "1"
        notices.append(f"Measured on {machine['filesystem']}: a sync costs nothing there and keeps nothing.")
    others = busy_share()
    if others > 0.2:
        notices.append(
            f"The machine was busy with other work ({others:.0%} of its processors before the start): "
            "times are too long and spreads too wide."
        )
    library = None
    try:
        library = shim.build(room)
        check_shim(library, room)
    except shim.NoShim as problem:
        notices.append(f"No syncs were counted and none were slowed: {problem}.")
    chosen = [
        work
        for work in WORKS
        if (not options.only or work.id in options.only)
        and (options.big or not work.big)
        and (library is not None or not work.delay_us)
    ]
    if not options.no_peers:
        notices += absent_peers(chosen)
    for notice in notices:
        say(notice)
    setting = contest.Setting(
        room=room,
        python_of=python_of,
        rounds=options.rounds or (1 if options.quick else 5),
        scale=0.2 if options.quick else 1.0,
        peers=not options.no_peers,
        library=library,
        say=say,
    )
    compileall.compile_dir(HERE.parent / "src", quiet=1)  # as installing a wheel does; the peers came compiled too
    contest.adopt_orphans()
    works = []
    for work in chosen:
        say(work.title)
        works.append(render.work_result(work, contest.contest(work, setting)))
    result = {
        "schema": 1,
        "date": datetime.date.today().isoformat(),
        "kfm": kfm_version(),
        "machine": machine,
        "rounds": setting.rounds,
        "quick": options.quick,
        "notices": notices,
        "peers": {name: peers.version(name) for name in peers.NAMES if not options.no_peers and peers.present(name)},
        "works": works,
        "targets": render.target_results(works, TARGETS),
    }
    sys.stdout.write(render.render(result))
    say(f"{time.monotonic() - started:.0f} s in all")
    partial = options.quick or options.only or options.no_peers
    if not partial or options.write:
        keep(result)
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of a fifth of the work")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=[work.id for work in WORKS],
        help="only this work; repeatable",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each work (5)")
    parser.add_argument("--no-peers", action="store_true", help="KFM and the yardsticks alone")
    parser.add_argument(
        "--big", action="store_true", help="also the work of a million steps or keys, and the source of 5 GiB"
    )
    parser.add_argument("--dir", metavar="FOLDER", help="measure the disk of this folder")
    parser.add_argument("--write", action="store_true", help="keep the result even of a partial contest")
    parser.add_argument("--render", metavar="RESULT", help="write the page from a recorded result and measure nothing")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def python_of(contestant: contest.Contestant) -> str | None:
    if not contestant.peer:
        return sys.executable
    return str(peers.python_of(contestant.peer)) if peers.present(contestant.peer) else None


def absent_peers(chosen: list[contest.Work]) -> list[str]:
    """Install what is missing; what stays missing is named and left out."""
    ranked = [c for work in chosen for c in (work.yardstick, *work.contestants) if c is not None]
    wanted = {c.peer for c in ranked if c.peer}
    notices = []
    for name in peers.NAMES:
        if name in wanted and not peers.present(name):
            say(f"installing {peers.TITLES[name]} {peers.version(name)} into bench/.peers …")
            why = peers.install(name)
            if why:
                notices.append(f"{peers.TITLES[name]} is absent: {why}.")
    return notices


def check_shim(library: Path, room: Path) -> None:
    """The bundled SQLite must go through the shim, or its numbers would mean nothing."""
    setting = contest.Setting(room=room, python_of=python_of, library=library)
    ruler = next(work.yardstick for work in WORKS if work.yardstick)
    counted = contest.run_child(setting, ruler, 20, delay_us=1000)
    if not counted["syncs"] or counted["syncs"] < 20 or counted["seconds"] < 0.02:
        raise shim.NoShim("the preloaded library did not reach SQLite's syncs")


def kfm_version() -> str:
    from kfm import __version__

    return __version__


def describe(room: Path) -> dict[str, Any]:
    """The kind of machine, without saying which one."""
    import apsw

    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "filesystem": filesystem_of(room),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def busy_share(seconds: float = 2) -> float:
    """How much of the processors others use while we do nothing. The load average remembers too long."""

    def ticks() -> tuple[int, int]:
        fields = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]

    try:
        whole, idle = ticks()
        time.sleep(seconds)
        whole_after, idle_after = ticks()
    except OSError:
        return 0.0
    return 1 - (idle_after - idle) / max(1, whole_after - whole)


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def filesystem_of(folder: Path) -> str:
    """Type of the file system the folder is on, from the longest mount point above it."""
    best = ("", "unknown")
    try:
        for line in Path("/proc/mounts").read_text().splitlines():
            _, point, kind, *_ = line.split()
            if (folder == Path(point) or Path(point) in folder.parents) and len(point) > len(best[0]):
                best = (point, kind)
    except OSError:
        pass
    return best[1]


def keep(result: dict[str, Any]) -> None:
    machine = result["machine"]
    kind = f"{machine['system'].split()[0].lower()}-{machine['machine']}-{machine['cores']}-cores"
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{result['date']}-{kind}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    write_page(result)
    say(f"wrote {path.relative_to(HERE.parent)} and {PAGE.relative_to(HERE.parent)}")


def write_page(result: dict[str, Any]) -> None:
    PAGE.write_text(render.into_page(PAGE.read_text(), render.render(result)))


if __name__ == "__main__":
    sys.exit(main())
