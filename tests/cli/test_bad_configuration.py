"""A mistake in kfm.yml gives a clear line, the first mistake is always the same, the exit code is 3, and nothing
changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kfm.cli.parser import build
from tests.config.test_config import ENV_CASES, JSON_CASES, TAIL, YAML_CASES
from tests.engine.installations import Answer, stamps
from tests.engine.test_no_command_forgotten import commands_in, leaves
from tests.node.sites import Site
from tests.sampling import sampled, stride

from .conftest import Kfm, tree

Count = Callable[..., None]

# Everything that reads the configuration, with whatever it needs besides.
COMMANDS = (
    ("run",), ("run", "--dry-run"), ("run", "rain-gauges", "--force", "--reason", "r"), ("plan", "rain-gauges"),
    ("catalog", "build"), ("catalog", "show"), ("sinks",), ("sinks", "test"), ("reconcile",), ("runs", "signals"),
    ("explain", "rain-gauges"), ("why-not", "rain-gauges"), ("reproduce", "rain-gauges"),
    ("lineage", "graph"), ("lineage", "upstream", "rain-gauges"), ("lineage", "downstream", "rain-gauges"),
    ("lineage", "export"),
    ("up", "--once"), ("schedule", "freshness"), ("runs", "cancel", "last"),
    ("schedule", "list"), ("schedule", "show", "a"),
    ("schedule", "next"), ("schedule", "check"), ("schedule", "pause", "a"), ("schedule", "resume", "a"),
    ("schedule", "trigger", "a"), ("backfill", "plan", "a"), ("backfill", "start", "a"), ("backfill", "resume", "a"),
    ("backfill", "status"), ("backfill", "pause", "a"), ("backfill", "cancel", "a"),
    ("catalog", "discover", "data"), ("new", "updater", "wells"),
    ("add", "data/rain_gauges.csv"), ("remove", "rain-gauges"),
    ("preview", "build", "a"), ("preview", "list"), ("preview", "report", "a"),
    ("preview", "publish", "a", "--approved", "a"), ("preview", "sweep"),
    ("schedule", "pools"), ("resume",), ("runs", "list"), ("runs", "show", "last"), ("runs", "steps", "last"),
    ("refs", "list"),
    ("refs", "history", "processed/rain-gauges"), ("cat", "processed/rain-gauges"), ("quarantine", "rain-gauges"),
    ("runs", "receipts"), ("runs", "receipt", "last"), ("publish", "rain-gauges"), ("rollback", "rain-gauges"),
    ("thaw",), ("triggers", "watch", "--once"), ("webhooks", "serve", "--port", "0"), ("serve", "--port", "0"),
    ("webhooks", "sign", "a"),
    ("webhooks", "verify", "a"), ("webhooks", "replay", "a"), ("triggers", "list"), ("triggers", "show", "1"),
    ("jobs", "list"), ("jobs", "dead"), ("jobs", "show", "1"), ("jobs", "retry", "1"), ("jobs", "cancel", "1"),
    ("jobs", "enqueue", "ingest.pull_source", "--dataset", "a"), ("search", "a"), ("move", "--to", "sqlite:b.db"),
    ("backup", "b"), ("restore", "b"), ("upgrade", "b"), ("hotfix", "list"), ("hotfix", "revert", "a"),
    ("hotfix", "diff", "hotfix.yml"), ("hotfix", "apply", "hotfix.yml"),
    ("hotfix", "new", "a", "rain-gauges", "--set", "title=a"),
    ("triggers", "drop", "1"),
    ("energy",), ("energy", "rain-gauges"),
    ("slo", "list"), ("slo", "show", "a"), ("slo", "override", "a", "--until", "1h", "--reason", "r"),
    ("alerts", "write"), ("report", "quarter"),
    ("breakers",), ("breakers", "open", "a", "--reason", "r"), ("budgets",),
    ("budgets", "reset", "a", "--reason", "r"),
    ("gc",), ("gc", "--dry-run"),
    ("triggers", "retry", "1"), ("runs", "wal", "last"), ("runs", "telemetry"), ("runs", "compact"),
    ("reconcile", "--public"), ("diff", "rain-gauges"), ("status",),
    ("config", "show"), ("config", "check"),
    ("runners", "workflow"), ("runners", "write", "cron"), ("runners", "check"),
    ("mask", "deploy", "rain-gauges", "gauges"), ("policy", "deploy"),
    ("labels", "show"),
    ("protect", "data/rain_gauges.csv"), ("mask", "scan", "."), ("keys", "new", "--person", "ann"),
    ("keys", "list"), ("keys", "revoke", "a", "--reason", "r"), ("review", "list"), ("review", "show", "a"),
    ("token", "new", "--person", "ann"), ("token", "list"), ("token", "revoke", "a", "--reason", "r"),
    ("audit", "verify"), ("audit", "prove", "1"), ("audit", "consistency", "1"), ("audit", "export"),
    ("attest", "rain-gauges"), ("verify", "rain-gauges"), ("policy", "gates", "rain-gauges"),
    ("policy", "bundle", "--out", "b"), ("review", "deploy"),
    ("policy", "check"), ("policy", "explain", "rain-gauges"), ("policy", "test"),
)  # fmt: skip
WORST = ("alias bomb", "deep brackets", "duplicate key", "unknown key", "text for a number", "not UTF-8", "empty")


def lines_of(err: str) -> list[str]:
    """A line for each mistake, and nothing else."""
    assert err.endswith("\n") and err.rstrip("\n").replace("\n", "").isprintable(), err[:2000]
    lines = err.splitlines()
    assert all(line.startswith("kfm: ") for line in lines), err[:2000]
    return lines


def refused(kfm: Kfm, case: str, words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    before = tree()
    answer = kfm(*words)
    assert answer.code == 3, (case, words, answer)
    assert answer.out == "", (case, words)
    first, *others = lines_of(answer.err)
    assert len(first) < 600, (case, words)
    assert all(part in first for part in parts), (case, words, answer.err)
    assert all(len(other) < 600 and other != first for other in others), (case, words, others)
    assert "CANARY" not in answer.err, (case, words)
    assert tree() == before, (case, words)


@pytest.mark.parametrize(("name", "cases"), [("kfm.yml", YAML_CASES), ("kfm.json", JSON_CASES)])
def test_every_wrong_configuration_is_refused_in_a_line_that_comes_first(
    ran: Kfm, name: str, cases: dict[str, tuple[str | bytes, tuple[str, ...]]], count: Count
) -> None:
    for case, (text, parts) in cases.items():
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        refused(ran, case, ("run", "--config", name), parts)
        count("wrong configurations refused at the door")


@pytest.mark.parametrize("case", sampled(WORST, every=3))
def test_every_command_refuses_it_alike(ran: Kfm, case: str) -> None:
    text, parts = YAML_CASES[case]
    Path("kfm.yml").write_bytes(text if isinstance(text, bytes) else text.encode())
    for words in COMMANDS:
        refused(ran, case, words, parts)


def test_that_is_every_command_that_reads_it() -> None:
    known = {command for command, _ in leaves(build())}
    without = {
        ("init",),
        ("config", "schema"),
        ("config", "completion"),
        ("jobs", "types"),
        ("mask", "preview"),
        ("catalog", "validate"),
    }
    ask_for_a_key_first = {("review", "approve"), ("review", "reject")}
    work_all_the_same = {("freeze",), ("labels", "set"), ("doctor",)}  # tests/cli/test_brakes.py
    assert commands_in(COMMANDS, known) == known - without - ask_for_a_key_first - work_all_the_same


def test_every_wrong_setting_in_the_environment_is_refused_in_a_line_that_comes_first(
    ran: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("kfm.yml").write_text(TAIL)
    for case, (settings, parts) in ENV_CASES.items():
        with monkeypatch.context() as patched:
            for name, value in settings.items():
                patched.setenv(name, value)
            refused(ran, case, ("run",), parts)


def test_a_file_that_kfm_yml_names_and_is_missing_is_reported_in_one_line(ran: Kfm) -> None:
    text = Path("kfm.yml").read_text()
    for there, missing in (
        ("updaters/rain_gauges.py", "updaters/nobody.py"),
        ("data/rain_gauges.csv", "data/nothing.csv"),
    ):
        assert there in text
        Path("kfm.yml").write_text(text.replace(there, missing))
        before = tree()
        answer = ran("run", "--dry-run")
        assert answer.code == 3, answer
        assert missing in answer.complaint
        assert tree() == before
    Path("kfm.yml").unlink()
    refused(ran, "no file", ("run", "--config", "kfm.yml"), ("kfm.yml does not exist",))
    Path("kfm.yml").mkdir()
    refused(ran, "a folder", ("run", "--config", "kfm.yml"), ("kfm.yml is not a file",))


BY_BOTH = (
    *WORST, "deep dashes", "never closed", "NUL", "a huge integer", "too many values", "unknown nested key",
    "a list for a section", "a newer format", "a dataset that climbs", "a hostile key",
)  # fmt: skip


def told_of(answer: Answer) -> tuple[int, str, str]:
    """The sentence is each language's own; what it is about, and where, is not."""
    place = re.match(r"kfm: (?:\S+:\d+:\d+: )?", answer.err)
    return answer.code, answer.out, place.group() if place else answer.err


def test_both_runners_refuse_at_the_same_place(tmp_path: Path, count: Count) -> None:
    """Each in a process of its own, as it is typed."""
    site = Site(tmp_path / "site", {"a folder/x": ""}, lambda _n: "node")
    texts = {f"{n}.yml": YAML_CASES[case] for n, case in enumerate(BY_BOTH[:: stride(3)])}
    texts |= {f"{n}.json": JSON_CASES[case] for n, case in enumerate(("deep", "duplicate keys", "not JSON"))}
    for name, (text, _) in texts.items():
        site.put(name, text)
    before = stamps(site.folder)
    for name in (*texts, "missing.yml", "a folder"):
        words = ("run", "--config", name)
        answers = [site.python(*words), site.node(*words), site.kfm(*words, code=None)]
        assert answers[0] == answers[2] and told_of(answers[0]) == told_of(answers[1]), (name, answers)
        code, out, err = answers[0]
        assert (code, out) == (3, ""), (name, answers)
        err = lines_of(err)[0]
        assert len(err) < 600
        parts = texts[name][1] if name in texts else ("does not exist" if "missing" in name else "is not a file",)
        assert all(part.replace("kfm.yml", name).replace("kfm.json", name) in err for part in parts), (name, err)
        assert stamps(site.folder) == before, name
        count("wrong configurations refused alike by both runners")
