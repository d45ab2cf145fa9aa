"""The door for programs and notebooks: `kfm.open(path)` gives an installation that can be asked and told to work."""

from __future__ import annotations

from kfm.installation.opening import Installation as Installation
from kfm.installation.opening import open as open
from kfm.installation.reading import Reading as Reading
from kfm.installation.records import Explained as Explained
from kfm.installation.records import Overview as Overview
from kfm.installation.records import Planned as Planned
from kfm.installation.records import Ran as Ran
from kfm.installation.records import Refs as Refs

__all__ = ["Explained", "Installation", "Overview", "Planned", "Ran", "Reading", "Refs"]
