"""Each page of the console shows the record that its address under /v1 answers with, and no page shows more."""

from __future__ import annotations

import html
import re
import time
from pathlib import Path
from unittest import mock

import pytest

from kfm.api import application
from kfm.api.route_table import ROUTES
from kfm.api.routes import STAFF
from kfm.app.serving import discretion
from kfm.crypto.checkpoints import Verifier, open_checkpoint
from kfm.crypto.merkle import is_included
from tests import sampling
from tests.api.console_server import Console, console, told
from tests.api.serving_site import PASSING
from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm, done, kfm, plain_environment, ran, started
from tests.engine.protected.conftest import SAFE, SECRETS, dataset, installation, label, labels, site
from tests.kept import once

__all__ = ["kfm", "plain_environment", "ran", "site", "started"]

NOTHING = {"title": "there is nothing at this address", "status": 404}
ABSENT = "00000000-0000-8000-8000-000000000000"


def words(page: str) -> str:
    """What a reader sees of a page."""
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S)).split())


def same(server: Console, *paths: str) -> None:
    """All of these are the one answer about what is absent."""
    found = [server.get(path) for path in paths]
    assert [(each.status, each.data) for each in found] == [(404, NOTHING)] * len(paths), paths
    heads = [{k: v for k, v in each.headers.items() if k not in PASSING} for each in found]
    assert all(head == heads[0] for head in heads)


@pytest.fixture
def mixed(site: Kfm) -> Kfm:
    """A public dataset, a masked one and a closed one; the first two are published."""
    Path("wells.csv").write_text("well,depth\nA,1\nB,2\n")
    Path("closed.csv").write_text("name,what\nhidden-spring,x\n")
    installation(
        dataset("sites", "sites.csv", mask=True, sensitivity="public"),
        dataset("wells", "wells.csv", sensitivity="public"),
        dataset("closed-springs", "closed.csv", sensitivity="restricted"),
    )
    labels(label("dataset: sites"), label("source: sites.csv"))

    def make() -> None:
        site("run")
        done(by_order(site, SAFE, "promote", "wells"), by_order(site, SAFE, "promote", "sites"))

    once("console-mixed", [Path(), SAFE], make)
    return site


HIDDEN = ("closed-springs", "hidden-spring", "closed.csv")


def test_the_staff_is_the_same_in_the_table_of_routes_and_in_what_it_may_see() -> None:
    assert discretion.STAFF == STAFF


def test_the_page_of_runs_and_of_a_run_show_the_records_of_their_addresses(ran: Kfm) -> None:
    with console() as server:
        listed = server.data("/v1/runs")
        assert [row["op"] for row in listed["runs"]] == ["promote", "ingest"]
        page = server.page("/runs")
        for row in listed["runs"]:
            assert f'href="/runs/{row["run_id"]}"' in page and row["status"] in page
        first = server.data("/v1/runs?limit=1")
        rest = server.data(f"/v1/runs?limit=1&after={first['next']}")
        assert [*first["runs"], *rest["runs"]] == listed["runs"] and rest["next"] == ""
        assert [r["op"] for r in server.data("/v1/runs?dataset=rain-gauges&status=SUCCESS")["runs"]] == [
            "promote",
            "ingest",
        ]
        assert server.data("/v1/runs?status=FAILED")["runs"] == []

        run_id = listed["runs"][1]["run_id"]
        told = server.data(f"/v1/runs/{run_id}")
        steps, journal = server.data(f"/v1/runs/{run_id}/steps"), server.data(f"/v1/runs/{run_id}/journal")
        seen = words(server.page(f"/runs/{run_id}"))
        assert told["steps"] == {"planned": 3, "done": 3, "failed": 0} and steps["planned"] == 3
        for text in (told["correlation_id"], told["cost"]["energy_method"], *(step["id"] for step in steps["steps"])):
            assert text in seen
        assert [fact["seq"] for fact in journal["records"]] == list(range(1, len(journal["records"]) + 1))
        assert {fact["phase"] for fact in journal["records"]} == {"PLAN", "EXECUTE", "UPSERT", "LINEAGE"}
        receipt = server.data(f"/v1/runs/{run_id}/receipt")
        assert receipt["receipt"]["run_id"] == run_id and receipt["receipt_digest"] in seen
        two = server.data(f"/v1/runs/{run_id}/steps?limit=2")
        last = server.data(f"/v1/runs/{run_id}/steps?limit=2&after={two['next']}")
        assert [*two["steps"], *last["steps"]] == steps["steps"] and last["next"] == ""
        same(server, f"/v1/runs/{ABSENT}", "/v1/runs/x", f"/runs/{ABSENT}", f"/v1/runs/{ABSENT}/steps")


def test_everybody_sees_runs_of_shown_versions_alone_and_never_a_receipt(mixed: Kfm) -> None:
    every = [row["run"] for row in mixed("--json", "runs", "list").data if row["dataset"] == "closed-springs"]
    assert every, "a run of the closed dataset is there"
    with console() as server:
        listed = server.data("/v1/runs")
        assert {row["dataset"] for row in listed["runs"]} == {"sites", "wells"}
        pages = [server.get("/runs"), server.get("/v1/runs")]
        for row in listed["runs"]:
            at = f"/v1/runs/{row['run_id']}"
            pages += [server.get(each) for each in (at, f"{at}/steps", f"{at}/journal", f"{at}/receipt", at[3:])]
            assert server.data(f"{at}/receipt")["receipt"] is None
            withheld = row["dataset"] == "sites"
            assert server.data(at)["is_withheld"] is withheld
            assert bool(server.data(f"{at}/steps")["steps"]) is not withheld
        assert all(page.status == 200 for page in pages)
        seen = "\n".join(page.text for page in pages)
        assert [secret for secret in (*SECRETS, *HIDDEN) if secret in seen] == []
        same(server, "/v1/runs/" + every[0], "/v1/runs/" + ABSENT, f"/runs/{every[0]}")
        same(server, "/v1/runs?dataset=closed-springs", "/v1/runs?dataset=no-such")


def test_the_staff_sees_that_a_protected_run_was_and_nothing_of_what_it_read(mixed: Kfm) -> None:
    with console(audience="operator") as server:
        listed = server.data("/v1/runs")
        assert {row["dataset"] for row in listed["runs"]} >= {"sites", "wells", "closed-springs"}
        seen = ""
        for row in listed["runs"]:
            at = f"/v1/runs/{row['run_id']}"
            for each in (at, f"{at}/steps", f"{at}/journal", f"{at}/receipt", at[3:]):
                body = server.get(each).text
                seen += "" if row["dataset"] == "wells" else body
            is_plain = row["dataset"] == "wells"
            assert (server.data(f"{at}/receipt")["receipt"] is not None) is is_plain, row
        assert "closed-springs" in seen, "the staff may know its name"
        assert [secret for secret in (*SECRETS, "hidden-spring", "closed.csv", "sites.csv") if secret in seen] == []


def test_the_page_of_the_present_shows_what_is_frozen_quarantined_and_what_to_do(ran: Kfm) -> None:
    done(ran("freeze", "rain-gauges", "--reason", "looking"))
    with console() as server:
        now, seen = server.data("/v1/now"), words(server.page("/now"))
        (one,) = now["datasets"]
        assert one["is_frozen"] and one["is_held"] and "frozen" in seen and "quarantined rows" in seen
        assert now["next"] and all(step["command"] in seen and step["why"] in seen for step in now["next"])
    with console(audience="public") as server:
        same(server, "/now", "/v1/now", "/v1/no-such-thing")


def test_the_staff_learns_of_protected_datasets_without_counts_and_one_user_learns_nothing(mixed: Kfm) -> None:
    with console(audience="operator") as server:
        now = server.data("/v1/now")
        found = {one["dataset"]: one for one in now["datasets"]}
        assert found["closed-springs"]["version"] == "" and found["closed-springs"]["held_rows"] is None
        seen = server.page("/now") + str(now)
        assert [secret for secret in (*SECRETS, "hidden-spring", "closed.csv", "sites.csv") if secret in seen] == []
    with console(audience="single") as server:
        assert "closed-springs" not in server.page("/now") + str(server.data("/v1/now"))


def test_events_tell_of_runs_and_freezes_and_end_with_the_server(ran: Kfm) -> None:
    with console() as server:
        with server.events() as stream, server.events() as other, mock.patch.object(application, "MOST_LISTENERS", 2):
            assert stream.getheader("content-type") == "text/event-stream; charset=utf-8"
            assert stream.readline().startswith(b"retry:") and other.readline().startswith(b"retry:")
            refused = server.get("/v1/events")
            assert refused.status == 503 and refused.data["status"] == 503
            done(ran("freeze", "rain-gauges", "--reason", "looking"))
            news = [told(stream), told(stream)]
            assert {one["event"] for one in news} == {"freeze", "entry"}
            assert {one["dataset"] for one in news} == {"rain-gauges"}
            last = max(one["index"] for one in news)
        with server.events(f"/v1/events?after={last - 1}") as stream:
            assert told(stream)["index"] == last, "what was missed is told first"
        with server.events() as stream:
            assert stream.readline().startswith(b"retry:")
            server.stop()
            rest = stream.read()
            assert b"data:" not in rest


def test_the_ledger_shows_its_entries_and_a_proof_that_holds(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_SECRET_LEDGER", "7" * 64)
    with Path("kfm.yml").open("a") as file:
        file.write("ledger: {origin: test.example/ledger, sign_with: 'env:KFM_SECRET_LEDGER'}\n")
    with console() as server:
        before = server.data("/v1/ledger/1")
        assert before["checkpoint"] == "" and "No signed head" in words(server.page("/ledger/1"))
    done(ran("audit", "export"), ran("freeze", "rain-gauges", "--reason", "looking"))
    with console() as server:
        listed = server.data("/v1/ledger")
        assert [row["index"] for row in listed["entries"]] == list(range(len(listed["entries"]), 0, -1))
        page = server.page("/ledger")
        assert all(f'href="/ledger/{row["index"]}"' in page for row in listed["entries"])
        two = server.data("/v1/ledger?limit=2")
        assert [*two["entries"], *server.data(f"/v1/ledger?after={two['next']}")["entries"]] == listed["entries"]
        same(server, "/v1/ledger/0", "/v1/ledger/999", "/v1/ledger/x", "/ledger/999", "/v1/ledger?dataset=no-such")
        for index in (1, 2):
            proof = server.data(f"/v1/ledger/{index}")
            asked = ran("--json", "audit", "prove", str(index)).data
            assert (list(proof["hashes"]), proof["checkpoint"]) == (asked["hashes"], asked["checkpoint"])
            assert proof["stored"] == asked["entry"] and proof["leaf"] in server.page(f"/ledger/{index}")
            head = open_checkpoint(proof["checkpoint"], [Verifier.parsed(proof["keys"][0])])
            way = [bytes.fromhex(each) for each in proof["hashes"]]
            assert is_included(bytes.fromhex(proof["leaf"]), index - 1, head.size, way, bytes.fromhex(head.root))
    with console(audience="public") as server:
        assert server.data("/v1/ledger/1")["stored"] == "", "what people typed is for the staff"


def test_everybody_sees_ledger_entries_about_shown_datasets_alone(mixed: Kfm) -> None:
    entries = [(n, row["dataset"]) for n, row in enumerate(reversed(mixed("--json", "runs", "receipts").data), 1)]
    hidden = [n for n, name in entries if name == "closed-springs"]
    assert hidden
    with console() as server:
        listed = server.data("/v1/ledger")
        assert {row["dataset"] for row in listed["entries"]} == {"sites", "wells"}
        bodies = [server.page("/ledger"), str(listed)]
        for row in listed["entries"]:
            bodies += [server.page(f"/ledger/{row['index']}"), str(server.data(f"/v1/ledger/{row['index']}"))]
        assert [secret for secret in (*SECRETS, *HIDDEN) if secret in "".join(bodies)] == []
        same(server, *(f"/v1/ledger/{n}" for n in hidden), "/v1/ledger/999999", f"/ledger/{hidden[0]}")


def test_versions_their_differences_and_lineage_have_pages_of_the_same_records(ran: Kfm) -> None:
    with Path("data/rain_gauges.csv").open("a") as file:
        file.write("sharon,barber,2026-01,3.5\n")
    done(ran("run"))
    done(ran("publish", "rain-gauges", "--reason", "second"))
    with console() as server:
        new, old = server.data("/v1/datasets/rain-gauges/versions")["versions"]
        assert new["current"] and not old["current"] and new["version"] != old["version"]
        told = server.data(f"/v1/datasets/rain-gauges/versions/{old['version']}")
        assert [file["key"] for file in told["files"]] == [["ellis"], ["ford"], ["riley"]]
        for file in told["files"]:
            assert server.get(file["href"]).status == 200, "every file that is named can be read"
        first = server.data(f"/v1/datasets/rain-gauges/versions/{old['version']}?limit=2")
        rest = server.data(f"/v1/datasets/rain-gauges/versions/{old['version']}?limit=2&after={first['next']}")
        assert [*first["files"], *rest["files"]] == told["files"] and rest["next"] == ""
        differs = server.data("/v1/datasets/rain-gauges/diff")
        assert (differs["before"], differs["after"]) == (old["version"], new["version"])
        assert {(change["key"][0], change["what"]) for change in differs["changes"]} == {("barber", "added")}
        again = server.data(f"/v1/datasets/rain-gauges/diff?from={new['version']}&to={old['version']}")
        assert (again["added"], again["removed"]) == (differs["removed"], differs["added"])
        seen = words(server.page(f"/versions/rain-gauges/{new['version']}"))
        assert f"{differs['added']} added" in seen and "barber" in seen and new["version"] in seen
        lineage = server.data("/v1/datasets/rain-gauges/lineage")
        page = server.page("/lineage/rain-gauges")
        assert "<svg" in page and all(node["name"] in page for node in lineage["nodes"])
        assert [(edge["source"], edge["target"]) for edge in lineage["edges"]] == [
            ("source:data/rain_gauges.csv", "dataset:rain-gauges")
        ]
        found = {row["ref"]: row["target"] for row in server.data("/v1/refs")["refs"]}
        assert found["published/rain-gauges"] == new["version"]
        absent = "sha256:" + "0" * 64
        same(
            server,
            f"/v1/datasets/rain-gauges/versions/{absent}",
            f"/versions/rain-gauges/{absent}",
            f"/v1/datasets/rain-gauges/diff?from={absent}",
            "/v1/datasets/no-such/versions",
            "/v1/datasets/no-such/lineage",
            "/lineage/no-such",
        )


def test_the_pages_of_the_staff_show_their_records_and_exist_for_nobody_else(ran: Kfm) -> None:
    Path("slos").mkdir()
    Path("slos/runs.yml").write_text(OBJECTIVE)
    with console() as server:
        (objective,) = server.data("/v1/objectives")["objectives"]
        assert objective["name"] in words(server.page("/objectives")) or objective["title"] in server.page(
            "/objectives"
        )
        (item,) = server.data("/v1/review")["items"]
        seen = words(server.page("/review"))
        assert item["what"] in seen and item["evidence"]["findings"][0]["what"] in seen and item["id"] in seen
        governance, seen = server.data("/v1/governance"), words(server.page("/governance"))
        assert all(row["digest"] in seen for row in governance["policies"]) and "rain-gauges" in seen
        (reason, *_) = server.data("/v1/why-not/rain-gauges")["reasons"]
        assert reason["why"] in words(server.page("/why-not/rain-gauges"))
        same(server, "/v1/why-not/no-such", "/why-not/no-such", "/v1/why-not/global")
    with console(audience="public") as server:
        theirs = [
            route.path.replace("{name}", "rain-gauges")
            for route in ROUTES
            if route.audiences == STAFF and route.method == "GET"
        ]
        assert len(theirs) == 14
        same(server, *theirs)
        assert "/governance" not in server.page("/runs"), "the bar leads nowhere that this caller may not go"


def test_a_mistake_in_a_file_of_the_installation_is_not_the_callers(ran: Kfm) -> None:
    Path("slos").mkdir()
    Path("slos/runs.yml").write_text("secret-word: [")
    with console() as server:
        broken = server.get("/v1/objectives")
        assert broken.status == 503 and "secret-word" not in broken.text


@pytest.mark.parametrize(
    "audience", sampling.sampled(["public", "operator", "single", "viewer", "steward", "admin"], 1)
)
def test_no_address_shows_anybody_a_secret_of_a_protected_dataset(mixed: Kfm, audience: str) -> None:
    names = ["sites", "wells", "closed-springs"]
    with console(audience=audience) as server:
        runs = [row["run"] for row in mixed("--json", "runs", "list", "--limit", "0").data]
        version = server.data("/v1/datasets/sites")["version"]
        fillings = {"name": names, "run": runs, "index": ["1", "2", "3", "4", "5", "6"], "version": [version]}
        paths = [route.path for route in ROUTES if route.method == "GET" and route.tag not in ("files", "stac")]
        paths = [path for path in paths if path not in ("/v1/events", "/static/{file}")]
        for field, values in fillings.items():
            paths = [path.replace(f"{{{field}}}", value) for path in paths for value in values]
        paths = [path.replace("{thing}", "sites") for path in dict.fromkeys(paths)]
        assert len(paths) > 60
        answers = {path: server.get(path) for path in paths}
        assert {answer.status for answer in answers.values()} <= {200, 404}
        secret = [*SECRETS, "hidden-spring", "closed.csv", *([] if audience in STAFF[1:] else ["closed-springs"])]
        for path, answer in answers.items():
            text = answer.text.lower() + str(answer.headers).lower()
            asked = path.lower()
            assert [each for each in secret if each.lower() in text and each not in asked] == [], path


def test_files_of_the_console_are_kept_for_good_and_name_their_bytes(ran: Kfm) -> None:
    with console() as server:
        page = server.page("/now")
        found = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
        assert [re.sub(r"[0-9a-f]{16}", "X", each) for each in found] == ["/static/console.X.css", "/static/live.X.js"]
        for each in found:
            answer = server.get(each)
            assert answer.status == 200 and "immutable" in answer.headers["cache-control"]
        same(server, "/static/console.0000000000000000.css", "/static/console.css", "/static/frame.py")


OBJECTIVE = """
apiVersion: openslo/v1
kind: SLO
metadata: {name: runs-succeed, displayName: Runs succeed}
spec:
  service: archive
  budgetingMethod: Occurrences
  timeWindow: [{duration: 28d, isRolling: true}]
  indicator:
    metadata: {name: success}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: kfm, spec: {indicator: success}}}
        total: {metricSource: {type: kfm, spec: {indicator: success}}}
  objectives: [{target: 0.9}]
"""


def test_events_name_nothing_closed_to_everybody(mixed: Kfm) -> None:
    with console() as server, server.events("/v1/events?after=1") as stream:
        entries = [told(stream)]
        while entries[-1]["index"] < server.data("/v1")["ledger_entries"] and entries[-1]["op"] != "promote":
            entries.append(told(stream))
        assert {one["dataset"] for one in entries} <= {"sites", "wells"}


@pytest.mark.long
def test_a_run_of_100_000_steps_opens_within_a_second(kfm: Kfm) -> None:
    Path("kfm.yml").write_text(
        "datasets:\n  big: {updater: 'big.py:Big', title: big, license: CC0-1.0, sensitivity: public}\n"
    )
    Path("big.py").write_text(BIG)
    done(kfm("run"))
    with console() as server:
        run_id = server.data("/v1/runs")["runs"][0]["run_id"]
        server.page("/runs")
        begun = time.perf_counter()
        page = server.page(f"/runs/{run_id}")
        spent = time.perf_counter() - begun
        assert "100,000 of 100,000 steps" in page and page.count("<tr>") < 200
        print(f"a run of 100,000 steps opened in {spent:.2f} s")
        last = server.data(f"/v1/runs/{run_id}/steps?after=99990")
        assert [step["position"] for step in last["steps"]] == list(range(99_990, 100_000)) and last["next"] == ""


BIG = """
from kfm import Output, Plan, Step, Updater


class Big(Updater):
    id = "big"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return []

    def plan(self, inputs):
        return Plan([Step(id=f"s{n}", key=(str(n),)) for n in range(100_000)])

    def perform(self, step, read):
        return Output(body=b"x", media_type="text/plain")
"""
