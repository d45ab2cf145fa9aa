"""A mask without a label and a label on nothing are mistakes: nothing is published until they are corrected."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kfm as package
from kfm.errors import BadInput
from tests.app.governance.people import by_order
from tests.cli.conftest import Answer, Kfm
from tests.engine.protected.conftest import (
    KEY,
    SAFE,
    SECRETS,
    UPDATERS,
    dataset,
    every_byte,
    hits,
    installation,
    label,
    labels,
    table,
)
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[3]
OPEN = dataset("sites", "sites.csv", sensitivity="public")
MASKED = dataset("sites", "sites.csv", mask=True, sensitivity="public")
TWO = MASKED.replace("        mask: mask.yml\n", "") + (
    "      parks:\n        uri: parks.csv\n        format: csv\n        contract: {columns: [{name: id}]}\n"
    "        mask: mask.yml\n"
)
RIGHT = "of: {source: sites.csv}"


def no_file_is_named() -> None:
    installation(MASKED)
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("labels: labels.yml\n", ""))


def the_file_is_lacking() -> None:
    installation(MASKED)
    Path("labels.yml").unlink(missing_ok=True)


def labelled(*on: str, datasets: str = MASKED) -> Callable[[], None]:
    def wrong() -> None:
        installation(datasets)
        Path("parks.csv").write_text("park,city\nriver,Wichita\n")
        labels(*(label(of) for of in on))
        if not on:
            Path("labels.yml").write_text("version: 1\nlabels: []\n")

    return wrong


# What is wrong, and what the message says of it: the source or the label, and the cure.
SLIPS: dict[str, tuple[Callable[[], None], list[str]]] = {
    "a typing error": (labelled("source: stes.csv"), ["source sites of dataset sites", "labels.yml:3", RIGHT]),
    "other letters": (labelled("source: Sites.csv"), ["source sites of dataset sites", "labels.yml:3", RIGHT]),
    "almost the name of the source": (labelled("source: site"), ["source sites of dataset sites", "labels.yml:3"]),
    "a dataset in other letters": (
        labelled("dataset: Sites"),
        ["source sites of dataset sites", "labels.yml:3", "of: {dataset: sites}"],
    ),
    "no label": (labelled(), ["source sites of dataset sites", "nothing in labels.yml", RIGHT]),
    "no labels line": (no_file_is_named, ["source sites of dataset sites", "`labels: labels.yml`", RIGHT]),
    "no file": (the_file_is_lacking, ["labels at labels.yml", "source sites of dataset sites", RIGHT]),
    "a label on nothing": (
        labelled("source: sites.csv", "source: graves.csv"),
        ["labels.yml:4", "source graves.csv", "matches nothing"],
    ),
    "a label on no dataset": (
        labelled("source: sites.csv", "dataset: sights"),
        ["labels.yml:4", "dataset sights", "did you mean sites?"],
    ),
    "the mask of another source": (
        labelled("source: sites.csv", datasets=TWO),
        ["source parks of dataset sites", "nothing in labels.yml", "of: {source: parks.csv}"],
    ),
}
slips = pytest.mark.parametrize("slip", SLIPS)
some_slips = pytest.mark.parametrize("slip", sampled(SLIPS, every=4))  # where a run takes a process of its own


@pytest.fixture
def free(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """No key list: here a table that nobody labelled is taken for what its dataset says, public."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    installation(OPEN, custodians=False)
    labels()
    return kfm


def make_wrong(slip: str) -> None:
    SLIPS[slip][0]()


def check_refused(slip: str, answer: Answer) -> None:
    assert answer.code == 3, answer.out + answer.err
    assert not [part for part in SLIPS[slip][1] if part not in answer.err], answer.err


def shown_outside() -> list[str]:
    """Files of the public folder in which something protected can be read."""
    public = {name: body for name, body in every_byte().items() if name.startswith("public/")}
    return [name for name, body in public.items() for secret in SECRETS if secret.encode() in body]


def at(site: Kfm, ref: str) -> str:
    return next((row["version"] for row in site("refs", "list", "--json").data if row["ref"] == ref), "")


@slips
def test_nothing_is_fetched_run_or_published(free: Kfm, slip: str) -> None:
    make_wrong(slip)
    for words in (
        ("run", "sites"),
        ("run",),
        ("run", "sites", "--dry-run"),
        ("run", "sites", "--force", "--reason", "x"),
    ):
        check_refused(slip, free(*words))
    assert free("promote", "sites", "--reason", "x").code == 3
    assert free("plan", "sites").code == 3
    assert hits() == []  # not even the store has a byte of it
    assert not at(free, "raw/sites") and not at(free, "processed/sites") and not at(free, "published/sites")


@slips
def test_the_source_is_not_looked_at_by_a_watch_or_by_kfm_up(free: Kfm, slip: str) -> None:
    make_wrong(slip)
    for words in (("triggers", "watch", "--once"), ("up", "--once")):
        answer = free(*words)
        assert answer.code == 3, answer.out + answer.err
        assert not [part for part in SLIPS[slip][1] if part not in answer.err], answer.err
    assert hits() == []


@slips
def test_the_python_api_raises_it(free: Kfm, slip: str) -> None:
    make_wrong(slip)
    with package.open() as opened, pytest.raises(BadInput) as raised:
        opened.run("sites")
    assert not [part for part in SLIPS[slip][1] if part not in str(raised.value)], str(raised.value)
    assert hits() == []


@slips
def test_what_was_made_before_is_not_promoted(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    make_wrong(slip)
    check_refused(slip, free("promote", "sites", "--reason", "x"))
    assert not at(free, "published/sites") and shown_outside() == []


def test_nothing_is_promoted_automatically_next_to_a_label_on_nothing(free: Kfm) -> None:
    auto = dataset("others", "copy.csv", sensitivity="public")
    Path("copy.csv").write_text("park,city\nriver,Wichita\n")
    installation(auto, custodians=False)
    assert free("run", "others").code == 0
    installation(auto.replace("    title:", "    promote: auto\n    title:"))
    labels(label("dataset: others", "public", custodian=None, public_resolution=None), label("source: graves.csv"))
    assert free("resume").code == 3
    refused = free("run", "others")
    assert refused.code == 3 and "graves.csv" in refused.err
    assert not at(free, "published/others")


@slips
def test_a_trigger_that_waited_is_not_taken_up(free: Kfm, slip: str) -> None:
    assert free("freeze", "sites", "--reason", "x").code == 0
    assert free("run", "sites").code == 5
    assert free("thaw", "sites", "--reason", "x").code == 0
    make_wrong(slip)
    check_refused(slip, free("resume"))
    assert not at(free, "raw/sites") and not at(free, "processed/sites")


@some_slips
def test_an_unfinished_run_is_not_taken_up_and_stays(free: Kfm, slip: str) -> None:
    Path("updaters.py").write_text(UPDATERS.replace("return Output(", "import os; os._exit(9)\n        return Output("))
    command = [sys.executable, "-m", "kfm.cli.main", "run", "sites"]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == 9, killed.stderr
    make_wrong(slip)
    check_refused(slip, free("resume"))
    assert len(free("runs", "list", "--json").data) >= 1
    assert not at(free, "processed/sites") and shown_outside() == []
    installation(OPEN, custodians=False)
    labels()
    resumed = free("resume")
    assert resumed.code == 0, resumed.err
    assert at(free, "processed/sites")


@slips
def test_a_thaw_is_refused_and_a_freeze_is_not(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    make_wrong(slip)
    frozen = free("freeze", "sites", "--reason", "x")
    assert frozen.code == 0, frozen.err
    assert free("freeze", "global", "--reason", "x").code == 0
    check_refused(slip, free("thaw", "sites", "--reason", "x"))
    assert at(free, "switch/dataset/sites") == "frozen" and at(free, "switch/global") == "frozen"


@slips
def test_a_version_is_withdrawn_and_never_put_back(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    assert free("promote", "sites", "--reason", "x").code == 0
    version = at(free, "published/sites")
    assert shown_outside()
    make_wrong(slip)
    withdrawn = free("rollback", "sites", "--to", "nothing", "--reason", "x")
    assert withdrawn.code == 0, withdrawn.err
    assert shown_outside() == [] and not at(free, "published/sites")
    check_refused(slip, free("rollback", "sites", "--to", version, "--reason", "x"))
    assert shown_outside() == [] and not at(free, "published/sites")


@slips
def test_the_public_folder_is_neither_repaired_nor_called_right(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    assert free("promote", "sites", "--reason", "x").code == 0
    make_wrong(slip)
    check_refused(slip, free("reconcile", "--public"))
    shutil.rmtree("public/datasets/sites")
    check_refused(slip, free("reconcile", "--public", "--repair"))
    assert shown_outside() == []


@slips
def test_an_undelivered_commit_stays_undelivered_with_such_a_mistake(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    Path("public").write_text("in the way")
    assert free("promote", "sites", "--reason", "x").code != 0
    Path("public").unlink()
    make_wrong(slip)
    assert free("resume").code == 0
    assert free("freeze", "sites", "--reason", "x").code == 0
    assert shown_outside() == []


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@some_slips
def test_the_node_runner_runs_nothing_there_and_delivers_nothing(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    Path("public").write_text("in the way")
    assert free("promote", "sites", "--reason", "x").code != 0
    Path("public").unlink()
    make_wrong(slip)
    Path("copy.csv").write_text("park,city\nriver,Wichita\n")
    declared = """  others:
    version: "1.0.0"
    title: others
    license: CC0-1.0
    sensitivity: public
    outputs: {all: {from: parks, format: csv}}
    sources:
      parks: {uri: copy.csv, format: csv, contract: {columns: [{name: id}]}}
"""
    outputs = '    version: "1.0.0"\n    outputs: {all: {from: sites}}\n'
    masked = MASKED.replace("    updater: updaters.py:Copy\n", outputs)
    head = Path("kfm.yml").read_text().partition("custodians:")[0]
    Path("kfm.yml").write_text(head + "datasets:\n" + declared + masked)
    for name in ("others", "sites"):
        ran = node(name)
        assert ran.returncode == 3 and "this installation has protected data" in ran.stderr, ran.stderr
    assert shown_outside() == []


def node(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["node", str(ROOT / "updater.mjs"), "run", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@slips
def test_the_doctor_works_and_says_what_is_wrong(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    assert free("promote", "sites", "--reason", "x").code == 0
    make_wrong(slip)
    told = free("doctor")
    assert told.code == 3 and "labels.match" in told.out
    assert not [part for part in SLIPS[slip][1] if part not in told.out + told.err], told.out


@slips
def test_another_dataset_waits_too_because_the_label_may_be_meant_for_it(free: Kfm, slip: str) -> None:
    make_wrong(slip)
    Path("copy.csv").write_text("park,city\nriver,Wichita\n")
    parks = dataset("others", "copy.csv", sensitivity="public")
    Path("kfm.yml").write_text(Path("kfm.yml").read_text() + parks)
    check_refused(slip, free("run", "others"))


@pytest.mark.parametrize("slip", [name for name in SLIPS if name != "no labels line"])
def test_a_label_is_tightened_and_what_is_public_goes(free: Kfm, slip: str) -> None:
    assert free("run", "sites").code == 0
    assert free("promote", "sites", "--reason", "x").code == 0
    make_wrong(slip)
    set_ = free("labels", "set", "dataset:sites", "--sensitivity", "closed", "--care", "sacred", "--reason", "x")
    assert set_.code == 0, set_.err
    assert shown_outside() == [] and not at(free, "published/sites")


def test_the_cure_is_what_the_message_says(site: Kfm) -> None:
    installation(MASKED)
    labels(label("source: Sites.csv"))
    assert RIGHT in site("run", "sites").err
    labels(label("source: sites.csv"))
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    assert by_order(site, SAFE, "promote", "sites").code == 0
    assert hits() == []
    assert site("doctor").code == 0


def test_a_slip_is_not_taken_into_force_under_a_key_list(site: Kfm) -> None:
    installation(MASKED)
    labels(label("source: stes.csv"))
    assert site("run", "sites").code == 3
    assert not at(site, "rules/labels")


def test_the_file_next_to_signed_labels_is_compared_with_kfm_yml_too(site: Kfm) -> None:
    installation(MASKED)
    labels(label("source: sites.csv"))
    assert site("run", "sites").code == 0
    labels(label("source: stes.csv"))
    refused = site("promote", "sites", "--reason", "x", "--key", str(SAFE / "olli.key"))
    assert refused.code == 3 and "stes.csv" in refused.err and RIGHT in refused.err
    assert site("review", "list", "--json").data == []  # nobody is asked to sign it
    frozen = site("freeze", "sites", "--reason", "x", "--key", str(SAFE / "olli.key"))
    assert frozen.code == 0, frozen.err


def test_a_label_is_not_loosened_next_to_one_on_nothing_and_is_tightened(site: Kfm) -> None:
    installation(MASKED)
    labels(label("source: sites.csv"))
    assert site("run", "sites").code == 0
    fields = "sensitivity: generalised\n    care: open\n    custodian: office\n    public_resolution: 6\n"
    written = [f"  - of: {{source: {name}}}\n    {fields}" for name in ("sites.csv", "stes.csv")]
    labels(*written)
    key = str(SAFE / "sue.key")
    looser = site("labels", "set", "source:sites.csv", "--resolution", "7", "--reason", "x", "--key", key)
    assert looser.code == 3 and "stes.csv" in looser.err
    assert site("review", "list", "--json").data == []
    tighter = site("labels", "set", "source:sites.csv", "--resolution", "5", "--reason", "x", "--key", key)
    assert tighter.code == 0, tighter.err


def test_signed_data_are_withdrawn_although_the_file_of_labels_is_gone(site: Kfm) -> None:
    installation(MASKED)
    labels(label("source: sites.csv"))
    assert site("run", "sites").code == 0
    assert by_order(site, SAFE, "promote", "sites").code == 0
    Path("labels.yml").unlink()
    withdrawn = site("rollback", "sites", "--to", "nothing", "--reason", "x", "--key", str(SAFE / "sue.key"))
    assert withdrawn.code == 0, withdrawn.err
    assert not at(site, "published/sites")


def test_a_label_on_what_was_read_before_and_is_declared_no_more_is_no_slip(site: Kfm) -> None:
    Path("copy.csv").write_text("park,city\nriver,Wichita\n")
    others = dataset("others", "copy.csv", sensitivity="public")
    installation(MASKED, others)
    labels(label("source: sites.csv"), label("dataset: sites"))
    assert site("run", "sites").code == 0
    installation(others)
    ran = site("run", "others")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("of", ["source: ./sites.csv", "source: 'file:sites.csv'", "dataset: sites"])
def test_a_label_matches_however_the_address_is_written(site: Kfm, of: str) -> None:
    installation(MASKED)
    labels(label(of))
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    assert hits() == []


def test_labels_on_bytes_and_records_may_come_yet(site: Kfm) -> None:
    installation(MASKED)
    labels(label("source: sites.csv"), label(f"bytes: 'sha256:{'0' * 64}'"), label("record: abc"))
    ran = site("run", "sites")
    assert ran.code == 0, ran.err


def test_a_label_on_bytes_alone_is_none_for_a_mask_because_the_next_bytes_are_others(free: Kfm) -> None:
    import hashlib

    digest = "sha256:" + hashlib.sha256(table().encode()).hexdigest()
    installation(MASKED)
    labels(label(f"bytes: '{digest}'"))
    refused = free("run", "sites")
    assert refused.code == 3 and RIGHT in refused.err
    assert hits() == []
