"""Answer `python -m workers` until there is a queue, with the exit code of an unavailable service."""

from __future__ import annotations

import sys

from kfm.errors import EXIT_CODES

USAGE = "usage: python -m workers run [--concurrency N] | run-job TYPE --dataset kfm://dataset/ID\n"


def main(argv: list[str]) -> int:
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return EXIT_CODES["done"]
    if not argv or argv[0] not in ("run", "run-job"):
        sys.stderr.write(USAGE)
        return EXIT_CODES["usage"]
    sys.stderr.write("kfm: the queue loop does not exist yet; use `kfm run DATASET` to run an updater now\n")
    return EXIT_CODES["unavailable"]
