"""The interface for programs and notebooks: `kfm.open(path)` returns an installation to query and to run."""

from __future__ import annotations

from kfm.client.answer_records import Compared as Compared
from kfm.client.answer_records import Explained as Explained
from kfm.client.answer_records import Overview as Overview
from kfm.client.answer_records import Planned as Planned
from kfm.client.answer_records import Quarantined as Quarantined
from kfm.client.answer_records import Ran as Ran
from kfm.client.answer_records import Refs as Refs
from kfm.client.answer_records import Traced as Traced
from kfm.client.installation import Installation as Installation
from kfm.client.installation import open as open
from kfm.client.pinned_version import Reading as Reading

__all__ = [
    "Compared", "Explained", "Installation", "Overview", "Planned", "Quarantined", "Ran", "Reading", "Refs", "Traced",
]  # fmt: skip
