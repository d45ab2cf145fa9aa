"""What the commands of hotfixes and other interventions write with `--json`."""

from __future__ import annotations

from tests.project.budget_shape import BUDGET
from tests.project.json_when import RUNS, Shape

INTERVENTIONS: dict[str, Shape] = {
    **dict.fromkeys(("kfm slo", "kfm slo list"), Shape(BUDGET, many=True)),
    "kfm slo show": Shape(BUDGET),
    "kfm triggers drop": Shape(
        {"dropped": "the ids of the triggers that no run answers", "run_id": "of the receipt that names them"}
    ),
    **dict.fromkeys(("kfm hotfix apply", "kfm hotfix revert"), Shape(RUNS)),
    "kfm hotfix new": Shape({"file": "the file that was written"}),
    "kfm hotfix diff": Shape(
        {
            "path": "of the catalog document",
            "before": "the document as it is",
            "after": "the document as it would be",
        },
        many=True,
    ),
    "kfm hotfix list": Shape(
        {
            "hotfix": "its name",
            "dataset": "the dataset that it corrects",
            "state": "applied; waits, if the published version says something else; or unpublished",
            "document": "the document that its file patches: stac or dcat",
            "changes": "a list of `field`, `before` and `after`; null: no value",
            "since": "when it was applied",
            "by": "who applied it",
        },
        many=True,
    ),
}
