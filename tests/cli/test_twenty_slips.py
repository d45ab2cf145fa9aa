"""Slips of a steward who follows docs/guides/stewards.md: each is refused with one line that names the cure, and
nothing is published."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.app.governance.people import by_order, make_list
from tests.cli.conftest import Kfm
from tests.kept import once
from tests.project.bans import ROOT
from tests.project.guides import blocks

SAFE = Path("../safe")  # where keys are
PAGE = ROOT / "docs" / "guides" / "stewards.md"
SECRETS = ("14XX10", "38.412345", "97.512345", "37.654321", "cottonwood", "ask at the farm", "county is known")
LABELS, CONFIG, MASK = "labels.yml", "kfm.yml", "sites-mask.yml"
NONE = "version: 1\nlabels: []\n"

Do = Callable[[], None]


class Slip(NamedTuple):
    """A slip: what the steward does to the files, and a part of the line that names the cure."""

    do: Do
    cure: str


# -- what a hand does to a file


def swap(file: str, old: str, new: str) -> Do:
    def do() -> None:
        text = Path(file).read_text()
        assert old in text, (file, old)
        Path(file).write_text(text.replace(old, new, 1))

    return do


def without(file: str, start: str) -> Do:
    """The file without the lines that begin so."""

    def do() -> None:
        lines = Path(file).read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.strip().startswith(start)]
        assert len(kept) < len(lines), (file, start)
        Path(file).write_text("".join(kept))

    return do


def with_more(file: str, text: str) -> Do:
    return lambda: write(file, Path(file).read_text() + text)


def write(file: str, text: str) -> None:
    Path(file).write_text(text)


def both(*steps: Do) -> Do:
    def do() -> None:
        for step in steps:
            step()

    return do


def linked(file: str, target: str) -> Do:
    def do() -> None:
        Path(file).unlink()
        Path(file).symlink_to(target)

    return do


def as_utf_16() -> None:
    Path(LABELS).write_bytes(Path(LABELS).read_text().encode("utf-16"))


def under_another_source() -> None:
    write("data/towns.csv", "town,people\nHays,21000\n")
    without(CONFIG, "mask:")()
    swap(
        CONFIG,
        "    outputs:\n",
        "      towns: {uri: data/towns.csv, format: csv, mask: sites-mask.yml}\n    outputs:\n",
    )()
    swap(CONFIG, "        from: sites\n", "        from: sites\n      towns:\n        from: towns\n")()


def labelled_in_kfm_yml() -> None:
    write(LABELS, NONE)
    swap(CONFIG, "labels: labels.yml\n", "labels:\n  - of: {source: data/sites.csv}\n    sensitivity: generalised\n")()


OPEN_LABEL = "  - of: {source: data/sites.csv}\n    sensitivity: public\n    care: open\n"
AS_SIGNED = "put it back under `labels:` - {of: {source: data/sites.csv}, sensitivity: generalised, care: community"

# Before anything was run: the labels and keys of the guide are written, and one thing is wrong.
WRITTEN: dict[str, Slip] = {
    "a misspelt key of a label": Slip(swap(LABELS, "sensitivity:", "sensitivty:"), "did you mean sensitivity?"),
    "a misspelt target": Slip(swap(LABELS, "{source:", "{sourc:"), "did you mean source?"),
    "sensitivity in another spelling": Slip(
        swap(LABELS, "generalised", "generalized"), "labels.yml:4:5: 'generalized' is no word for sensitivity"
    ),
    "sensitivity in capitals": Slip(
        swap(LABELS, "generalised", "GENERALISED"), "write there: sensitivity: generalised"
    ),
    "sensitivity with spaces": Slip(
        swap(LABELS, "sensitivity: generalised", "sensitivity: ' generalised '"),
        "write there: sensitivity: generalised",
    ),
    "a misspelt care": Slip(swap(LABELS, "care: community", "care: comunity"), "write there: care: community"),
    "a community label without its space": Slip(
        swap(LABELS, "TK CS", "TKCS"), "write there: community_labels: [TK CS]"
    ),
    "an address in other letters": Slip(
        swap(LABELS, "data/sites.csv", "data/Sites.csv"),
        "which is nothing here; write there: of: {source: data/sites.csv}",
    ),
    "an address with spaces": Slip(
        swap(LABELS, "{source: data/sites.csv}", "{source: ' data/sites.csv'}"),
        "which is nothing here; write there: of: {source: data/sites.csv}",
    ),
    "a missing line": Slip(without(LABELS, "care:"), "labels[0].care is missing"),
    "no custodian in a label": Slip(without(LABELS, "custodian:"), "write there: custodian: society"),
    "no cell in a label": Slip(without(LABELS, "public_resolution:"), "write there: public_resolution: 6"),
    "a key twice": Slip(
        swap(LABELS, "    care: community\n", "    care: community\n    care: open\n"), "keep one of them"
    ),
    "a wrong indentation": Slip(swap(LABELS, "    care:", "   care:"), "labels.yml:5:4: not YAML"),
    "a tab": Slip(swap(LABELS, "    care:", "\tcare:"), "indent with spaces"),
    "another encoding": Slip(as_utf_16, "save it as UTF-8"),
    "a label in kfm.yml": Slip(labelled_in_kfm_yml, "labels: expected text"),
    "a renamed label file": Slip(lambda: Path(LABELS).rename("label.yml"), "correct the path in kfm.yml"),
    "a link to nothing": Slip(linked(LABELS, "label.yml"), "correct the path in kfm.yml"),
    "an emptied label file": Slip(
        lambda: write(LABELS, ""), "- {of: {source: data/sites.csv}, sensitivity: generalised"
    ),
    "no labels line": Slip(
        without(CONFIG, "labels:"), "sites has a mask and no label: kfm.yml names no file of labels; write"
    ),
    "no mask and no labels line": Slip(
        both(without(CONFIG, "mask:"), without(CONFIG, "labels:")), "no label names the custodian society"
    ),
    "no mask and no label": Slip(
        both(without(CONFIG, "mask:"), lambda: write(LABELS, NONE)), "no label names the custodian society"
    ),
    "no mask": Slip(without(CONFIG, "mask:"), "under `mask:` of the source"),
    "the mask under another source": Slip(
        under_another_source, "source towns of dataset sites has a mask and no label"
    ),
    "a label that says public next to a mask": Slip(
        lambda: write(LABELS, "version: 1\nlabels:\n" + OPEN_LABEL), "write there: sensitivity: generalised"
    ),
    "two labels that disagree": Slip(with_more(LABELS, OPEN_LABEL), "keep one of them"),
    "a custodian that kfm.yml does not name": Slip(
        swap(LABELS, "custodian: society", "custodian: socity"), "did you mean society? write there: custodian: society"
    ),
    "a custodian that the key list does not name": Slip(
        both(swap(LABELS, "custodian: society", "custodian: museum"), swap(CONFIG, "  society: {", "  museum: {")),
        "`kfm keys new --person NAME --role steward --custodian museum --key FILE`",
    ),
    "a custodian without the file of its key": Slip(lambda: (SAFE / "society.key").unlink(), "check the path"),
    "a misspelt column of latitudes": Slip(
        swap(MASK, "latitude: lat", "latitude: latt"), "says latitude: 'latt', and source sites has no such column"
    ),
    "a misspelt column of ids": Slip(swap(MASK, "record_id: site", "record_id: sit"), "says record_id: 'sit'"),
    "latitude and longitude exchanged": Slip(
        both(swap(MASK, "latitude: lat", "latitude: lon"), swap(MASK, "longitude: lon", "longitude: lat")),
        "look at latitude and longitude in the policy, are they exchanged?",
    ),
    "one column for both": Slip(swap(MASK, "longitude: lon", "longitude: lat"), "names the same column twice"),
}

# After the cells were published: one thing changes.
PUBLISHED: dict[str, Slip] = {
    "no labels line": Slip(without(CONFIG, "labels:"), "write `labels: labels.yml` into kfm.yml again"),
    "no labels line and no label file": Slip(
        both(without(CONFIG, "labels:"), lambda: Path(LABELS).rename("label.yml")),
        "write `labels: labels.yml` into kfm.yml again",
    ),
    "nothing about protection in kfm.yml": Slip(
        both(*(without(CONFIG, start) for start in ("labels:", "mask:", "custodians:", "society:"))),
        "write `labels: labels.yml` into kfm.yml again",
    ),
    "no labels in the file": Slip(lambda: write(LABELS, NONE), AS_SIGNED),
    "a label made public by hand": Slip(swap(LABELS, "sensitivity: generalised", "sensitivity: public"), AS_SIGNED),
    "a finer cell by hand": Slip(swap(LABELS, "public_resolution: 6", "public_resolution: 7"), AS_SIGNED),
    "a finer mask by hand": Slip(swap(MASK, "resolution: 6", "resolution: 7"), "`kfm mask deploy sites sites"),
    "a misspelt care": Slip(swap(LABELS, "care: community", "care: comunity"), "write there: care: community"),
}
SLIPS = {**{("written", name): slip for name, slip in WRITTEN.items()},
         **{("published", name): slip for name, slip in PUBLISHED.items()}}  # fmt: skip


def plain(text: str) -> str:
    """The name of a slip as one word, for a command line."""
    return text.replace(" ", "-")


def lay_out(kfm: Kfm) -> None:
    """Write the table of the guide, and let its first command write the other files."""
    Path("data").mkdir()
    for block in blocks(PAGE.read_text()):
        if block.file:
            write(block.file, block.body)
        if block.body.startswith("kfm protect data/"):
            words = shlex.split(block.body.replace("\\\n", " "))[1:]
            made = kfm(*words)
            assert made.code == 0, made.err
            return


@pytest.fixture
def written(kfm: Kfm) -> Kfm:
    """The files and keys of the guide, and nothing run."""

    def make() -> None:
        lay_out(kfm)
        make_list(kfm, SAFE, "society")

    once("steward-written", [Path(), SAFE], make)
    return kfm


@pytest.fixture
def published(written: Kfm) -> Kfm:
    """The cells are public, and the table has one row more than they."""

    def make() -> None:
        assert publish(written) == 0 and public()
        with Path("data/sites.csv").open("a") as file:
            file.write("14XX105,38.555555,-98.555555,gps,camp,1975-01-01,by the creek\n")

    once("steward-published", [Path(), SAFE], make)
    return written


def publish(kfm: Kfm) -> int:
    """Run, and publish with the signatures of both stewards."""
    ran = kfm("run", "sites")
    done = by_order(kfm, SAFE, "publish", "sites")
    return int(ran.code or done.code)


def public() -> dict[str, bytes]:
    every = [path for folder in ("public", "catalog") for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in every}


def changed(before: dict[str, bytes]) -> list[str]:
    """The public files that are new."""
    return [path for path in public() if path not in before]


def leaked() -> list[str]:
    return [secret for secret in SECRETS if any(secret.encode() in body for body in public().values())]


def test_the_guide_without_a_slip_publishes_cells(written: Kfm) -> None:
    assert publish(written) == 0
    assert public() and leaked() == []


@pytest.mark.parametrize(("when", "name"), SLIPS, ids=plain)
def test_a_slip_is_refused_with_its_cure_and_nothing_is_published(
    request: pytest.FixtureRequest, when: str, name: str
) -> None:
    kfm: Kfm = request.getfixturevalue(when)
    before, slip = public(), SLIPS[when, name]
    slip.do()
    signed = ("publish", "sites", "--reason", "cells for the public", "--key", str(SAFE / "olli.key"))
    answers = [kfm("run", "sites"), kfm(*signed)]
    refused = next(answer for answer in answers if answer.code != 0)
    cures = [line for line in refused.err.splitlines() if line.startswith("kfm: ") and slip.cure in line]
    assert len(cures) == 1, refused.err
    requests = kfm("review", "list", "--json")
    for row in requests.data if requests.code == 0 else ():
        for name in ("sue", "sam") if row["kind"] == "order" else ():
            kfm("review", "approve", row["id"], "--key", str(SAFE / f"{name}.key"))
    assert not changed(before)
    assert leaked() == []


SOME = [("written", "a tab"), ("written", "no mask and no label"), ("published", "no labels in the file")]
MORE = [pytest.param(*one, marks=pytest.mark.long) for one in SLIPS if one not in SOME]


@pytest.mark.parametrize(("when", "name"), [*SOME, *MORE], ids=plain)
def test_the_brakes_work_after_a_slip(request: pytest.FixtureRequest, when: str, name: str) -> None:
    kfm: Kfm = request.getfixturevalue(when)
    SLIPS[when, name].do()
    signed = ("--key", str(SAFE / "sue.key"), "--reason", "stop")
    assert kfm("freeze", "sites", *signed).code == 0
    if when == "published":
        gone = kfm("rollback", "sites", "--to", "nothing", *signed)
        assert gone.code == 0, gone.err
        assert not any(path.endswith(".csv") for path in public())
    for words in (("doctor", "--json"), ("config", "check", "--json")):
        answer = kfm(*words)
        assert answer.code in (0, 3, 4) and answer.data, answer.err


def test_commands_in_the_wrong_order_publish_nothing_and_name_the_right_one(kfm: Kfm) -> None:
    lay_out(kfm)
    early = kfm("run", "sites")
    assert early.code == 4 and "make one: `kfm keys new --person NAME --role admin`" in early.complaint
    assert kfm("publish", "sites", "--reason", "early").code != 0
    make_list(kfm, SAFE, "society")
    early = kfm("publish", "sites", "--reason", "early", "--key", str(SAFE / "olli.key"))
    assert early.code == 3 and "run it first: `kfm run sites`" in early.complaint
    assert public() == {}


def test_labels_and_keys_that_come_after_the_table_was_published_withdraw_it(kfm: Kfm) -> None:
    lay_out(kfm)
    right = {name: Path(name).read_text() for name in (CONFIG, LABELS)}
    for start in ("labels:", "mask:", "custodians:", "society:"):
        without(CONFIG, start)()
    assert kfm("run", "sites").code == 0
    assert kfm("publish", "sites", "--reason", "too early").code == 0
    assert leaked()
    for name, text in right.items():
        write(name, text)
    assert "sites is public and may not be" in kfm("status").out
    made = kfm("keys", "new", "--person", "ada", "--role", "admin", "--out", str(SAFE / "ada.key"))
    assert made.code == 0 and "sites: 1 version withdrawn" in made.err, made.err
    assert leaked() == []


@pytest.mark.parametrize(
    "slip",
    [
        lambda: Path(MASK).unlink(),
        pytest.param(lambda: write(MASK, ""), marks=pytest.mark.long),
        pytest.param(swap(MASK, "resolution:", "resoluton:"), marks=pytest.mark.long),
    ],
    ids=["missing", "empty", "misspelt"],
)
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_tightened_label_withdraws_although_the_mask_cannot_be_read(
    published: Kfm, slip: Callable[[], object], by_hand: bool
) -> None:
    slip()
    found = [row for row in published("doctor", "--json").data["checks"] if not row["ok"]]
    assert any(MASK in row["found"] for row in found), "doctor names the file"
    if by_hand:
        swap(LABELS, "sensitivity: generalised", "sensitivity: restricted")()
        published("run", "sites")
    else:
        words = ("--sensitivity", "restricted", "--key", str(SAFE / "sue.key"), "--reason", "x")
        assert published("labels", "set", "source:data/sites.csv", *words).code == 0
    assert not any(path.endswith(".csv") for path in public())
    assert published("status", "--json").data["datasets"][0]["is_withdrawn"]


def test_doctor_names_a_key_of_a_custodian_that_is_gone(published: Kfm) -> None:
    (SAFE / "society.key").unlink()
    found = [row["found"] for row in published("doctor", "--json").data["checks"] if not row["ok"]]
    assert any("the key of custodian society cannot be read" in each for each in found)
