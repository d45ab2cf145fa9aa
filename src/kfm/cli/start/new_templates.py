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
"""{title}: a job reads versions of other datasets and makes something of them: a report, an index, tiles."""

from __future__ import annotations

from kfm import Output, Plan, SourceRef, Step, Updater


class {kind}(Updater):
    id = "{name}"
    version = "1.0.0"  # change it whenever plan() or perform() would answer differently
    op = "job"  # the verb in ledgers and receipts
    job_type = "job.{module}"  # under which its receipts lie

    def inputs(self, trigger, sources) -> list[SourceRef]:
        """Pin every dataset that kfm.yml names as a source: each to the version that is current now."""
        return [sources.pin(name) for name in sources.names()]

    def plan(self, inputs) -> Plan:
        """A step for each dataset, and one that sums them up. Pure, as every plan."""
        each = [Step(id=f"count-{{ref.name}}", params={{"source": ref.name}}) for ref in inputs]
        return Plan([*each, Step(id="report", key=("report",), needs=tuple(step.id for step in each))])

    def perform(self, step, read) -> Output:
        """A step that another one needs hands it what it gave; only steps with a key are part of the dataset."""
        if step.id == "report":
            return Output.json({{need.removeprefix("count-"): read.json(need) for need in step.needs}})
        return Output.json(sum(1 for _ in read.csv(step.params["source"])))
'''
JOB_TEST = '''\
"""`pytest` tries {kind} in a temporary house: dry, twice, elsewhere, and killed at every boundary."""

DATASETS = {{
    "gauges": {{"text": "id,mm\\n1,3.5\\n2,4.5\\n", "format": "csv"}},
    "wells": {{"text": "id,depth\\n1,5661\\n", "format": "csv"}},
}}


def test_it_keeps_what_every_updater_promises(kfm_updater):
    kfm_updater("{path}:{kind}", sources=DATASETS).check()


def test_it_counts_the_rows_of_each_dataset(kfm_updater):
    made = kfm_updater("{path}:{kind}", sources=DATASETS).outputs()
    assert made == {{"report": b\'{{"gauges":2,"wells":1}}\'}}
'''
JOB_DECLARED = """\
  {name}:
    updater: {path}:{kind}
    title: {title}
    license: CC0-1.0
    sensitivity: public
    sources:
      OTHER: {{dataset: OTHER, format: csv}}    # OTHER: the name of a dataset above
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
