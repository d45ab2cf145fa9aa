"""Luigi, local scheduler: python peer_luigi.py CASE N FOLDER

A task is done when its output file exists. The file is renamed into place and never synced.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import luigi
from probe import Stopwatch, kill_and_resume, mark, payload


class Link(luigi.Task):
    """One step of a chain; `i` is its place, `folder` where its file lies."""

    i: Any = luigi.IntParameter()
    folder: Any = luigi.Parameter()
    marks: Any = luigi.Parameter(default="")

    def requires(self) -> list[luigi.Task]:
        return [] if self.i == 0 else [Link(i=self.i - 1, folder=self.folder, marks=self.marks)]

    def output(self) -> Any:
        return luigi.LocalTarget(os.path.join(self.folder, f"{self.i}.txt"))

    def run(self) -> None:
        if self.marks:
            mark(self.marks, self.i)
        with self.output().open("w") as file:
            file.write(payload(self.i).decode())


class Alone(Link):
    """A step that needs no other."""

    def requires(self) -> list[luigi.Task]:
        return []


def build(tasks: list[luigi.Task]) -> None:
    if not luigi.build(tasks, local_scheduler=True, workers=1, log_level="CRITICAL"):
        raise SystemExit("luigi says the build failed")


def main() -> None:
    case, n, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    sys.setrecursionlimit(100_000)
    logging.disable(logging.CRITICAL)
    if case == "resume":
        victim = [sys.executable, __file__, "victim", str(n), folder]
        kill_and_resume(victim, victim, os.path.join(folder, "marks"), n // 2, n)
        return
    with Stopwatch() as watch:
        if case == "chain":
            build([Link(i=n - 1, folder=folder)])
        elif case == "victim":
            build([Link(i=n - 1, folder=folder, marks=os.path.join(folder, "marks"))])
        elif case == "wide":
            build([Alone(i=i, folder=folder) for i in range(n)])
        elif case == "one":
            for i in range(n):
                build([Alone(i=i, folder=folder)])
        elif case == "skip":
            build([Alone(i=0, folder=folder)])
            watch.__enter__()
            for _ in range(n):
                build([Alone(i=0, folder=folder)])
        else:
            raise SystemExit(f"unknown case {case}")
    watch.report(n)


if __name__ == "__main__":
    main()
