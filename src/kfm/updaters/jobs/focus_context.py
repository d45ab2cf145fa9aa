"""The job `focus.context`: what may be said in public of how a published version came to be, as one JSON document.

A step sees its pinned sources alone. So the public records of the dataset are a source, too: `kfm://context/NAME`,
which the installation answers and stores. The run reads it next to the version that it tells of.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kfm.errors import Unavailable
from kfm.model.jobs.focus_record import CONTEXT_KEY, FORMAT, FocusContext
from kfm.model.jobs.job_settings import CONTEXT as JOB
from kfm.model.jobs.job_settings import ContextSettings
from kfm.model.jobs.job_updater import JobUpdater
from kfm.model.operation_target import CONTEXT
from kfm.model.records import DataContract, SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader, Sources

_SHAPE = DataContract(
    format="json",
    json_schema={
        "type": "object",
        "required": ["format", "dataset", "version", "chain", "governance", "sentences"],
        "properties": {"format": {"const": FORMAT}},
    },
)


class FocusContextJob(JobUpdater[ContextSettings]):
    job = JOB
    version = "1.0.0"

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        """Pin the version, and what the public records say of it. Unavailable if another version was published in
        between."""
        (version,) = super().inputs(trigger, sources)
        dataset = self.read[version.name].partition("/")[2]
        records = sources.pin(f"{CONTEXT}{dataset}", contract=_SHAPE, complete=True)
        told = msgspec.json.decode(sources.bytes(records), type=FocusContext)
        if told.version != version.content_hash:
            raise Unavailable(f"{dataset} was published while its records were read", hint="run it again")
        return [version, records]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        version, records = inputs
        params = {"version": version.content_hash, "records": records.content_hash}
        return Plan([Step(id=CONTEXT_KEY, key=(CONTEXT_KEY,), params=params)], complete=True)

    def perform(self, step: Step, read: Reader) -> Output:  # noqa: ARG002
        return Output.json(msgspec.json.decode(read.bytes(1), type=FocusContext))
