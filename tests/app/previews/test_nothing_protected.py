"""A report on protected data shows nothing of it, whatever the branch does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.engine.protected.conftest import SECRETS, dataset, installation, label, labels, site  # noqa: F401


def git(*words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *words], check=True, capture_output=True)


def committed(message: str) -> None:
    git("add", "-A")
    git("commit", "-qm", message)


def branched(site: Kfm) -> None:  # noqa: F811
    """The table itself is not in the repository."""
    Path(".gitignore").write_text(".kfm/\npublic/\nsites.csv\nkeys.json\n")
    git("init", "-q", "-b", "main")
    committed("the installation")
    git("switch", "-qc", "finer")


def shown(site: Kfm) -> str:  # noqa: F811
    """All that a report writes and prints."""
    said = site("preview", "report", "finer", "--out", "../report")
    files = [path.read_text() for path in sorted(Path("../report").glob("*"))] if Path("../report").exists() else []
    return "\n".join([said.out, said.err, *files])


def test_nothing_of_a_protected_table_is_in_the_report(site: Kfm) -> None:  # noqa: F811
    branched(site)
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("title: sites", "title: Sites of Kansas"))
    committed("another title")
    git("switch", "-q", "main")
    built = site("preview", "build", "finer")
    assert built.code == 0, built
    text = shown(site)
    assert "Sites of Kansas" in text
    assert not [secret for secret in SECRETS if secret in text]


def test_a_branch_that_takes_the_labels_and_the_mask_away_opens_nothing(site: Kfm) -> None:  # noqa: F811
    branched(site)
    labels()
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("        mask: mask.yml\n", ""))
    committed("all of it, in clear")
    git("switch", "-q", "main")
    built = site("preview", "build", "finer")
    assert not [secret for secret in SECRETS if secret in built.out + built.err]
    assert not [secret for secret in SECRETS if secret in shown(site)]
    before = {path: path.read_bytes() for path in Path(".kfm").rglob("*") if path.is_file()}
    assert not [secret for secret in SECRETS for body in before.values() if secret.encode() in body]


def test_a_dataset_is_not_previewed_as_more_open_than_it_is(site: Kfm) -> None:  # noqa: F811
    Path("kfm.yml").write_text(
        Path("kfm.yml").read_text().replace("    title:", "    sensitivity: generalised\n    title:")
    )
    branched(site)
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("sensitivity: generalised", "sensitivity: public"))
    committed("public, says the branch")
    git("switch", "-q", "main")
    built = site("preview", "build", "finer")
    assert built.code == 7
    assert "more open" in built.err


def test_what_a_branch_says_of_a_protected_record_stops_the_whole_report(site: Kfm) -> None:  # noqa: F811
    """Somebody wrote it into the title, and the report shows how settings change: nothing of it is written."""
    assert site("run", "sites").code == 0  # from here on it is known what is protected
    branched(site)
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("title: sites", f"title: near {SECRETS[0]}"))
    committed("another title")
    git("switch", "-q", "main")
    built = site("preview", "build", "finer")
    assert built.code == 0, built
    said = site("preview", "report", "finer", "--out", "../report")
    assert said.code == 4, said
    assert "the report would show what is protected: " in said.err and not Path("../report").exists()
    assert not [secret for secret in SECRETS if secret in said.out + said.err]
    told = site("preview", "report", "finer", "--json")
    assert told.code == 4 and not [secret for secret in SECRETS if secret in told.out + told.err]


def test_a_mask_without_a_label_is_answered_with_the_label_to_write(site: Kfm) -> None:  # noqa: F811
    """To build the preview again, which helps against other differences, would not help."""
    branched(site)
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("title: sites", "title: Sites of Kansas"))
    committed("another title")
    git("switch", "-q", "main")
    assert site("preview", "build", "finer").code == 0
    preview = site("preview", "list", "--json").data[0]["preview"]
    git("merge", "-q", "finer")
    labels()
    for words in (("--dry-run",), ()):
        answer = site("preview", "publish", "finer", "--approved", preview, *words)
        assert answer.code == 3 and "has a mask and no label" in answer.err and "write into" in answer.err, answer
        assert "preview again" not in answer.err and answer.out == ""
