"""What was made while kfm.yml called it restricted stays closed, and the advice says what helps."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Kfm, done

NAME = "rain-gauges"
ADVICE = "these bytes stay closed, however often they are built"


def test_the_same_bytes_stay_closed_and_other_bytes_are_published(started: Kfm) -> None:
    config, data = Path("kfm.yml"), Path("data/rain_gauges.csv")
    text = config.read_text()
    config.write_text(text.replace("sensitivity: public", "sensitivity: restricted"))
    done(started("run"))
    config.write_text(text)
    done(started("run", "--force", "--reason", "it is public now"))
    denied = started("publish", NAME, "--reason", "x")
    assert denied.code == 4 and ADVICE in denied.err
    assert "the same bytes keep that" in started("why-not", NAME, "--json").out
    data.write_text(data.read_text().replace("22.4", "22.7"))
    done(started("run"), started("publish", NAME, "--reason", "x"))
