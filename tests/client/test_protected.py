"""A program reads protected data: what the command denies is denied here, in the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

import kfm as library
from kfm.errors import Denied
from tests.app.governance.people import make_list
from tests.cli.conftest import Kfm
from tests.client.test_shown import everything
from tests.engine.protected.conftest import KEY, SAFE, SECRETS, dataset, installation, kfm, label, labels, site  # noqa: F401


@pytest.fixture
def sealed(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:  # noqa: F811
    """The table as it is, under the key of its custodian."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    installation(dataset("sites", "sites.csv"))
    labels(label("dataset: sites", "restricted"), label("source: sites.csv", "restricted"))
    make_list(kfm, SAFE, "office")
    return kfm


def test_what_is_sealed_opens_with_its_key_and_is_denied_without(sealed: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    one = library.open(Path.cwd())
    for shown in everything(one, "sites"):
        told = repr(shown) + shown._repr_html_()
        assert not [secret for secret in SECRETS if secret in told], type(shown)
    found = one.read("sites")
    assert [row["trinomial"] for row in found.rows()][:2] == ["14QX100", "14QX101"], "it is there for its custodian"
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    said = sealed("cat", "processed/sites")
    assert said.code == Denied.exit_code and said.out == ""
    for read in (lambda: one.read("sites"), found.bytes, found.rows):
        with pytest.raises(Denied) as denied:
            read()
        assert said.complaint == f"kfm: {denied.value}"


def test_what_leaves_through_masking_is_read_as_cells(site: Kfm) -> None:  # noqa: F811
    one = library.open(Path.cwd())
    one.run("sites")
    rows = one.read("sites").rows()
    assert len(rows) == 12 and "cell" in rows[0]
    assert not [secret for secret in SECRETS if secret in str(rows)]


def test_without_its_key_nothing_protected_is_run(sealed: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KFM_SECRET_OFFICE")
    one = library.open(Path.cwd())
    said = sealed("run", "sites")
    told = one.run("sites", check=False)
    assert said.code == told.problems[0].exit_code != 0
    with pytest.raises(type(told.problems[0])):
        one.run("sites")
