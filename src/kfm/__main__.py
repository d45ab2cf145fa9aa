"""Lets `python -m kfm` run the program `kfm`."""

from __future__ import annotations

import sys

from kfm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
