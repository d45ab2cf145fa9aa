"""A rollback requested twice is done once: the version that it took back returns only if it is requested by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm import config
from kfm.app.runs.run_control import run_operation
from kfm.app.session.session import open_session
from tests.node.sites import Site, declared


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site", {"kfm.yml": declared("rain")}, lambda _n: "python")


def becomes(site: Site, mm: str) -> str:
    site.put("rain.csv", f"mm\n{mm}\n")
    site.kfm("run")
    site.kfm("promote", "rain")
    return site.ref("published/rain")


@pytest.mark.parametrize("zone", ["published", "processed"])
def test_an_order_killed_past_its_commit_and_given_again_does_not_undo_itself(site: Site, zone: str) -> None:
    one, two = becomes(site, "1"), becomes(site, "20")
    ref = f"{zone}/rain"
    with open_session(config.load(str(site.folder / "kfm.yml"), {})) as session:
        assert run_operation(session, "rollback", "rain", {"ref": ref}, reason="wrong").outcome == "done"
        # It dies here: committed, and nothing was delivered.
    option = [] if zone == "published" else ["--ref", ref]
    for _ in range(2):
        answer = site.kfm("rollback", "rain", *option, "--reason", "wrong", code=3)
        assert f"{ref} was rolled back already, from {two} to {one}" in answer.err
        assert f"`kfm rollback rain {' '.join([*option, '--to', two[:23], '--reason', '…'])}`" in answer.err
        assert site.ref(ref) == one
    site.kfm("rollback", "rain", *option, "--to", two[:23], "--reason", "it was right")
    assert site.ref(ref) == two


def test_a_rollback_to_a_named_version_is_not_undone_by_one_that_names_none(site: Site) -> None:
    one, _two, _three = becomes(site, "1"), becomes(site, "20"), becomes(site, "300")
    site.kfm("rollback", "rain", "--to", one)
    site.kfm("rollback", "rain", "--to", one)
    site.kfm("rollback", "rain", code=3)
    assert site.ref("published/rain") == one


def test_after_a_withdrawal_nothing_comes_back_unnamed(site: Site) -> None:
    one = becomes(site, "1")
    site.kfm("rollback", "rain", "--to", "nothing")
    assert (
        f"to go forward again: `kfm rollback rain --to {one[:23]} --reason …`"
        in site.kfm("rollback", "rain", code=3).err
    )
    assert site.ref("published/rain") == ""
    assert "needs a reason" in site.kfm("rollback", "rain", "--to", one[:23], code=3, env={"KFM_REASON": ""}).err
    assert site.ref("published/rain") == ""
    site.kfm("rollback", "rain", "--to", one[:23], "--reason", "it was right")
    assert (
        "to withdraw it again: `kfm rollback rain --to nothing --reason …`" in site.kfm("rollback", "rain", code=3).err
    )
    assert site.ref("published/rain") == one


def test_an_order_that_names_what_it_leaves_takes_back_nothing_else(site: Site) -> None:
    one, two = becomes(site, "1"), becomes(site, "20")
    site.kfm("rollback", "rain", "--from", two)
    assert site.ref("published/rain") == one
    three = becomes(site, "300")
    assert "has moved since this was requested" in site.kfm("rollback", "rain", "--from", two, code=6).err
    assert site.ref("published/rain") == three
    site.kfm("rollback", "rain", "--from", three[:23])
    assert site.ref("published/rain") == one
    site.kfm("promote", "rain", "--to", three[:23], "--reason", "it was right")
    assert site.ref("published/rain") == three
