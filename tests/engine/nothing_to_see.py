"""Commands that only look, and find nothing: their exit codes."""

from __future__ import annotations

NO_INDEX = {("search", "gauges"): 3, ("jobs", "show", "1"): 3}  # in every state
NOTHING_TO_SEE = {  # after runs: no trigger was kept, and that is not what was signed
    ("triggers", "show", "TRIGGER"): 3,
    ("webhooks", "verify", "gauges", "--body", "data/gauges.csv", "--header", "SIGNED"): 4,
    ("verify", "gauges"): 68,
    ("audit", "verify"): 68,  # no process signs here
    ("policy", "test"): 3,  # nobody added policies
    ("review", "show", "0" * 16): 3,  # nothing waits
    ("audit", "prove", "1"): 3,
    ("audit", "consistency", "1"): 3,
}
