"""`python -m updater run …` is `kfm run …`, and `node updater.mjs run …` the same in another language."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    from kfm.cli.main import main as kfm

    return kfm(sys.argv[1:] if argv is None else argv, program="updater")


if __name__ == "__main__":
    sys.exit(main())
