"""`kfm why-not` shows every obstacle with the command that removes it, and that command helps."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kfm.errors import EXIT_CODES

from .conftest import Kfm, tree

DATA = Path("data/rain_gauges.csv")


def reasons(kfm: Kfm, thing: str = "rain-gauges") -> dict[str, dict[str, Any]]:
    """The first of each kind; changes nothing."""
    before = tree()
    answer = kfm("why-not", thing, "--json")
    assert answer.code == 0, answer.err
    assert tree() == before
    return {one["what"]: one for one in reversed(answer.data["reasons"])}


def typed(kfm: Kfm, command: str) -> None:
    """What a reason says to type, with a reason."""
    words = command.split(", ")[0].replace("…", "because").split()
    assert words[0] == "kfm"
    answer = kfm(*words[1:])
    assert answer.code == 0, (command, answer)


def code(kfm: Kfm, thing: str = "rain-gauges") -> int:
    return kfm("why-not", thing, "--exit-code").code


def published(kfm: Kfm) -> str:
    return str(kfm("refs", "history", "published/rain-gauges", "--json").data[-1]["after"])


def mended() -> None:
    DATA.write_text(DATA.read_text().replace(",-1\n", ",1\n"))


def test_nothing_is_in_the_way_of_what_is_as_it_should_be(started: Kfm) -> None:
    mended()
    assert started("run").code == 0 and started("promote", "rain-gauges", "--reason", "first").code == 0
    answer = started("why-not", "rain-gauges")
    assert answer.code == 0 and "nothing is in the way of rain-gauges" in answer.err
    assert reasons(started) == {} and code(started) == 0


def test_what_was_never_run_is_to_be_run(started: Kfm) -> None:
    found = reasons(started)["never-run"]
    assert code(started) == EXIT_CODES["refused"]
    typed(started, found["do"])
    assert "never-run" not in reasons(started)


def test_a_noop_says_since_when_nothing_has_changed(ran: Kfm) -> None:
    mended()
    assert ran("run").code == 0 and ran("promote", "rain-gauges", "--reason", "mended").code == 0
    assert ran("run").code == 0
    found = reasons(ran)["noop"]
    assert "nothing that it reads has changed since sha256:" in found["why"] and found["cites"]
    assert code(ran) == EXIT_CODES["noop"]
    assert reasons(ran, "last")["noop"] == found
    typed(ran, found["do"])


def test_quarantined_rows_are_shown_by_rule_and_count(ran: Kfm) -> None:
    found = reasons(ran)["held"]
    assert found["rule"] == "minimum" and "1 of 12 rows" in found["why"]
    assert code(ran) == EXIT_CODES["refused"]
    typed(ran, found["do"])


def test_a_quarantined_source_is_shown(ran: Kfm) -> None:
    DATA.write_text("gauge,county\n")
    assert ran("run").code == 3
    found = reasons(ran)["held"]
    assert "held" in found["why"]
    assert reasons(ran, "last")["held"]["do"] == "kfm quarantine rain-gauges"


def test_what_is_frozen_is_to_be_thawed_and_its_triggers_wait(ran: Kfm) -> None:
    for scope in ("rain-gauges", "global"):
        assert ran("freeze", scope, "--reason", "a look").code == 0
        assert ran("run").code == 5
        found = reasons(ran)
        assert found["frozen"]["why"].startswith("rain-gauges" if scope != "global" else "everything")
        assert "waiting" in found and code(ran) == EXIT_CODES["frozen"]
        assert reasons(ran, "last")["frozen"]["do"] == "kfm why-not rain-gauges"
        typed(ran, found["frozen"]["do"])
        assert "frozen" not in reasons(ran)
        typed(ran, found["waiting"]["do"])
        assert "waiting" not in reasons(ran)


def test_a_gate_says_which_rule_does_not_hold_and_what_to_do(started: Kfm) -> None:
    config = Path("kfm.yml")
    config.write_text(config.read_text().replace("license: CC0-1.0", "license: ''"))
    assert started("run").code == 0
    blocked = [one for one in started("why-not", "rain-gauges", "--json").data["reasons"] if one["what"] == "blocked"]
    assert [one["rule"] for one in blocked if "license" in one["do"]] == ["licence.declared", "licence.known"], blocked
    assert code(started) == EXIT_CODES["refused"], "rows are held, too"
    assert started("promote", "rain-gauges", "--reason", "try").code == 4
    assert reasons(started, "last")["blocked"]["do"] == "kfm policy gates rain-gauges"


def test_what_is_made_and_not_published_is_to_be_promoted(started: Kfm) -> None:
    assert started("run").code == 0
    found = reasons(started)["unpublished"]
    typed(started, found["do"])
    assert "unpublished" not in reasons(started)


def test_what_was_taken_back_or_superseded_says_by_whom(ran: Kfm) -> None:
    old = published(ran)
    mended()
    assert ran("run").code == 0 and ran("promote", "rain-gauges", "--reason", "mended").code == 0
    new = published(ran)
    assert reasons(ran, old).get("superseded") is None, "what was superseded stays public"
    assert ran("rollback", "rain-gauges", "--reason", "too early").code == 0
    found = reasons(ran, new)["withdrawn"]
    assert "withdrawn by tester" in found["why"] and found["why"].endswith("too early")
    typed(ran, found["do"])
    assert ran("rollback", "rain-gauges", "--to", "nothing", "--reason", "gone").code == 0
    assert reasons(ran)["withdrawn"]["why"].endswith("gone")


def test_a_failed_run_is_shown_with_its_error_where_the_data_are_plainly_public(ran: Kfm) -> None:
    DATA.unlink()
    assert ran("run").code == 3
    found = reasons(ran)["failed"]
    assert "does not exist" in found["why"] and code(ran) == EXIT_CODES["failed"]
    assert "kfm runs show" in found["do"]


def test_a_failed_run_of_unknown_classification_shows_only_its_code(started: Kfm) -> None:
    DATA.unlink()
    assert started("run").code == 3
    found = reasons(started)["failed"]
    assert "(refused)" in found["why"] and "exist" not in found["why"]


def test_a_version_that_was_not_reported_is_undelivered(ran: Kfm) -> None:
    mended()
    assert ran("run").code == 0
    Path("public").rename("elsewhere")
    Path("public").write_text("a file where the folder must be")
    assert ran("promote", "rain-gauges", "--reason", "mended").code != 0
    found = reasons(ran)["undelivered"]
    os.unlink("public")
    Path("elsewhere").rename("public")
    typed(ran, found["do"])
    assert "undelivered" not in reasons(ran)


def test_a_source_that_was_not_polled_is_late(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Path("kfm.yml")
    config.write_text(config.read_text() + "\nwatch: {poll_s: 86400}\n")
    assert "late" not in reasons(ran)
    monkeypatch.setenv("KFM_NOW", "2099-01-01T00:00:00Z")
    found = reasons(ran)["late"]
    assert "every 86400 s" in found["why"] and found["rule"] == "poll_s"


def test_a_stopped_sink_is_shown(ran: Kfm) -> None:
    shutil.rmtree("catalog")
    Path("catalog").write_text("a file where the folder must be")
    mended()
    ran("run")
    ran("promote", "rain-gauges", "--reason", "mended")
    found = reasons(ran)["undelivered"]
    assert "sink catalog" in found["why"] and found["do"] == "kfm sinks retry catalog"
    os.unlink("catalog")
    typed(ran, found["do"])
    assert "undelivered" not in reasons(ran)
