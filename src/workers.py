"""`python -m workers run | run-job …`: the door to the queue."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    from kfm.workers.main import main as workers

    return workers(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
