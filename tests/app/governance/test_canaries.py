"""Protected places through the whole product, and then every byte that it left searched for them.

Two datasets read one table of places that exist nowhere else: `sites` leaves through masking, `vault` is restricted and
computes on the raw rows. What happens to them is what happens: rows are held, a step fails with a row in its exception,
a process is killed and its run resumed, a version is published, taken back and published again. Nothing readable is
left anywhere but in the encrypted form, which is not readable. Every reason that is typed names a site, and copies of
the table in other formats are denied.
"""

from __future__ import annotations

import bz2
import csv
import io
import lzma
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h3
import pytest

from kfm.cli.parser import COMMANDS
from tests.api.serving import Reply, serving
from tests.app.governance.canaries_over_http import ROLES, Request, Searched, search_all
from tests.app.notices.receivers import SECRET as HOOK
from tests.app.notices.receivers import Receiver, receiver_lines, receiving
from tests.app.objectives.site import promise
from tests.cli.protected import as_csv, as_geojson
from tests.engine.installations import NOW, Answer, Installation
from tests.masking.canaries import Canary, encodings, hits, needles
from tests.masking.forms import LAYOUTS, as_parquet, as_zip
from tests.masking.forms import as_csv as points_as_csv
from tests.masking.notation_forms import Files, Points
from tests.masking.sites import canaries, rows
from tests.sampling import sampled, stride
from tests.sinks.otel.receiver import Receiver as Collector
from tests.sinks.otel.receiver import attributes, check_traces, configured
from tests.sinks.otel.receiver import receiving as collecting

pytestmark = pytest.mark.xdist_group("canaries")  # what they share is made once

KEY = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
CONFIG = """\
accept_weak_storage: true
catalog: file:catalog
labels: labels.yml
custodians:
  society: {key: "env:KFM_SECRET_SOCIETY"}
datasets:
  sites:
    title: Sites as cells
    license: CC-BY-4.0
    sensitivity: public
    updater: updaters.py:ByMaterial
    sources:
      sites:
        uri: sites.csv
        format: csv
        mask: mask.yml
        contract:
          max_held_share: 1
          columns:
            - {name: trinomial, required: true}
            - {name: age, type: integer, minimum: 0, mode: discard-row}
  vault:
    title: Sites as they are
    license: CC-BY-4.0
    updater: updaters.py:InShards
    sources:
      raw:
        uri: raw.csv
        format: csv
        contract:
          max_held_share: 1
          columns:
            - {name: trinomial, required: true}
            - {name: age, type: integer, minimum: 0, mode: discard-row}
  parcels:
    title: Parcels
    license: CC0-1.0
    sensitivity: public
    updater: updaters.py:Copy
    sources:
      parcels: {uri: parcels.csv, format: text}
  sketch:
    title: Sketch
    license: CC0-1.0
    sensitivity: public
    updater: updaters.py:Sketch
    sources:
      parcels: {uri: seed.csv, format: text}
"""
LABELS = """\
version: 1
labels:
  - of: {source: sites.csv}
    sensitivity: generalised
    care: open
    custodian: society
    public_resolution: 7
  - of: {source: raw.csv}
    sensitivity: restricted
    care: open
    custodian: society
    public_resolution: 7
"""
MASK = """\
id: sites
version: "1"
namespace: kansas-sites
record_id: trinomial
resolution: 7
location:
  latitude: lat
  longitude: lng
  accuracy: {column: how, classes: {gps: {name: point, metres: 10}}}
columns:
  material: {kind: code, values: [charcoal, bone]}
  dug: {kind: date, to: decade, name: excavated}
  notes: {kind: text}
"""
UPDATERS = """\
import os
import signal

from kfm import Output, Plan, Step, Updater


class Copy(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("parcels")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))], complete=True)

    def perform(self, step, read):
        return Output(body=read.bytes(0), media_type="text/csv")


class ByMaterial(Copy):
    def inputs(self, trigger, sources):
        return [sources.pin("sites")]

    def plan(self, inputs):
        return Plan([Step(id=m, key=(m,), params={"m": m}) for m in ("bone", "charcoal", "withheld")], complete=True)

    def perform(self, step, read):
        found = [row for row in read.csv(0) if row["material"] == step.params["m"]]
        if os.environ.get("FAIL_AT") == step.id:
            raise ValueError(f"could not make sense of {found[0]}")
        if os.environ.get("DIE_AT") == step.id:
            os.kill(os.getpid(), signal.SIGKILL)
        return Output.csv(found)


class Sketch(Copy):
    def plan(self, inputs):
        return Plan([Step(id=f"part-{n}", key=(str(n),), params={"n": n}) for n in range(4)], complete=True)

    def perform(self, step, read):
        if os.environ.get("DIE_AT") and step.params["n"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        with open("sites.csv", "rb") as file:  # what no label says: the code reads the table by itself
            return Output(body=b"".join(file.readlines()[step.params["n"] :: 4]), media_type="text/plain")


class InShards(Copy):
    def inputs(self, trigger, sources):
        return [sources.pin("raw")]

    def plan(self, inputs):
        return Plan([Step(id=f"shard-{n}", key=(str(n),), params={"n": n}) for n in range(8)], complete=True)

    def perform(self, step, read):
        found = [row for at, row in enumerate(read.csv(0)) if at % 8 == step.params["n"]]
        if os.environ.get("FAIL_AT") and step.id == "shard-5":
            raise ValueError(f"could not make sense of {found[0]}")
        if os.environ.get("DIE_AT") and step.id == "shard-5":
            os.kill(os.getpid(), signal.SIGKILL)
        return Output.csv(found)
"""
# What is there before anything is run: what it says is the steward's own.
GIVEN = {"sites.csv", "raw.csv", "parcels.csv", "seed.csv", "kfm.yml", "labels.yml", "mask.yml", "updaters.py"}
GIVEN |= {"slos/sites.yml"}
SECRET = {"KFM_SECRET_SOCIETY": KEY, "KFM_SECRET_HOOK": HOOK}


class Site:
    """An installation over the canaries, and all that its commands wrote to the terminal."""

    def __init__(self, folder: Path, count: int, receiver: Receiver | None = None) -> None:
        folder.mkdir()
        self.receiver = receiver or Receiver("")
        self.folder = folder
        # Others in the vault: bytes that are known as restricted are restricted wherever they are read.
        apart = [one._replace(trinomial="23" + one.trinomial[2:]) for one in canaries(count // 2, seed=5)]
        own = canaries(count - len(apart))
        self.canaries = [*own, *apart]
        # Sites that are in no table, only in reasons. The terminal shows those to a person who has the key.
        self.typed = [one._replace(trinomial="31" + one.trinomial[2:]) for one in canaries(8, seed=6)]
        self.table = rows(own)
        self.vault = rows(apart)
        self.vault[3] = self.vault[3] | {"age": "nobody knows"}
        self.table[3] = self.table[3] | {"age": "nobody knows"}  # a row that is held
        self.installed = Installation(folder)
        self.terminal = bytearray()
        self.tokens: dict[str, str] = {}  # by role
        self.collected = Collector()
        config = f"{CONFIG}notify:\n{receiver_lines(receiver.url)}" if receiver is not None else CONFIG
        for name, text in (("kfm.yml", config), ("labels.yml", LABELS), ("mask.yml", MASK), ("updaters.py", UPDATERS)):
            (folder / name).write_text(text)
        (folder / "sites.csv").write_bytes(as_csv(self.table))
        (folder / "raw.csv").write_bytes(as_csv(self.vault))
        promise(folder, "sites", dataset="sites", says=f"near {self.typed[0].trinomial}")
        for name in ("parcels.csv", "seed.csv"):
            (folder / name).write_bytes(b"parcel,county\n1,ford\n")

    def kfm(self, *words: str, expect: int | None = 0, **env: str) -> Answer:
        said = {**SECRET, "KFM_LOG": "debug", **env}
        answer = self.installed.kfm(*words, env={name: value for name, value in said.items() if value}, expect=expect)
        self.terminal += f"\n$ kfm {' '.join(words)}\n{answer.out}\n{answer.err}\n".encode()
        return answer

    def people(self) -> None:
        """An admin, an operator, and two stewards of the society; where there is no key list, only public data are
        handled."""
        safe = self.folder.parent / "safe"
        safe.mkdir(mode=0o700)
        steward = ("--role", "steward", "--custodian", "society")
        for name, role, signers in (
            ("ada", ("--role", "admin"), ()),
            ("olli", ("--role", "operator"), ("ada",)),
            ("vic", ("--role", "viewer"), ("ada",)),
            ("sue", steward, ("ada",)),
            ("sam", steward, ("ada", "sue")),
        ):
            signed = [word for one in signers for word in ("--key", str(safe / f"{one}.key"))]
            self.kfm("keys", "new", "--person", name, *role, "--out", str(safe / f"{name}.key"), *signed)
        for name, role in (("ada", "admin"), ("olli", "operator"), ("vic", "viewer"), ("sue", "steward")):
            made = self.kfm("token", "new", "--person", name, "--key", str(safe / f"{name}.key"), "--json")
            self.tokens[role] = made.data["token"]

    def copied(self, folder: Path) -> Site:
        """The same installation in another folder; what happens there does not happen here."""
        shutil.copytree(self.folder, folder)
        found = object.__new__(Site)
        found.__dict__.update({**self.__dict__, "folder": folder})
        return found

    def by_order(self, *words: str) -> None:
        """Asked for by the operator, approved by both stewards."""
        safe = self.folder.parent / "safe"
        self.kfm(*words, "--key", str(safe / "olli.key"), "--verbose", expect=4)
        (order,) = (one for one in self.kfm("review", "list", "--json").data if one["kind"] == "order")
        self.kfm("review", "show", order["id"])
        for name in ("sue", "sam"):
            self.kfm("review", "approve", order["id"], "--key", str(safe / f"{name}.key"))

    @property
    def why(self) -> str:
        """A reason that says too much, and another one each time."""
        one = self.typed[len(self.terminal) % len(self.typed)]
        return f"{one.trinomial} lies at {one.latitude} {one.longitude}, see line {len(self.terminal)}"

    def move_one(self, by: float) -> None:
        """A corrected coordinate, far enough to cross the edge of a cell."""
        moved = self.table[5] | {"lat": repr(float(self.table[5]["lat"]) + by)}
        self.table[5] = moved
        self.table[6] = self.table[6] | {"dug": "1800-01-01"}  # something that the public sees
        self.canaries.append(Canary(float(moved["lat"]), float(moved["lng"]), moved["trinomial"]))
        (self.folder / "sites.csv").write_bytes(as_csv(self.table))
        self.vault.reverse()
        (self.folder / "raw.csv").write_bytes(as_csv(self.vault))

    def left(self) -> dict[str, bytes]:
        """Every file that was not given, and the names of all."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if path.is_file() and name not in GIVEN and "__pycache__" not in name:
                found[name] = path.read_bytes()
        notices = b"\n".join(repr(each.headers).encode() + each.body for each in self.receiver.got)
        names = "\n".join(found).encode()
        return {**found, "the names": names, "the terminal": bytes(self.terminal), "the notices": notices}

    def public_rows(self) -> list[dict[str, str]]:
        """Of every version that the public folder has."""
        bodies = [body for name, body in self.left().items() if name.startswith("public/") and name.endswith(".csv")]
        return [row for body in bodies for row in csv.DictReader(io.StringIO(body.decode()))]

    def leaks(self) -> dict[str, set[str]]:
        """In which files there is something, and how it is written."""
        found = {}
        for name, body in self.left().items():
            typed = [] if name == "the terminal" else self.typed
            if ways := {way for _, way in hits(body, self.canaries + typed, encodings)}:
                found[name] = ways
        return found


PACKED: tuple[Callable[[Points], Files], ...] = (
    as_zip,
    as_parquet,
    LAYOUTS["geopackage"],
    lambda points: {"a.csv.bz2": bz2.compress(points_as_csv(points)["a.csv"])},
    lambda points: {"a.csv.xz": lzma.compress(points_as_csv(points)["a.csv"])},
)


def everything(site: Site) -> None:
    """All that happens to data in a year, in a minute."""
    site.people()
    site.kfm("run", "sites", "--dry-run", "--verbose")
    site.kfm("run", "sites", "--verbose", FAIL_AT="charcoal", expect=1)
    site.kfm("run", "vault", "--verbose", FAIL_AT="1", expect=1)
    site.kfm("run", "sites", "--verbose", DIE_AT="charcoal", expect=-9)
    site.kfm("run", "vault", DIE_AT="1", expect=-9)
    site.kfm("runs", "list")
    site.kfm("resume", "--verbose")
    site.kfm("plan", "sites")
    site.by_order("promote", "sites", "--reason", site.why)
    site.move_one(0.2)
    site.kfm("run", "sites", "vault", "--artifacts", str(site.folder / "artifacts"))
    site.by_order("promote", "sites", "--reason", site.why)
    listed = site.kfm("refs", "list", "--json").data
    taken_back = next(row["version"] for row in listed if row["ref"] == "published/sites")
    site.by_order("rollback", "sites", "--reason", site.why)
    site.by_order("promote", "sites", "--to", taken_back, "--reason", site.why)
    site.kfm("promote", "vault", "--reason", site.why, expect=4)
    for copy in (as_csv(site.table, end="\r\n"), as_csv(site.table, "lng", "lat"), as_geojson(site.table)):
        (site.folder / "parcels.csv").write_bytes(copy)
        site.kfm("run", "parcels", "--json", expect=4)
    points = [(row["lat"], row["lng"]) for row in site.table]
    for packed in PACKED[:: stride(5)]:
        (site.folder / "parcels.csv").write_bytes(next(iter(packed(points).values())))
        site.kfm("run", "parcels", expect=4)
    site.kfm("run", "sketch", DIE_AT="1", expect=-9)
    assert site.leaks() == {}
    site.kfm("resume", expect=4)
    site.kfm("run", "sites", "vault", "--force", "--reason", site.why)
    override = ("slo", "override", "sites", "--until", "12h", "--reason", site.why)
    site.kfm(*override, "--key", str(site.folder.parent / "safe" / "sue.key"))
    forms: tuple[tuple[str, ...], ...] = ((), ("--json",))
    for n, words in enumerate(LOOKING):
        for form in forms[n % stride(2) :: stride(2)]:
            site.kfm(*words, *form, expect=CODES.get(words, 0))
    site.kfm("runs", "compact")
    site.kfm("run", "sites", "vault", "--force", "--reason", site.why, "--verbose")


# In every grammar that others read, once there is a command for it.
lineages = ("openlineage", "prov", "prov-o", "cypher", "cloudevents", "mermaid") if "lineage" in COMMANDS else ()
LOOKING = (
    ("runs", "list"),
    ("runs", "show", "last"),
    ("runs", "receipts"),
    ("runs", "receipt", "last"),
    ("runs", "receipt", "last", "--worker"),
    ("refs", "list"),
    ("refs", "history", "processed/sites"),
    ("held", "sites"),
    ("held", "vault"),
    ("diff", "sites"),
    ("cat", "processed/sites"),
    ("labels", "show"),
    ("config", "show"),
    ("doctor",),
    ("doctor", "--deep"),
    ("reconcile", "--public"),
    ("runs", "telemetry", "--stdout"),
    ("runs", "wal", "last"),
    ("triggers", "list", "--all"),
    ("review", "list"),
    ("keys", "list"),
    ("audit", "verify"),
    ("audit", "export"),
    ("verify", "sites"),
    ("mask", "scan", "public"),
    ("mask", "scan", "parcels.csv"),
    ("reproduce", "sites"),
    ("reproduce", "vault"),
    *(("explain", name) for name in ("sites", "vault", "parcels", "last", "published/sites", "raw/sites/0")),
    *(("explain", name, "--format", form) for name in ("sites", "vault") for form in ("html", "mermaid")),
    *(("why-not", name) for name in ("sites", "vault", "parcels", "last")),
    ("catalog", "show"),
    ("catalog", "show", "sites"),
    ("catalog", "build"),
    ("sinks",),
    ("runs", "signals"),
    ("runs", "signals", "--metrics"),
    ("runs", "signals", "--metrics", "--to", "kfm.prom"),
    *(("energy", *what) for what in ((), ("sites",), ("vault",), ("last",), ("vault", "--json"))),
    ("runs", "signals", "--metrics", "--otlp"),
    ("slo",),
    ("slo", "show", "sites"),
    ("alerts", "write", "--to", "kfm-rules.yml"),
    ("reconcile",),
    *(("lineage", "export", "--format", form) for form in lineages),
    *(("lineage", way, name) for way in ("upstream", "downstream") for name in ("sites", "vault")),
)
CODES = {("mask", "scan", "parcels.csv"): 4, ("audit", "verify"): 68, ("verify", "sites"): None}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with receiving() as receiver:
        found = Site(tmp_path_factory.mktemp("canaries") / "site", 200, receiver)
        with collecting() as collector:
            config = found.folder / "kfm.yml"
            config.write_text(configured(collector.url) + config.read_text())
            everything(found)
        (found.folder / "collected").mkdir()
        for n, body in enumerate(collector.raw):
            (found.folder / "collected" / f"{n}.bin").write_bytes(body)
        found.collected = collector
        yield found


def test_nothing_that_is_left_shows_a_place_or_a_site(site: Site) -> None:
    assert len(needles(site.canaries[0])) >= 20
    left = site.left()
    assert len(left) > 30 and any(name.startswith("public/") for name in left)
    assert any(name.startswith(".kfm/state.db") for name in left)
    assert "catalog/sites/collection.json" in left and not any(name.startswith("catalog/vault/") for name in left)
    assert any(name.endswith(".prov.json") for name in left) and any(name.endswith(".proof.json") for name in left)
    assert site.leaks() == {}


def test_metrics_and_alerts_name_datasets_and_objectives_and_nothing_else(site: Site) -> None:
    left = site.left()
    metrics, rules = left["kfm.prom"].decode(), left["kfm-rules.yml"].decode()
    assert 'kfm_operations_total{op="override",outcome="done"} 1' in metrics and 'slo: "sites"' in rules
    assert not hits(left["kfm.prom"] + left["kfm-rules.yml"], site.canaries + site.typed)
    found = dict(re.findall(r'[{,]([a-z]+)="([^"]*)"', metrics))
    assert set(found) <= {
        "version", "dataset", "state", "op", "outcome", "le", "uri", "scope", "level", "sink", "slo", "window",
    }  # fmt: skip
    datasets = {value for label, value in re.findall(r'[{,]([a-z]+)="([^"]*)"', metrics) if label == "dataset"}
    assert {"sites", "vault"} <= datasets <= {"sites", "vault", "parcels", "sketch", "other"}


def test_a_collector_hears_of_every_run_and_of_no_place_or_source(site: Site) -> None:
    check_traces(site.collected)
    told = [attributes(root) for root in site.collected.roots().values()]
    ran = {row["run"] for row in site.kfm("runs", "list", "--limit", "0", "--json").data}
    assert {each["kfm.run_id"] for each in told} == ran
    assert {"sites", "vault", "parcels", "sketch"} <= {str(each["kfm.dataset"]) for each in told}
    assert {"success", "failure"} <= {str(each["cicd.pipeline.result"]) for each in told}
    assert len(site.collected.metrics()) > 20 and len(site.collected.raw) > 30
    for body in site.collected.raw:
        assert b"sites.csv" not in body and b"raw.csv" not in body and b"make sense" not in body
        assert not hits(body, site.canaries + site.typed, encodings)
    steps = [span for span in site.collected.spans() if span.name == "step"]
    closed = {bytes(root.trace_id) for root in site.collected.roots().values() if _is_closed(root)}
    assert steps and not {bytes(span.trace_id) for span in steps} & closed


def _is_closed(root: Any) -> bool:
    return attributes(root)["kfm.dataset"] in ("sites", "vault")


def test_notices_of_every_kind_of_event_name_no_protected_source(site: Site) -> None:
    kinds = {each.kind for each in site.receiver.got}
    assert kinds >= {"run.failed", "version.pending", "version.published", "version.withdrawn"}
    assert kinds >= {"review.wanted", "budget.burnt"}
    assert "rows.held" not in kinds  # one row is, and its receipt does not show that either
    told = site.left()["the notices"]
    assert b"sites.csv" not in told and b"raw.csv" not in told and HOOK.encode() not in told
    assert all(each.is_signed_with(HOOK) for each in site.receiver.got)


def test_no_catalog_event_or_explanation_says_where_a_protected_source_lies(site: Site) -> None:
    told = {name: body for name, body in site.left().items() if name.startswith("catalog/")}
    assert len(told) > 8
    for name, body in told.items():
        assert b"sites.csv" not in body and b"raw.csv" not in body, name
        assert b"14" not in body or not hits(body, site.canaries), name


@pytest.mark.parametrize("part", sampled(range(4)))
def test_no_answer_over_http_shows_a_place_or_a_site_to_any_role(part: int, site: Site, tmp_path: Path) -> None:
    """Every route and every kind of search, in every role, with the names of all datasets, runs and versions; event
    streams, HEAD, 304, 206 and 416, and errors. Each part asks a quarter of them, and a third of that with
    every commit.

    What is asked may change something, so the server reads a copy."""
    runs = [row["run"] for row in site.kfm("runs", "list", "--limit", "0", "--json").data]
    at = {row["ref"]: row["version"] for row in site.kfm("refs", "list", "--json").data}
    values = {
        "name": ["sites", "vault", "parcels", "sketch", "none"],
        "thing": ["sites", "vault", *runs[:3], *at.values()],
        "run": runs[::9],
        "version": sorted(set(at.values()))[:4],
        "index": ["1", "7"],
        "path": ["current.json", "index.html", "feed.xml", "CITATION.cff"],
        "item": ["all", "0", "bone"],
    }
    other = site.copied(tmp_path / "copy")
    public = sorted({row[name] for row in site.public_rows() for name in ("id", "cell")})
    searched = Searched(site.canaries + site.typed, (b"sites.csv", b"raw.csv", b"make sense"), public)
    with serving(other.folder, "--rate", "0", KFM_NOW=NOW, **SECRET) as served:
        shown = served.ask("/v1/datasets").text
        assert '"sites"' in shown and "vault" not in shown
        search_all(served, values, site.tokens, searched, slice(part, None, 4 * stride(3)))
    assert searched.leaks == []
    assert len(searched) > 80 and searched.pictures
    for role in ROLES:
        assert {200, 206, 304, 400, 404, 416} <= {status for who, status in searched.statuses if who == role}
        assert len(searched.public[role]) > 90 and searched.told[role] > 0, "every role saw what is public"
    assert {status for _, status in searched.statuses if status >= 500} <= {503}
    assert other.leaks() == {}  # the index of items is one of the files


def test_a_canary_in_an_answer_is_found(site: Site) -> None:
    """Among many answers that are searched together, and in a header."""
    canary, asked = site.canaries[3], Request("viewer", "GET", "/", {})
    for planted in (
        Reply(200, {}, f"x {canary.latitude:.5f} y".encode()),
        Reply(304, {"etag": canary.trinomial}, b""),
        Reply(404, {}, b"could not make sense of it"),
    ):
        searched = Searched(site.canaries, (b"make sense",))
        for n in range(50):
            searched.add(asked, Reply(200, {}, b"nothing %d" % n))
        searched.search()
        assert searched.leaks == []
        searched.add(asked, planted)
        searched.search()
        assert len(searched.leaks) == 1


def test_encrypted_data_is_compared_by_a_process_that_has_the_key(site: Site) -> None:
    """And without it, what is not under a key: nothing is called damaged that only cannot be read."""
    for env in (SECRET, {}):
        answer = site.installed.kfm("reconcile", "--json", env=env)
        assert answer.data["drift"] == [] and answer.data["errors"] == []


def test_a_place_that_is_planted_is_found(site: Site, tmp_path: Path) -> None:
    """Whatever hid a canary from the test above would hide these."""
    canary = site.canaries[17]
    state = (site.folder / ".kfm/state.db").read_bytes()
    assert hits(state, [canary]) == set()
    hidden = f"{canary.latitude:.6f}".encode()
    assert hits(state[:5000] + hidden + state[5000:], [canary])
    assert hits(bytes(site.terminal) + canary.trinomial.encode(), [canary])
    shutil.copytree(site.folder / "public", tmp_path / "public")
    Path(tmp_path / "public" / f"{canary.trinomial}.txt").write_text("a name")
    names = "\n".join(str(path) for path in (tmp_path / "public").rglob("*")).encode()
    assert hits(names, [canary])
    assert len({number for number, _ in hits((site.folder / "raw.csv").read_bytes(), site.canaries)}) == 100


def test_the_public_sees_each_record_in_one_cell(site: Site) -> None:
    seen: dict[str, set[str]] = {}
    for row in site.public_rows():
        seen.setdefault(row["id"], set()).add(row["cell"])
    assert len(seen) == 99  # one row is held
    assert all(len(cells) == 1 for cells in seen.values())
    cells = {cell for found in seen.values() for cell in found}
    assert cells <= {h3.latlng_to_cell(one.latitude, one.longitude, 7) for one in site.canaries}
    assert {h3.get_resolution(cell) for cell in cells} == {7}


def test_whoever_has_the_key_reads_what_is_sealed(site: Site) -> None:
    """So the bytes are there, and are not readable: not only gone."""
    first = site.vault[0]
    answer = site.installed.kfm("cat", "processed/vault", "0", env=SECRET)
    assert first["trinomial"] in answer.out and first["lat"] in answer.out
    held = site.installed.kfm("held", "vault", "--rows", env=SECRET)
    assert any(row["trinomial"] in held.out for row in site.vault if row["age"] == "nobody knows")
    for words in (("cat", "processed/vault", "0"), ("held", "vault", "--rows")):
        denied = site.installed.kfm(*words, expect=4)
        assert hits((denied.out + denied.err).encode(), site.canaries) == set()


@pytest.mark.long
def test_the_same_of_a_thousand_places(tmp_path: Path) -> None:
    with receiving() as receiver:
        found = Site(tmp_path / "site", 1000, receiver)
        everything(found)
        assert found.leaks() == {}


def test_the_ids_of_a_preview_are_those_of_the_run(site: Site) -> None:
    words = ("mask", "preview", "sites.csv", "--mask", "mask.yml", "--rows", "0", "--json")
    preview = site.installed.kfm(*words, "--key", "env:KFM_SECRET_SOCIETY", env=SECRET).data
    shown = {one["after"]["id"] for one in preview["records"]}
    assert {row["id"] for row in site.public_rows()} < shown
