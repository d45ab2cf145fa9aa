"""A person types a reason about protected data: no file of KFM shows it, and a reader with the key reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Answer, Kfm
from tests.engine.protected.conftest import IDS, POINTS, SAFE, dataset, every_byte, installation, label, labels

SITE = "the grave under the twisted oak"
WHY = f"{SITE} near {IDS[3]} at {POINTS[3][0]} {POINTS[3][1]}"
SUE = ("--key", str(SAFE / "sue.key"))
TOLD = [SITE, "twisted oak", IDS[3], *POINTS[3]]


def in_clear(*answers: Answer) -> list[str]:
    """The files, and the answers of the terminal, that show the reason."""
    bodies = every_byte() | {f"answer {n}": (one.out + one.err).encode() for n, one in enumerate(answers)}
    return [name for name, body in bodies.items() if any(word.encode() in body for word in TOLD)]


def test_no_file_shows_a_reason_about_protected_data(site: Kfm) -> None:
    answers = [
        site("run", "sites", "--reason", WHY, "--artifacts", "artifacts"),
        by_order(site, SAFE, "promote", "sites", "--reason", WHY),
        site("freeze", "sites", "--reason", WHY, *SUE),
        site("run", "sites", "--force", "--reason", WHY),
        by_order(site, SAFE, "thaw", "sites", "--reason", WHY),
        site("labels", "set", "source:sites.csv", "--resolution", "5", "--reason", WHY, *SUE),
        site("labels", "set", "source:sites.csv", "--resolution", "6", "--reason", WHY, "--key", f"{SAFE}/olli.key"),
    ]
    assert [one.code for one in answers] == [0, 0, 0, 5, 0, 0, 4]
    (request,) = [one["id"] for one in site("review", "list", "--json").data if one["kind"] == "order"]
    answers.append(site("review", "reject", request, *SUE, "--reason", WHY))
    answers.append(site("rollback", "sites", "--to", "nothing", "--reason", WHY, *SUE))
    answers.append(site("freeze", "--reason", WHY, *SUE))
    assert [one.code for one in answers[-3:]] == [0, 0, 0]
    frozen = answers.pop(3)  # the answer to the person who has the key
    assert SITE in frozen.err
    assert in_clear(*answers) == []


def test_a_reader_with_the_key_reads_the_reason(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site("freeze", "sites", "--reason", WHY, *SUE).code == 0
    shown = [("refs", "history", "switch/dataset/sites"), ("runs", "receipt", "last")]
    for words in shown:
        assert SITE in site(*words).out.replace("\n", " "), words
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    for words in shown:
        answer = site(*words)
        assert answer.code == 0 and "(encrypted)" in answer.out and in_clear(answer) == [], words


def test_those_who_sign_a_change_request_read_its_reason(site: Kfm) -> None:
    assert site("run", "sites").code == 0
    assert site("promote", "sites", "--reason", WHY, "--key", f"{SAFE}/olli.key").code == 4
    (item,) = [one for one in site("review", "list", "--json").data if one["kind"] == "order"]
    assert item["reason"] == WHY
    assert in_clear() == []


def test_without_the_key_a_brake_works_and_keeps_no_reason(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    frozen = site("freeze", "sites", "--reason", WHY, *SUE)
    assert frozen.code == 0
    assert "(withheld)" in site("refs", "history", "switch/dataset/sites").out
    assert in_clear(frozen) == []


def test_a_label_on_public_data_keeps_its_reason_private(site: Kfm) -> None:
    Path("parks.csv").write_text("park,trees\na,1\n")
    parks = dataset("parks", "parks.csv", sensitivity="public")
    installation(dataset("sites", "sites.csv", mask=True), parks)
    labels(
        label("dataset: sites"),
        label("source: sites.csv"),
        label("dataset: parks", "public", custodian=None, public_resolution=None),
    )
    words = ("--sensitivity", "restricted", "--custodian", "office", "--reason", WHY, *SUE)
    answer = site("labels", "set", "dataset:parks", *words)
    assert answer.code == 0, answer.err
    assert in_clear(answer) == []


def test_a_reason_about_public_data_stays_readable_unless_it_names_a_protected_site(site: Kfm) -> None:
    Path("copy.csv").write_text("park,trees\na,1\n")
    parks = dataset("parks", "copy.csv", sensitivity="public")
    installation(dataset("sites", "sites.csv", mask=True), parks)
    assert site("run", "sites").code == 0
    assert site("run", "parks", "--reason", "the trees were counted again").code == 0
    assert any(b"counted again" in body for body in every_byte().values())
    answer = site("run", "parks", "--force", "--reason", WHY)
    assert answer.code == 0
    assert in_clear(answer) == []
