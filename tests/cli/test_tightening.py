"""A person tightens a file: the next command withdraws what is closed now, or says that it must be withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.cli.test_twenty_slips import (  # noqa: F401
    CONFIG,
    LABELS,
    MASK,
    SAFE,
    plain,
    public,
    published,
    swap,
    written,
)

TIGHTER: dict[str, tuple[Callable[[], None], str]] = {
    "a restricted label": (swap(LABELS, "sensitivity: generalised", "sensitivity: restricted"), "label.sensitivity"),
    "a coarser label": (swap(LABELS, "public_resolution: 6", "public_resolution: 4"), "label.resolution"),
    "a consent that ended": (swap(LABELS, "2031-12-31", "2020-12-31"), "label.expired"),
    "a restricted dataset": (swap(CONFIG, "sensitivity: public", "sensitivity: restricted"), "dataset.sensitivity"),
    "a coarser mask": (swap(MASK, "resolution: 6", "resolution: 4"), "mask.coarser"),
}
REASON = ("--reason", "look", "--key", str(SAFE / "olli.key"))
WRITES: dict[str, tuple[str, ...]] = {
    "run": ("run", "sites"),
    "publish": ("publish", "sites", *REASON),
    "resume": ("resume",),
    "freeze": ("freeze", "sites", *REASON),
}


def cells() -> list[str]:
    return [path for path in public() if path.endswith(".csv")]


@pytest.mark.parametrize("name", TIGHTER, ids=plain)
def test_status_and_doctor_say_it_and_resume_withdraws(published: Kfm, name: str) -> None:  # noqa: F811
    tighten, rule = TIGHTER[name]
    tighten()
    status = published("status")
    assert "sites is public and may not be" in status.out + status.err, status.out + status.err
    said = {one["check"]: one for one in published("doctor", "--json").data["checks"]}["published.sites"]
    assert not said["ok"] and rule in said["found"] and "kfm resume" in said["why"]
    assert cells()
    resumed = published("resume")
    assert resumed.code == 0 and "sites: 1 version withdrawn" in resumed.err and rule in resumed.err
    assert cells() == []
    status = published("status")
    assert "withdrawn" in status.out and "may not be" not in status.out + status.err
    assert not [one for one in published("doctor", "--json").data["checks"] if one["check"] == "published.sites"]


MOST = [(name, words) for name in TIGHTER for words in WRITES]
SOME = [("a restricted label", "publish"), ("a restricted dataset", "publish"), ("a coarser mask", "run")]


@pytest.mark.parametrize(
    ("name", "command"),
    [*SOME, *(pytest.param(*one, marks=pytest.mark.long) for one in MOST if one not in SOME)],
    ids=plain,
)
def test_the_next_command_that_writes_withdraws(published: Kfm, name: str, command: str) -> None:  # noqa: F811
    tighten, rule = TIGHTER[name]
    tighten()
    answer = published(*WRITES[command])
    assert cells() == []
    assert "sites: 1 version withdrawn" in answer.err and rule in answer.err


def test_what_a_person_tightened_in_the_file_is_not_opened_there(published: Kfm) -> None:  # noqa: F811
    signed = Path(LABELS).read_text()
    TIGHTER["a coarser label"][0]()
    assert published("resume").code == 0
    Path(LABELS).write_text(signed)
    refused = published("run", "sites")
    assert refused.code == 3 and "public_resolution: 4" in refused.err, refused.err
    assert cells() == []
    TIGHTER["a coarser label"][0]()
    assert published("run", "sites").code == 0
    assert by_order(published, SAFE, "labels", "set", "source:data/sites.csv", "--resolution", "6").code == 0
    assert "public_resolution: 6" in Path(LABELS).read_text()


def test_a_version_that_a_coarser_mask_closed_is_not_published_again(published: Kfm) -> None:  # noqa: F811
    TIGHTER["a coarser mask"][0]()
    assert published("resume").code == 0
    made = next(each for each in published("refs", "list", "--json").data if each["ref"] == "processed/sites")
    again = by_order(published, SAFE, "publish", "sites", "--to", made["version"])
    assert again.code != 0 and "mask.coarser" in again.err, again.err
    deployed = published("mask", "deploy", "sites", "sites", "--key", str(SAFE / "sue.key"), "--reason", "coarser")
    assert deployed.code == 0, deployed.err
    assert published("run", "sites").code == 0
    done = by_order(published, SAFE, "publish", "sites")
    assert done.code == 0, done.err
    assert cells() and published("doctor").code == 0
