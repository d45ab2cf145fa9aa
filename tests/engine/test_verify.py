"""Verification tells damage from growth: a ledger that grows while it is read is not damaged, one that shrank is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kfm.engine.verify import verify
from kfm.errors import Corrupt
from tests.engine.site_under_test import Lines, MemorySite


def grown(site: MemorySite, times: int) -> None:
    for n in range(times):
        site.shelf.body = b"%d" % n
        site.run(Lines())


@pytest.mark.parametrize("before", [0, 1, 4])
def test_a_ledger_that_grows_while_it_is_read_is_read_to_its_end(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    site = MemorySite()
    grown(site, before)
    head = site.state.ledger.head
    late = [3]

    def growing() -> str:
        if late[0]:
            late[0] -= 1
            site.run(Lines())
        return head()

    monkeypatch.setattr(site.state.ledger, "head", growing)
    assert verify(site.state, site.world.objects).entries == before + 3
    assert late == [0]


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_ledger_that_was_cut_off_is_refused(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    site = MemorySite()
    grown(site, 4)
    links = site.state.ledger.links

    def cut(*, after: int = 0, **options: Any) -> Iterator[Any]:
        return (link for link in links(after=after, **options) if link[0].index <= kept)

    monkeypatch.setattr(site.state.ledger, "links", cut)
    with pytest.raises(Corrupt, match=f"after entry {kept}"):
        verify(site.state, site.world.objects)


def test_what_was_published_once_is_checked_too() -> None:
    site = MemorySite()
    grown(site, 2)
    (first, _) = site.state.refs.history("processed/demo")
    site.state.tables.begin()
    site.state.tables.put("objects", first.after, b'{"digest":"sha256:' + b"0" * 64 + b'","key":["all"]}\n')
    site.state.tables.commit()
    with pytest.raises(AssertionError):  # the site's own objects check digests so
        verify(site.state, site.world.objects)
