"""`kfm up` follows the files of schedules as they are now: a merge changes when things run, without a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scheduling import test_up as process
from tests.scheduling.test_strangers import HOUR, SAID, Site, opened

DAILY = """\
version: 1
schedules:
  rain-hourly:
    dataset: rain
    cron: "0 * * * *"
"""
PLAIN = SAID[: SAID.index("  broken:")] + SAID[SAID.index("  rain:") :].replace(
    '    schedule: {cron: "0 * * * *"}\n', ""
)


def wrote(site: Site, text: str, name: str = "rain.yml") -> None:
    folder = site.folder / "pipelines/schedules"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def passed(site: Site, ms: int = 6_000) -> list[str]:
    return [each.dataset for each in site.round(ms)]


def test_a_file_that_is_added_changed_or_taken_away_is_followed(tmp_path: Path) -> None:
    with opened(tmp_path, PLAIN) as site:
        assert passed(site) == [] and site.upkeep.schedules == 0
        wrote(site, DAILY)
        assert passed(site) == [] and site.upkeep.news() == ["the schedule files have changed; number of schedules: 1"]
        assert passed(site, HOUR) == ["rain"]
        (tmp_path / "rain.csv").write_text("n\n5\n6\n7\n8\n")
        wrote(site, DAILY.replace('"0 * * * *"', '"30 3 * * *"'))
        assert passed(site) == [] and passed(site, HOUR) == [], "not hourly any more"
        (tmp_path / "pipelines/schedules/rain.yml").unlink()
        assert passed(site) == [] and site.upkeep.schedules == 0
        assert passed(site, 24 * HOUR) == []
        assert site.told == []


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (DAILY.replace("0 * * * *", "61 * * * *"), "rain.yml:3:3: cron '61 * * * *' has a minute that cannot be read"),
        (DAILY.replace("dataset: rain", "dataset: snow"), "rain.yml:4:5: "),
        (DAILY + "  \tx: y\n", "rain.yml:6:"),
    ],
)
def test_a_wrong_file_is_reported_once_and_changes_nothing(tmp_path: Path, wrong: str, where: str) -> None:
    with opened(tmp_path, PLAIN) as site:
        wrote(site, DAILY)
        site.round(6_000)
        wrote(site, wrong)
        for _ in range(3):
            site.round(6_000)
        assert len(site.told) == 1 and where in str(site.told[0][1])
        assert passed(site, HOUR) == ["rain"], "as it was before"
        wrote(site, DAILY.replace("rain-hourly", "mended"))
        site.round(6_000)
        (tmp_path / "rain.csv").write_text("n\n5\n6\n7\n8\n")
        assert passed(site, HOUR) == ["rain"]
        assert site.session.state.ticks.last("mended") is not None


def test_what_is_scheduled_now_is_not_polled_any_more(tmp_path: Path) -> None:
    with opened(tmp_path, PLAIN.replace("poll_s: 0", "poll_s: 60")) as site:
        assert passed(site) == ["rain"], "it is polled"
        wrote(site, DAILY.replace("0 * * * *", "30 3 * * *"))
        site.round(6_000)
        (tmp_path / "rain.csv").write_text("n\n5\n6\n7\n8\n")
        assert passed(site, 100_000) == [] and passed(site, 100_000) == []


installed = process.site


def test_a_process_that_is_up_hears_of_it_and_says_when_it_must_be_restarted(installed: Path) -> None:
    (installed / "pipelines/schedules").mkdir(parents=True)
    with process.up(installed) as one:
        for change, said in (
            (None, "schedules 1"),
            (
                ("pipelines/schedules/more.yml", DAILY.replace("dataset: rain", "dataset: slow")),
                "schedules: 2",
            ),
            (("kfm.yml", process.SAID + "# more\n"), "start it again"),
        ):
            if change is not None:
                (installed / change[0]).write_text(change[1])
            process.until(lambda said=said: said in process.told(one), said)  # type: ignore[misc]
