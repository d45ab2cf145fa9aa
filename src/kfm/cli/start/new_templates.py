"""The files that `kfm new` writes: a module and its tests, which pass as they are."""

from __future__ import annotations

UPDATER = '''\
"""{title}: an updater is three methods: what to read, what to do with it, and doing one step of it."""

from __future__ import annotations

from kfm import Output, Plan, SourceRef, Step, Updater


class {kind}(Updater):
    id = "{name}"
    version = "1.0.0"  # change it whenever plan() or perform() would answer differently

    def inputs(self, trigger, sources) -> list[SourceRef]:
        """Pin what will be read. `rows` is the name of a source in kfm.yml."""
        return [sources.pin("rows")]

    def plan(self, inputs) -> Plan:
        """One step for each group. Pure: no clock, files, network, randomness or environment in here."""
        groups = inputs[0].partitions  # the distinct values of the column that kfm.yml names in `partition_by`
        return Plan([Step(id=f"group-{{name}}", key=(name,), params={{"group": name}}) for name in groups])

    def perform(self, step, read) -> Output:
        """The rows of one group. May be called again for the same step, and must then give the same."""
        rows = [row for row in read.csv("rows") if row["group"] == step.params["group"]]
        return Output.csv(sorted(rows, key=lambda row: row["id"]))
'''
UPDATER_TEST = '''\
"""`pytest` tries {kind} in a temporary house: dry, twice, elsewhere, and killed at every boundary."""

ROWS = {{
    "text": "id,group,value\\n1,east,3.5\\n2,west,4.5\\n3,east,1.0\\n",
    "format": "csv",
    "contract": {{"partition_by": "group"}},
}}


def test_it_keeps_what_every_updater_promises(kfm_updater):
    kfm_updater("{path}:{kind}", sources={{"rows": ROWS}}).check()


def test_each_group_has_its_own_rows(kfm_updater):
    made = kfm_updater("{path}:{kind}", sources={{"rows": ROWS}}).outputs()
    assert made == {{
        "east": b"id,group,value\\n1,east,3.5\\n3,east,1.0\\n",
        "west": b"id,group,value\\n2,west,4.5\\n",
    }}
'''
UPDATER_DECLARED = """\
  {name}:
    updater: {path}:{kind}
    title: {title}
    license: CC0-1.0
    sensitivity: public
    sources:
      rows:
        uri: data/{module}.csv
        format: csv
        contract: {{partition_by: group, columns: [{{name: id, required: true}}, {{name: group, required: true}}]}}
"""

JOB = '''\
"""{title}: a job reads versions of other datasets and makes something of them: a report, an index, tiles.

It is safe to do twice: the versions and the parameters in kfm.yml are the name of the work, and the same work again is
a NOOP that makes nothing. Every run leaves a receipt with its inputs, outputs and checksums.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm import JobSettings, JobUpdater, Output, Plan, Step


class {kind}Settings(JobSettings, frozen=True):
    """What `parameters:` may say in kfm.yml; anything else is refused with its place."""

    min_rows: Annotated[int, Meta(ge=0, description="fewer rows in a dataset stop the run")] = 1


class {kind}(JobUpdater):
    job = "report.{module}"  # the folder of its receipts
    version = "1.0.0"  # change it whenever plan() or perform() would answer differently
    settings = {kind}Settings

    def plan(self, inputs) -> Plan:
        """A step for each dataset, and one that sums them up. Pure: no clock, files, network or randomness in here."""
        shown = {{"min_rows": self.parameters.min_rows}}
        each = [Step(id=f"count-{{ref.name}}", params={{"source": ref.name, **shown}}) for ref in inputs]
        return Plan([*each, Step(id="report", key=("report",), needs=tuple(step.id for step in each))], complete=True)

    def perform(self, step, read) -> Output:
        """A step that another one needs hands it what it gave; only steps with a key are part of the dataset."""
        if step.id == "report":
            return Output.json({{need.removeprefix("count-"): read.json(need) for need in step.needs}})
        rows = sum(1 for _ in read.csv(step.params["source"]))
        if rows < self.parameters.min_rows:  # validation: nothing is made, and the receipt says so
            raise ValueError("a dataset has fewer rows than min_rows")
        return Output.json(rows)
'''
JOB_TEST = '''\
"""Three tests of {kind}: it does its work, a second execution changes nothing, and policy stops it."""

from pathlib import Path

import kfm
import pytest

MODULE = Path(__file__).parents[1] / "{path}"
CONFIG = """
kfm: 1
accept_weak_storage: true
datasets:
  gauges:
    version: "1.0.0"
    sensitivity: SENSITIVITY
    sources: {{rows: {{uri: gauges.csv, format: csv}}}}
    outputs: {{gauges: {{from: rows}}}}
  {name}:
    job: {path}:{kind}
    parameters: {{min_rows: 2}}
    sensitivity: public
    sources: {{gauges: {{dataset: gauges}}}}
"""


@pytest.fixture
def there(tmp_path):
    """An installation of one dataset and the job that reads it."""

    def make(rows="id,mm\\n1,3.5\\n2,4.5\\n", sensitivity="public"):
        (tmp_path / "updaters").mkdir(exist_ok=True)
        (tmp_path / "{path}").write_text(MODULE.read_text())
        (tmp_path / "gauges.csv").write_text(rows)
        (tmp_path / "kfm.yml").write_text(CONFIG.replace("SENSITIVITY", sensitivity))
        return kfm.open(tmp_path)

    return make


def test_it_counts_the_rows_and_leaves_a_receipt(there):
    few = there(rows="id,mm\\n1,3.5\\n").run("gauges", "{name}", check=False)
    assert few.receipts[-1].status == "FAILED"  # fewer rows than min_rows
    done = there().run("gauges", "{name}")
    assert done.ok and done.receipts[-1].job_type == "report.{module}"
    assert there().read("{name}").bytes() == b'{{"gauges":2}}'


def test_a_second_execution_makes_nothing_new(there):
    first = there().run("gauges", "{name}")
    assert there().run("{name}").receipts[0].outcome == "noop"
    again = there().run("{name}", force=True, reason="delivered twice")
    assert again.ok and again.versions["{name}"] == first.versions["{name}"]


def test_what_policy_denies_is_not_made(there):
    there().run("gauges")
    denied = there(sensitivity="closed").run("{name}", check=False)
    assert not denied.ok and denied.receipts[0].outcome == "denied"
    assert not [ref for ref in there().refs if ref.endswith("/{name}")]
'''
JOB_DECLARED = """\
  {name}:
    job: {path}:{kind}
    parameters: {{min_rows: 1}}
    title: {title}
    license: CC0-1.0
    sensitivity: public
    sources:
      OTHER: {{dataset: OTHER}}    # OTHER: the name of a dataset above
"""

CONNECTOR = '''\
"""{title}: a connector reads a listing, and whatever the listing names just now."""

from __future__ import annotations

import json

from kfm import Capabilities, Check, Connector, Output, ValidationReport, WorkArtifacts


class {kind}(Connector):
    id = "{name}"
    version = "1.0.0"  # change it whenever a method would answer differently

    def discover(self, ctx) -> Capabilities:
        """Which sources there are: `listing` is the name of a source in kfm.yml, and names the others."""
        listing = json.loads(ctx.sources.bytes(ctx.sources.pin("listing")))
        return Capabilities(tuple(listing["files"]))

    def transform(self, ctx, manifest) -> WorkArtifacts:
        """What is made of each file, under its key. Pure, as every plan."""
        files = enumerate(manifest.sources)
        return WorkArtifacts({{(ref.uri.rpartition("/")[2],): _copy(n) for n, ref in files if ref.name != "listing"}})

    def validate(self, ctx, work) -> ValidationReport:
        """One check that fails, or none at all, and nothing is published."""
        sizes = [len(ctx.read.bytes(work.name(key))) for key in work.artifacts]
        return ValidationReport((Check("files.some", bool(sizes)), Check("files.not-empty", all(sizes))))


def _copy(position):
    return lambda read: Output(read.bytes(position), "text/csv; charset=utf-8")
'''
CONNECTOR_TEST = '''\
"""`pytest` tries {kind} in a temporary house: dry, twice, elsewhere, and killed at every boundary."""

SOURCES = {{
    "listing": {{"text": \'{{"files": ["one", "two"]}}\', "format": "json"}},
    "one": "id\\n1\\n",
    "two": "id\\n2\\n",
}}


def test_it_keeps_what_every_updater_promises(kfm_updater):
    kfm_updater("{path}:{kind}", sources=SOURCES).check()


def test_it_publishes_what_the_listing_names(kfm_updater):
    made = kfm_updater("{path}:{kind}", sources=SOURCES).outputs()
    assert made["one"] == b"id\\n1\\n" and made["two"] == b"id\\n2\\n"
'''
CONNECTOR_DECLARED = """\
  {name}:
    updater: {path}:{kind}
    title: {title}
    license: CC0-1.0
    sensitivity: public
    sources:
      listing: {{uri: data/{module}.json, format: json, contract: {{json_schema: {{required: [files]}}}}}}
"""

KINDS = {
    "updater": (UPDATER, UPDATER_TEST, UPDATER_DECLARED),
    "job": (JOB, JOB_TEST, JOB_DECLARED),
    "connector": (CONNECTOR, CONNECTOR_TEST, CONNECTOR_DECLARED),
}
