"""Names of published files keep the case of their keys, on every machine alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from kfm.app.stewards.public_repair import differences
from kfm.model.records import DatasetVersion
from kfm.projections.file_paths import KEEPS_CASE
from tests.delivery.sites import Site


@pytest.fixture
def site(place: Path) -> Site:
    return Site(place / "site")


def names(site: Site, version: str) -> list[str]:
    folder = site.folder / "public/datasets/demo/versions" / version[7:23]
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.csv"))


def test_a_key_with_capitals_is_published_under_its_own_name(site: Site) -> None:
    with site.open() as session:
        version = site.publish(session, {"Reno": "1", "ellis": "2"})
        assert names(site, version) == ["row/Reno.csv", "row/ellis.csv"]
        assert differences(session, "demo") == []


def test_keys_that_differ_only_in_case_get_a_suffix_and_no_other_key_does(site: Site) -> None:
    with site.open() as session:
        first = site.publish(session, {"Reno": "1", "Butler": "2"})
        second = site.publish(session, {"Reno": "1", "RENO": "3", "Butler": "2"})
        third = site.publish(session, {"Reno": "1", "Butler": "4"})
        assert differences(session, "demo") == []
    assert names(site, first) == names(site, third) == ["row/Butler.csv", "row/Reno.csv"]
    butler, *others = names(site, second)
    assert butler == "row/Butler.csv"
    assert [name[:9] for name in others] == ["row/RENO~", "row/Reno~"]
    assert len({name.lower() for name in others}) == 2, "a disk may ignore case"


def test_a_version_from_before_names_kept_their_case_keeps_its_paths(site: Site) -> None:
    with site.open() as session:
        old = site.ingest(session, {"Reno": "1", "ellis": "2"}).outputs[0].checksum
        forget(session, old)
        site.operate(session, "promote")
        hidden = names(site, old)
        assert [name[:5] for name in hidden] == ["row/_", "row/e"]
        site.ingest(session, {"Reno": "9", "ellis": "2"})
        again = site.ingest(session, {"Reno": "1", "ellis": "2"})  # the same version: it is public under these names
        assert again.outputs[0].checksum == old
        assert differences(session, "demo") == [] and names(site, old) == hidden
        new = site.publish(session, {"Reno": "5", "ellis": "2"})
        assert names(site, new) == ["row/Reno.csv", "row/ellis.csv"] and names(site, old) == hidden
        site.operate(session, "rollback", {"to": old})
        assert names(site, old) == hidden and differences(session, "demo") == []
    shutil.rmtree(site.folder / "public/datasets/demo/versions" / old[7:23])
    with site.open() as session:
        assert {each.kind for each in differences(session, "demo")} == {"missing"}


def forget(session: object, version: str) -> None:
    """Let a version be one that an earlier KFM made."""
    state = session.state  # type: ignore[attr-defined]
    made: DatasetVersion = state.ledger.version("demo", version)
    assert made.validation[KEEPS_CASE] == 1
    said = {name: count for name, count in made.validation.items() if name != KEEPS_CASE}
    with state.transaction() as tx:
        tx.ledger.keep_version(msgspec.structs.replace(made, validation=said))
    assert KEEPS_CASE not in state.ledger.version("demo", version).validation
