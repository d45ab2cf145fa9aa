"""The claims of docs/conformance.md about what is served, each broken in one place."""

from __future__ import annotations

from tests.seeded.planting import Bug

PATH = "tests/browser/test_serving_path.py::test_what_was_published_is_found_everywhere_until_a_label_closes_it"
SENT = "tests/api/test_closed_while_sent.py"

CLAIMS: dict[str, Bug] = {
    "O10 what is closed is served": Bug(
        "kfm.app.serving.shelf:Shelf._allows",
        "return self._gate.decision(dataset, version, status, self._audience).is_yes(version)",
        "return True",
        f"{SENT}::test_a_file_that_is_closed_on_its_way_does_not_arrive_whole",
    ),
    "O10 a policy engine that is down says yes": Bug(
        "kfm.app.serving.shelf:Shelf._allows",
        ".is_yes(version)",
        " is not None",
        f"{SENT}::test_a_policy_engine_that_is_down_shows_nothing",
    ),
    "O16 clients of the API are led elsewhere": Bug(
        "kfm.app.serving.item_catalog:with_base",
        "return body.replace(BASE.encode(), base.encode())",
        "return body",
        PATH,
    ),
    "O16 a search sees what the index has": Bug(
        "kfm.app.serving.item_catalog:ItemCatalog.allowed",
        "return {name: one.mark for name, one in shown.items()}",
        "return self.index.versions()",
        f"{SENT}::test_an_index_from_before_a_withdrawal_shows_nothing_of_it",
    ),
    "D14 Focus Mode says nothing of the run": Bug(
        "kfm.app.serving.focus:_sentences", "for line in told.lines:", "for line in ():", PATH
    ),
    "D15 the page of Focus Mode does not name the cells": Bug(
        "kfm.delivery.dataset_context:governance_of", "resolution=labels.resolution", "resolution=None", PATH
    ),
}
