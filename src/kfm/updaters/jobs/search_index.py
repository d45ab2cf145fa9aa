"""The job `index.build_embeddings`: the public text of dataset versions as documents with vectors, in segments.

A segment holds the rows whose names fall into it, sorted, and names no version: a segment whose rows did not change
keeps its digest. The manifest names the version of each source. Text that may not be public is never indexed: the job
refuses a source that is restricted or encrypted, and a version that is not declared public.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from kfm.errors import BadInput, Denied, Held, Refused
from kfm.model.canonical import canonical
from kfm.model.jobs.job_settings import INDEX, IndexSettings
from kfm.model.jobs.job_updater import JobUpdater
from kfm.model.jobs.search_segment import FORMAT, MANIFEST, NO_VECTORS, IndexedSource, SearchDocument, SearchManifest
from kfm.model.labels import PUBLISHABLE
from kfm.model.records import DatasetVersion, SourceRef, Step
from kfm.model.updater import Output, Plan, Reader
from kfm.parsing.characters import printable
from kfm.updaters.jobs import text_vectors
from kfm.updaters.jobs.source_rows import entries_of, rows_of

MOST = 1_000_000  # documents of a source
LONGEST = 20_000  # characters of a document that are kept and searched


class SearchIndex(JobUpdater[IndexSettings]):
    job = INDEX
    version = "1.0.0"

    def __init__(self, name: str, parameters: IndexSettings, read: Mapping[str, str]) -> None:
        self.model = text_vectors.model_name()
        if self.model:  # another model gives other vectors, as another version of the code would
            self.version = f"{self.version}+{self.model}"
        super().__init__(name, parameters, read)
        self.alias = parameters.alias or name

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        for ref in inputs:
            _check_public(ref)
        said = self.parameters
        shown = {"columns": list(said.columns), "title": said.title, "id": said.id, "model": self.model or NO_VECTORS}
        steps, counted = [], []
        for ref in inputs:
            for number in range(said.segments):
                step = f"{ref.name}-{number}"
                counted.append(step)
                params = {**shown, "source": ref.name, "segment": number, "of": said.segments}
                steps.append(Step(id=step, key=(ref.name, str(number)), params=params))
        versions = [[ref.name, self.read[ref.name].partition("/")[2], ref.content_hash] for ref in inputs]
        params = {"alias": self.alias, "model": self.model or NO_VECTORS, "sources": versions}
        steps.append(Step(id=MANIFEST, key=(MANIFEST,), params=params, needs=tuple(counted)))
        return Plan(steps, complete=True)

    def perform(self, step: Step, read: Reader) -> Output:
        if step.id == MANIFEST:
            return self._manifest(step, read)
        ref = next(ref for ref in read.inputs if ref.name == step.params["source"])
        number, of = step.params["segment"], step.params["of"]
        found: dict[str, SearchDocument] = {}
        documents = self._documents(read, ref)
        for document in islice(documents, MOST):
            if zlib.crc32(document.id.encode()) % of != number or not document.text:
                continue
            if document.id in found:
                raise Refused(
                    f"source {ref.name}: two rows have the same id", hint="name a column that is unique as `id`",
                    discreet="two rows have the same id",
                )  # fmt: skip
            found[document.id] = self._with_vector(document)
        if next(documents, None) is not None:
            raise Refused(f"source {ref.name} has more than {MOST} rows", hint="index a part of it")
        lines = (canonical(found[name]) + b"\n" for name in sorted(found))
        return Output(b"".join(lines), "application/x-ndjson")

    def _manifest(self, step: Step, read: Reader) -> Output:
        sources = []
        for name, dataset, version in step.params["sources"]:
            counts = [sum(1 for _ in read.ndjson(f"{name}-{n}")) for n in range(self.parameters.segments)]
            sources.append(IndexedSource(name=name, dataset=dataset, version=version, segments=counts))
            if not any(counts):
                raise Held(
                    f"source {name} has no text, so its index would be empty",
                    hint="the current index stays; check the columns of the job in kfm.yml",
                )
        return Output.json(
            SearchManifest(
                format=FORMAT,
                alias=step.params["alias"],
                model=step.params["model"],
                documents=sum(sum(each.segments) for each in sources),
                sources=sources,
            )
        )

    def conclude(
        self, version: DatasetVersion, inputs: Sequence[SourceRef], made: Callable[[str], bytes]
    ) -> DatasetVersion:
        """Return the version. Denied unless everything that it was made of may be public."""
        level = version.metadata.get("sensitivity")
        standing = version.standing
        if level not in PUBLISHABLE or (standing is not None and not standing.publishable()):
            raise _not_public(self.id, level or "not declared public")
        return super().conclude(version, inputs, made)

    def _with_vector(self, document: SearchDocument) -> SearchDocument:
        if not self.model:
            return document
        import msgspec

        vector = text_vectors.packed(text_vectors.vector_of(f"{document.title}\n{document.text}"))
        return msgspec.structs.replace(document, vector=vector)

    def _documents(self, read: Reader, ref: SourceRef) -> Iterator[SearchDocument]:
        said = self.parameters
        if not said.columns:
            yield from _texts(read, ref)
            return
        seen: set[str] = set()
        number = 0
        for number, row in enumerate(rows_of(read, ref), 1):
            seen.update(row.values)
            named = row.values.get(said.id) if said.id else number
            if named is None or named == "":
                raise Refused(f"source {ref.name}, row {number}: its id is blank", hint="name another column as `id`")
            parts = [_text(row.values.get(column)) for column in said.columns]
            text = "\n".join(part for part in parts if part)[:LONGEST]
            yield SearchDocument(id=_text(named)[:1000], text=text, title=_text(row.values.get(said.title))[:300])
        absent = sorted({*said.columns, *filter(None, (said.id, said.title))} - seen)
        if absent and number:
            raise Refused(
                f"source {ref.name} has no column {printable(absent[0])}, which is to be indexed",
                hint="correct the parameters of the job in kfm.yml",
            )


def _check_public(ref: SourceRef) -> None:
    standing = ref.standing
    if ref.sealed_with or (standing is not None and not standing.publishable()):
        raise _not_public(ref.name, standing.level if standing is not None else "encrypted")


def _not_public(name: str, level: str) -> Denied:
    return Denied(
        f"{name} is {level}, and only text that may be public is indexed",
        hint="mask it first, and index the dataset that is public",
        rule="index.not-public",
    )


def _texts(read: Reader, ref: SourceRef) -> Iterator[SearchDocument]:
    """Yield each entry of a version as one document. Its title is its first line, its id its key."""
    for entry in entries_of(read, ref):
        try:
            text = read.bytes(entry).decode("utf-8")
        except UnicodeDecodeError:
            what = f"source {ref.name} has an entry that is no text"
            raise BadInput(what, hint="name `columns` of a table") from None
        first = next((line.strip("# \t") for line in text.splitlines() if line.strip("# \t")), "")
        key = "/".join(entry[1:]) if isinstance(entry, tuple) else "/".join(ref.partition) or ref.name
        yield SearchDocument(id=key, text=text.strip()[:LONGEST], title=first[:300])


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else canonical(value).decode()
