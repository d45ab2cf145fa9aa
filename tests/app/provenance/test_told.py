"""The public record of a run: its inputs and outputs, and nothing of what is protected."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from kfm import config
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.attester import _statements
from kfm.app.session.session import open_session
from kfm.model import keys
from kfm.model.canonical import canonical
from kfm.model.public_run import PublicRun, artifact_id
from kfm.model.records import Run, SourceRef
from tests.app.governance.people import by_order
from tests.app.provenance.looking import last, told
from tests.cli.conftest import Kfm
from tests.delivery.ledger_runs import public_runs
from tests.engine.protected.conftest import IDS, SAFE, SECRETS, dataset, installation, label, labels
from tests.node.twin import ROOT, node

SOURCE = Path("data/rain_gauges.csv")
GAUGES = "kfm://dataset/rain-gauges"


def digest_of(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


# ------------------------------------------------------------------------------------------------ public data


def test_an_ingest_made_each_key_out_of_its_source(started: Kfm) -> None:
    receipt = started("run", "--json").data["receipts"][0]
    one = last()
    (source,) = one.inputs
    assert (source.id, source.checksum, source.name) == (str(SOURCE), digest_of(SOURCE), "gauges")
    assert source.size == SOURCE.stat().st_size
    assert [each.id for each in one.artifacts] == [f"{GAUGES}/{name}" for name in ("ellis", "ford", "riley")]
    assert (one.run_id, one.op, one.ref, one.before) == (receipt["run_id"], "ingest", "processed/rain-gauges", "")
    assert one.version == receipt["outputs"][0]["checksum"]
    assert (one.wal_id, one.index, one.labels, one.rows, one.held_rows) == (receipt["run_id"], 1, None, 12, 1)
    assert one.metadata["title"] == "Rain gauges"
    things = [(GAUGES, one.version), *((each.id, each.digest) for each in one.artifacts)]
    wanted = {(one.run_id, f"{SOURCE}#{digest_of(SOURCE)}", f"{id}#{digest}") for id, digest in things}
    assert one.triples() == wanted and len(wanted) == 4


def test_only_what_changed_was_made(ran: Kfm) -> None:
    first = told()[0]
    SOURCE.write_text(SOURCE.read_text().replace("14.2", "14.3"))
    assert ran("run").code == 0
    one = last()
    assert [each.key for each in one.artifacts] == [("ford",)]
    assert (one.before, one.removed) == (first.version, ())
    assert first.artifacts[1].digest != one.artifacts[0].digest


def test_what_is_gone_is_said_to_be_gone(ran: Kfm) -> None:
    SOURCE.write_text(SOURCE.read_text().replace(",ford,", ",ellis,"))
    assert ran("run", "--allow-deletions", "1", "--reason", "closed").code == 0
    one = last()
    assert ([each.key for each in one.artifacts], one.removed) == ([("ellis",)], (f"{GAUGES}/ford",))


def test_a_file_lies_where_its_artifact_says(ran: Kfm) -> None:
    for each in told()[0].artifacts:
        assert digest_of(Path("public/datasets/rain-gauges", each.path)) == each.digest


def test_a_promotion_and_a_withdrawal_move_a_ref_and_make_no_version(ran: Kfm) -> None:
    ingest, promote = told()
    assert ran("rollback", "rain-gauges", "--to", "nothing", "--reason", "wrong").code == 0
    withdrawal = last()
    assert [each.id for each in promote.inputs] == ["kfm://ref/published/rain-gauges", GAUGES]
    assert promote.inputs[1].checksum == ingest.version == promote.version
    assert (promote.op, promote.ref, promote.artifacts) == ("promote", "published/rain-gauges", ())
    assert (withdrawal.op, withdrawal.version, withdrawal.before) == ("rollback", "", ingest.version)
    assert promote.metadata == ingest.metadata
    folder = f"kfm://public/datasets/rain-gauges/versions/{ingest.version[7:23]}"
    files = [(f"{folder}/{each.key[0]}.csv", each.digest) for each in ingest.artifacts]
    assert promote.outputs() == [("kfm://ref/published/rain-gauges", ingest.version), *files]
    assert withdrawal.outputs() == [] and withdrawal.left() == promote.outputs()[:1]


def test_a_rollback_leads_to_the_version_before(ran: Kfm) -> None:
    SOURCE.write_text(SOURCE.read_text().replace("14.2", "14.3"))
    assert ran("run").code == ran("promote", "rain-gauges").code == 0
    assert ran("rollback", "rain-gauges", "--reason", "wrong").code == 0
    first, _, second, _, back = told()
    assert (back.version, back.before, back.ref) == (first.version, second.version, "published/rain-gauges")


def test_a_run_with_nothing_to_do_made_nothing(ran: Kfm) -> None:
    assert ran("run").code == 0
    one = last()
    assert (one.status, one.outcome, one.version, one.outputs(), one.labels) == ("SKIPPED", "noop", "", [], None)
    assert one.inputs[0].id == str(SOURCE)


def test_a_run_that_made_the_same_again_made_nothing_new(ran: Kfm) -> None:
    assert ran("run", "--force", "--reason", "again").code == 0
    first, *_, one = told()
    assert (one.outcome, one.version, one.before, one.ref, one.artifacts) == (
        "unchanged", first.version, first.version, "", (),
    )  # fmt: skip


def test_quarantined_and_failed_runs_are_reported(started: Kfm) -> None:
    code = Path("updaters/rain_gauges.py")
    code.write_text(code.read_text().replace("        rows = ", '        raise ValueError("no")\n        rows = '))
    whole = SOURCE.read_text()
    SOURCE.write_text(whole.replace("gauge,", "gouge,", 1))
    assert started("run").code != 0
    assert (last().outcome, last().version, last().inputs[0].id) == ("held", "", str(SOURCE))
    SOURCE.write_text(whole)
    assert started("run").code != 0
    one = last()
    assert (one.status, one.outcome, one.outputs()) == ("FAILED", "failed", [])
    assert one.plan_hash and one.inputs[0].checksum == digest_of(SOURCE)


def test_a_freeze_reads_a_switch_and_makes_nothing(ran: Kfm) -> None:
    assert ran("freeze", "rain-gauges", "--reason", "storm").code == 0
    assert (last().op, last().outputs(), last().moves, last().labels) == ("freeze", [], (), None)
    assert ran("run").code != 0
    assert last().outcome == "frozen"


def test_a_dry_run_is_reported_as_the_run_would_be(started: Kfm) -> None:
    with open_session(config.load("", os.environ), mode="dry") as session:
        run_trigger(session, new_trigger(session, "rain-gauges"))
        (dry,) = public_runs(session.state, session.objects)
    assert not dry.dry_run, "the overlay holds the records of the real run"
    assert started("run").code == 0
    real = last()
    assert [(each.id, each.digest) for each in dry.artifacts] == [(each.id, each.digest) for each in real.artifacts]
    assert (dry.version, dry.inputs) == (real.version, real.inputs)


def test_a_run_of_node_is_reported_alike(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(folder: str) -> PublicRun:
        Path(folder).mkdir()
        monkeypatch.chdir(Path(folder))
        Path("rain.csv").write_text("gauge,mm\na,1\nb,2\n")
        Path("kfm.yml").write_text(
            "accept_weak_storage: true\ndatasets:\n  rain:\n    version: 1.0.0\n    title: Rain\n    license: CC0-1.0\n"
            "    sensitivity: public\n    sources:\n"
            "      rain: {uri: rain.csv, format: csv, contract: {columns: [{name: id}]}}\n"
            "    outputs:\n      all: {from: rain}\n"
        )
        if folder == "python":
            assert kfm("run").code == 0
        else:
            subprocess.run([node(), str(ROOT / "updater.mjs"), "run"], check=True, capture_output=True, timeout=60)
        one = last()
        monkeypatch.chdir(Path(".."))
        return one

    monkeypatch.setenv("KFM_NOW", "2026-01-05T06:07:08Z")
    python, nodes = written("python"), written("node")
    assert python == nodes and python.artifacts


def test_no_two_keys_share_an_address() -> None:
    keys = [("a/b",), ("a", "b"), ("a%2Fb",), ("ä",), ("%C3%A4",), ("",), ("", ""), ("a", ""), ("a",)]
    assert len({artifact_id("x", key) for key in keys}) == len(keys)


# ------------------------------------------------------------------------------------------------ protected data


def said(runs: list[PublicRun]) -> str:
    return b"\n".join(map(canonical, runs)).decode().lower()


def found(text: str, *more: str) -> list[str]:
    return [secret for secret in (*SECRETS, *more) if secret.lower() in text]


def test_lineage_of_a_masked_dataset_shows_cells_and_not_its_input(site: Kfm) -> None:
    plain = digest_of(Path("sites.csv"))
    assert site("run", "sites", "--reason", f"site {IDS[0]}").code == 0
    assert by_order(site, SAFE, "promote", "sites").code == 0
    runs = told()
    one = next(run for run in runs if run.op == "ingest")
    (source,) = one.inputs
    assert source.id == "kfm://withheld/" + source.checksum.removeprefix("sha256:") and source.level == "generalised"
    assert (source.name, source.size, one.rows, one.held_rows) == ("", None, None, None)
    assert [each.key for each in one.artifacts] == [("all",)]
    assert one.labels is not None and (one.labels.level, one.labels.resolution) == ("generalised", 6)
    assert one.labels.custodians == ("office",)
    assert found(said(runs), plain[7:], "sites.csv", "tester", "as agreed") == []


def test_lineage_of_a_restricted_dataset_shows_only_that_it_ran(site: Kfm) -> None:
    installation(dataset("vault", "sites.csv", updater="ByNote"))
    Path("updaters.py").write_text(
        Path("updaters.py").read_text()
        + """
class ByNote(Copy):
    def plan(self, inputs):
        return Plan([Step(id=f"n{i}", key=("14QX100", str(i))) for i in range(3)], complete=True)
"""
    )
    labels(label("source: sites.csv", "restricted", authority="Office of Nobody", care="community"))
    plain = digest_of(Path("sites.csv"))
    assert site("run", "vault", "--reason", f"site {IDS[0]}").code == 0
    assert site("run", "vault").code == 0  # nothing to do
    done, noop = told()[-2:]
    assert (done.status, noop.outcome) == ("SUCCESS", "noop")
    for run in (done, noop):
        assert (run.artifacts, run.removed, run.rows, run.metadata) == ((), (), None, {})
        assert run.inputs[0].id.startswith("kfm://withheld/") and run.labels is not None
        assert run.labels.level == "restricted"
    assert done.inputs[0].id == noop.inputs[0].id  # the same source is the same one everywhere
    assert done.version and done.ref == "processed/vault"
    assert found(said(told()), plain[7:], "sites.csv") == []


def test_a_failed_run_over_protected_data_shows_nothing_of_it(site: Kfm) -> None:
    Path("updaters.py").write_text(
        Path("updaters.py")
        .read_text()
        .replace("return Output(", f'raise ValueError("{IDS[0]}")\n        return Output(')
    )
    assert site("run", "sites").code != 0
    one = last()
    assert one.status == "FAILED" and one.inputs[0].id.startswith("kfm://withheld/")
    assert found(said(told()), "sites.csv") == []


def test_data_that_no_label_calls_public_is_withheld(started: Kfm) -> None:
    for declared in ("", "    sensitivity: restricted\n", "    sensitivity: generalised\n"):
        text = Path("kfm.yml").read_text()
        Path("kfm.yml").write_text(text.replace("    sensitivity: public\n", declared).replace("1.0.0", "1.0.1"))
        assert started("run", "--force", "--reason", "again").code == 0
        Path("kfm.yml").write_text(text)
        one = last()
        assert one.labels is not None and one.labels.level == "restricted"
        assert (one.artifacts, one.metadata, one.rows) == ((), {}, None)
        assert found(said([one]), "ellis", "rain_gauges.csv", digest_of(SOURCE)[7:], "rain gauges") == []


def test_a_source_that_became_protected_is_not_named_any_more(site: Kfm) -> None:
    public, shut = dataset("open", "copy.csv", sensitivity="public"), dataset("shut", "copy.csv", mask=True)
    installation(public, custodians=False)
    Path("copy.csv").write_text("trinomial,kind,found,lat,lon,note\nA1,camp,1950-01-01,38.1,-99.2,x\n")
    labels()
    assert site("run", "open").code == 0
    assert last().inputs[0].id == "copy.csv"
    installation(public, shut)
    labels(label("source: copy.csv"))
    assert site("run", "shut").code == 0
    then = next(run for run in told() if run.dataset == "open")
    assert then.inputs[0].id.startswith("kfm://withheld/")
    assert found(said([then]), "copy.csv", digest_of(Path("copy.csv"))[7:]) == []


def guesses(one: PublicRun, run: Run) -> list[str]:
    """What somebody would compare who guesses the address of what was read and what it holds: all else is known."""
    address, plain = run.inputs[0].uri, digest_of(Path(run.inputs[0].uri))
    found = [run.run_key, run.input_hash[7:], plain[7:], keys.digest(canonical(["withheld", address, plain]))[7:]]
    for checksum in (plain, one.inputs[0].checksum):
        found.append(keys.run_key(address, checksum, "", one.updater_version))
        for contract in ("", run.inputs[0].contract_hash):
            read = SourceRef(uri=address, content_hash=checksum, size=0, contract_hash=contract)
            found.append(keys.input_hash([read])[7:])
    return found


@pytest.mark.parametrize("level", ["restricted", "generalised", "public, and closed later"])
def test_an_address_or_a_content_that_is_guessed_can_be_compared_with_nothing(site: Kfm, level: str) -> None:
    """A digest of what one of a few words would be is as good as the word."""
    later = level.startswith("public")
    public = dataset("open", "sites.csv", sensitivity="public")
    installation(public, custodians=False)
    labels()
    if later:
        assert site("run", "open").code == 0
    installation(public, dataset("shut", "sites.csv", mask=level != "restricted"))
    labels(label("source: sites.csv", "restricted" if level == "restricted" else "generalised"))
    assert site("run", "shut").code == 0
    one = next(run for run in told() if run.dataset == ("open" if later else "shut") and run.op == "ingest")
    with open_session(config.load("", os.environ), mode="read") as session:
        run = session.state.runs.get(one.run_id)
    assert (
        run is not None
        and run.inputs[0].uri == "sites.csv"
        and run.run_key
        and bool(run.inputs[0].sealed_with) != later
    )
    assert [guess for guess in guesses(one, run) if guess in said([one])] == []
    assert bool(one.plan_hash) is (level == "generalised")


def test_an_attestation_of_protected_data_cannot_be_compared_with_a_guess_either(site: Kfm) -> None:
    installation(dataset("shut", "sites.csv"))
    labels(label("source: sites.csv", "restricted"))
    assert site("run", "shut").code == 0
    with open_session(config.load("", os.environ), mode="write") as session:
        one, run = last(), session.state.runs.get(last().run_id)
        receipt = session.state.ledger.receipt(one.run_id)
        assert run is not None and receipt is not None
        with session.state.transaction() as tx:
            every = _statements(receipt, run.inputs, {}, tx, "https://kfm.example.org")
            stated = [statement for _version, _kind, statement in every]
    text = repr(stated)
    assert "slsa.dev/provenance" in text and run.version_digest[7:] in text
    assert [guess for guess in [*guesses(one, run), run.plan_hash[7:]] if guess in text] == []


def test_the_settings_a_run_was_made_under_are_recorded(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert started("run").code == 0
    first = last()
    assert first.config_hash.startswith("sha256:")
    receipt = started("runs", "receipt", first.run_id, "--json").data
    assert receipt["config_hash"] == first.config_hash
    assert started("run", "--force", "--reason", "again").code == 0
    assert last().config_hash == first.config_hash
    monkeypatch.setenv("KFM_DATASETS__RAIN-GAUGES__TITLE", "Rain")  # resolved: wherever it was said
    assert started("run", "--force", "--reason", "again").code == 0
    assert last().config_hash != first.config_hash


def test_the_digest_of_the_configuration_is_of_what_the_bytes_come_from(started: Kfm) -> None:
    """What else is set can stop a run or tell others of it, and is in the receipt where it decided something."""
    settings = Path("kfm.yml")
    plain = settings.read_text()

    def ran_with(text: str) -> PublicRun:
        settings.write_text(text)
        assert started("run", "--force", "--reason", "compare").code == 0
        return last()

    first = ran_with(plain)
    other = ran_with(plain.replace("deletion_budget: 0.1", "deletion_budget: 0.9\nexecute: {threads: 1}"))
    assert (other.config_hash, other.version) == (first.config_hash, first.version)
    for old, new in (
        ("title: Rain gauges", "title: Rain"),
        ("minimum: 0,", "minimum: 1,"),
        ("attribution: Nobody; the numbers are made up", ""),
    ):
        assert old in plain and ran_with(plain.replace(old, new)).config_hash != first.config_hash
