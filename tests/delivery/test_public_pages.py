"""`pages: true`: the public folder has one page for each dataset and one of all, true at any time, and removed with
the dataset.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from kfm.cli.main import main
from tests.delivery.sites import Site
from tests.sampling import sampled

LINK = re.compile(r'href="([^"]*)"')
ROW = re.compile(
    r'<a href="([^"]*)">([^<]*)</a></td><td class="n"><span title="([\d,]+) bytes?">[^<]*</span></td>'
    r'<td><code title="sha256:([0-9a-f]{64})">'
)
MINE, HOW = "datasets/demo/index.html", "datasets/demo/explanation.html"
THEIRS = ["datasets/other/explanation.html", "datasets/other/index.html", "index.html"]


@pytest.fixture
def site(place: Path) -> Site:
    site = Site(place / "site", ("demo", "other"), "pages: true\n")
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("catalog: file:catalog\n", ""))
    return site


def page(site: Site, path: str) -> str:
    return (site.folder / "public" / path).read_text()


def there(site: Site) -> list[str]:
    return sorted(str(path.relative_to(site.folder / "public")) for path in (site.folder / "public").rglob("*.html"))


def leads(site: Site) -> list[Path]:
    """Every file that the links of all pages lead to."""
    found = []
    for name in there(site):
        here = (site.folder / "public" / name).parent
        links = [unescape(link) for link in LINK.findall(page(site, name))]
        found += [Path(os.path.normpath(here / link)) for link in links if ":" not in link and link[0] != "#"]
    return found


def kfm(site: Site, *words: str) -> int:
    return main([*words, "--config", str(site.folder / "kfm.yml")])


def test_pages_name_licence_versions_and_files_with_links_to_these_very_bytes(site: Site) -> None:
    with site.open() as session:
        first = site.publish(session, {"a": "1", "b": "2"})
        second = site.publish(session, {"a": "1", "b": "3"})
    assert there(site) == [HOW, MINE, "index.html"]
    told = page(site, MINE)
    assert "<h1>The demo</h1>" in told and "Rows of demo" in told and "CC0-1.0" in told
    assert second in told and first[7:19] in told
    rows = ROW.findall(told)
    assert [row[1] for row in rows] == ["row / a", "row / b"]
    for href, _, size, digest in rows:
        body = (site.folder / "public/datasets/demo" / unescape(href)).read_bytes()
        assert len(body) == int(size) and hashlib.sha256(body).hexdigest() == digest
    assert len(leads(site)) > 6 and all(file.is_file() for file in leads(site))
    assert not (site.folder / "catalog").exists()
    assert 'href="datasets/demo/index.html"' in page(site, "index.html")
    assert "The other" not in page(site, "index.html"), "nothing of the other is published"
    assert (
        kfm(site, "reconcile", "--public") == 0 and kfm(site, "doctor", "--deep") == 0 and kfm(site, "reconcile") == 0
    )


def test_of_the_page_of_all_every_dataset_is_verified(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        site.publish(session, {"a": "9"}, "other")
    capsys.readouterr()
    assert kfm(site, "verify", str(site.folder / "public/index.html"), "--json") == 68, "nobody attests here"
    file, *made_from = json.loads(capsys.readouterr().out)["checks"]
    assert (file["what"], file["state"]) == ("file", "ok") and "index.html is a page, made from demo" in file["found"]
    assert {each["what"].partition("/")[0] for each in made_from} == {"demo", "other"}
    assert [each["state"] for each in made_from if each["what"].endswith("/objects")] == ["ok", "ok"]


def test_a_page_goes_back_with_its_version_and_goes_with_the_last(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        site.publish(session, {"a": "9"}, "other")
        before = {path: page(site, path) for path in there(site)}
        site.publish(session, {"a": "2"})
        assert page(site, MINE) != before[MINE]
        second = session.state.refs.at("published/demo")
        site.operate(session, "rollback")
        after = {path: page(site, path) for path in there(site)}
        assert "Withdrawn" in after[MINE] and second[7:19] in after[MINE], "it says so"
        assert {**after, MINE: ""} == {**before, MINE: ""}
        site.operate(session, "rollback", {"to": "nothing", "ref": "published/demo"})
    assert there(site) == THEIRS
    assert "The demo" not in page(site, "index.html") and "The other" in page(site, "index.html")
    assert kfm(site, "reconcile", "--public") == 0


def test_a_freeze_keeps_a_page_as_it_is_and_keeps_no_withdrawal_from_it(site: Site) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        before = page(site, MINE)
        site.ingest(session, {"a": "2"})
        site.operate(session, "freeze", {"scope": "demo"})
        site.publish(session, {"a": "9"}, "other")
        assert page(site, MINE) == before and "The demo" in page(site, "index.html")
        assert kfm(site, "reconcile", "--public") == 0
        site.operate(session, "rollback", {"to": "nothing", "ref": "published/demo"})
        assert there(site) == THEIRS
        assert "The demo" not in page(site, "index.html")


@pytest.mark.parametrize("path", [MINE, "index.html"])
@pytest.mark.parametrize("how", ["altered", "missing"])
def test_a_page_that_was_changed_is_noticed_and_put_right(site: Site, path: str, how: str) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
    before = {each: page(site, each) for each in there(site)}
    file = site.folder / "public" / path
    if how == "missing":
        file.unlink()
    else:
        file.write_text("<p>Bought by others.</p>")
    assert kfm(site, "reconcile", "--public") == 3
    assert kfm(site, "doctor", "--deep") != 0
    assert kfm(site, "reconcile", "--public", "--repair") == 0
    assert {each: page(site, each) for each in there(site)} == before
    assert kfm(site, "reconcile", "--public") == 0


def test_what_was_public_before_gets_its_pages_with_the_next_command(site: Site) -> None:
    config = site.folder / "kfm.yml"
    text = config.read_text()
    config.write_text(text.replace("pages: true\n", ""))
    with site.open() as session:
        site.publish(session, {"a": "1"})
    assert there(site) == []
    config.write_text(text)
    assert kfm(site, "run", "demo") == 0
    assert there(site) == [HOW, MINE, "index.html"]
    config.write_text(text.replace("pages: true\n", ""))  # and go, where nobody wants them any more
    assert kfm(site, "reconcile", "--public") == 3
    assert kfm(site, "reconcile", "--public", "--repair") == 0
    assert MINE not in there(site)


def test_no_name_breaks_out_of_a_page(site: Site) -> None:
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("The demo", '"<script>alert(1)</script>\\" onload=x"'))
    with site.open() as session:
        site.publish(session, {"<img>": "</script><img>"})
    for path in there(site):
        assert "<script>" not in page(site, path) and "<img" not in page(site, path)
        assert "&lt;script&gt;" in page(site, path)
        assert page(site, path).count("</script>") == page(site, path).count('<script type="application/ld+json">')


def test_many_files_are_counted_and_listed_elsewhere(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kfm.projections.dataset_pages.MOST", 3)
    with site.open() as session:
        site.publish(session, {f"k{n}": "1" for n in range(5)})
    told = page(site, MINE)
    assert len(ROW.findall(told)) == 3 and "the first 3 of 5 files" in told
    assert all(file.is_file() for file in leads(site))


def test_no_page_where_there_is_no_folder(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    config = site.folder / "kfm.yml"
    config.write_text("publish: noop\n" + config.read_text())
    assert kfm(site, "run") == 3
    assert "pages need a public folder or bucket" in capsys.readouterr().err


DYING = """
import os, signal, sys
from kfm.sinks.catalog_files import CatalogFiles
from kfm.sinks.folder_tree import FolderTree
wanted, seen = int(os.environ["DIE_AT"]), 0
def dying(owner, name):
    real = getattr(owner, name)
    def call(self, *words):
        global seen
        for do in (None, real):
            seen += 1
            if seen == wanted:
                os.kill(os.getpid(), signal.SIGKILL)
            if do:
                return do(self, *words)
    setattr(owner, name, call)
dying(CatalogFiles, "send")
dying(FolderTree, "write")
dying(FolderTree, "remove")
from kfm.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("at", sampled(range(2, 7)))
def test_killed_while_pages_are_written_the_next_command_makes_them_true(site: Site, at: int) -> None:
    with site.open() as session:
        site.publish(session, {"a": "1"})
        site.publish(session, {"a": "9"}, "other")
    config = str(site.folder / "kfm.yml")
    words = ["rollback", "demo", "--to", "nothing", "--reason", "not ours", "--config", config]
    env = {**os.environ, "DIE_AT": str(at)}
    done = subprocess.run([sys.executable, "-c", DYING, *words], env=env, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert kfm(site, "resume") == 0
    assert there(site) == THEIRS
    assert "The demo" not in page(site, "index.html")
    assert all(file.is_file() for file in leads(site))
