"""The job `story.node`: a short narrative in Markdown whose sentences cite versions of datasets.

Each citation is held against the versions that this run pinned. So a story never cites what it did not read, and what
it cites was public when it was made. A message names the line of the Markdown and quotes nothing of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn
from urllib.parse import unquote

import msgspec

from kfm.errors import Refused
from kfm.model.canonical import canonical
from kfm.model.jobs.job_settings import STORY, StorySettings
from kfm.model.jobs.job_updater import JobUpdater
from kfm.model.jobs.story_record import (
    FORMAT,
    MARKDOWN,
    STORY_KEY,
    TEXT_KEY,
    Story,
    StoryBlock,
    StoryCitation,
    StorySpan,
)
from kfm.model.records import SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader, Sources
from kfm.parsing.record_shape import nearest
from kfm.updaters.jobs.story_source import FoundLink, SourceText, library_version, read_story, text_of
from kfm.updaters.jobs.story_writer import markdown_of

_CITATION = re.compile(r"kfm://dataset/([a-z0-9][a-z0-9._-]{0,62})(?:@sha256:([0-9a-f]{12,64}))?(?:#(.{1,1000}))?")
_FORM = "write kfm://dataset/NAME, with @sha256: and 12 to 64 hex digits for one version and #KEY for one file of it"


class StoryNode(JobUpdater[StorySettings]):
    job = STORY
    version = "1.0.0"

    def __init__(self, name: str, parameters: StorySettings, read: Mapping[str, str]) -> None:
        if parser := library_version():  # another parser may read the same text otherwise
            self.version = f"{self.version}+markdown-it-{parser}"
        super().__init__(name, parameters, read)

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        """Pin the Markdown, which is the only source that is no dataset, and the version of each cited dataset."""
        text = [sources.pin(name, complete=True) for name in sources.names()]
        return text + super().inputs(trigger, sources)

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        said = {"title": self.parameters.title, "language": self.parameters.language}
        versions = [[ref.name, ref.content_hash] for ref in inputs]
        steps = [
            Step(id=STORY_KEY, key=(STORY_KEY,), params={**said, "sources": versions}),
            Step(id=TEXT_KEY, key=(TEXT_KEY,), needs=(STORY_KEY,)),
        ]
        return Plan(steps, complete=True)

    def perform(self, step: Step, read: Reader) -> Output:
        if step.id == TEXT_KEY:
            made = msgspec.json.decode(read.bytes(STORY_KEY), type=Story)
            return Output(markdown_of(made).encode(), MARKDOWN)
        (text,) = (ref for ref in read.inputs if ref.name not in self.read)
        name = text.name
        source = read_story(text_of(read.bytes(name), name), name)
        cited = _Citations(name, self.read, read).resolved(source.cited)
        if not cited:
            _refuse(name, 0, "it cites nothing", f"link a sentence to what it rests on: {_FORM}")
        blocks = tuple(_with_citations(block, cited) for block in source.blocks)
        story = Story(
            format=FORMAT,
            title=step.params["title"] or _title_of(source) or _untitled(name),
            language=step.params["language"],
            blocks=blocks,
            citations=tuple(dict.fromkeys(cited.values())),
        )
        return Output(canonical(story), "application/json")


def _title_of(source: SourceText) -> str:
    first = next((block for block in source.blocks if block.kind == "heading"), None)
    return "".join(span.text for span in first.spans)[:300] if first is not None else ""


def _untitled(name: str) -> NoReturn:
    _refuse(name, 0, "it has no heading", "begin it with a line like `# Wells of the Arroyo`, or give `title`")


def _with_citations(block: StoryBlock, cited: Mapping[str, StoryCitation]) -> StoryBlock:
    spans = tuple(_resolved(span, cited) for span in block.spans)
    return msgspec.structs.replace(
        block, spans=spans, blocks=tuple(_with_citations(each, cited) for each in block.blocks)
    )


def _resolved(span: StorySpan, cited: Mapping[str, StoryCitation]) -> StorySpan:
    found = cited.get(span.href)
    return span if found is None else msgspec.structs.replace(span, href="", cites=found)


def _refuse(name: str, line: int, what: str, hint: str) -> NoReturn:
    where = f", line {line}" if line else ""
    raise Refused(f"source {name}{where}: {what}", hint=hint)


class _Citations:
    """Finds what each link cites among the versions that this run pinned."""

    def __init__(self, name: str, sources: Mapping[str, str], read: Reader) -> None:
        self._name = name
        self._read = read
        pinned = {ref.name: ref for ref in read.inputs}
        self._at = {ref.partition("/")[2]: pinned[source] for source, ref in sources.items()}
        self._keys: dict[str, frozenset[tuple[str, ...]]] = {}
        self._digests: dict[tuple[str, ...], str] = {}

    def resolved(self, cited: Sequence[FoundLink]) -> dict[str, StoryCitation]:
        """Return the citation of each link, in the order of the story."""
        found: dict[str, StoryCitation] = {}
        for link in cited:
            if link.address not in found:
                found[link.address] = self._resolve(link)
        return found

    def _resolve(self, link: FoundLink) -> StoryCitation:
        said = _CITATION.fullmatch(link.address)
        if said is None:
            _refuse(self._name, link.line, "a link that begins with kfm: is no citation", _FORM)
        dataset, prefix, fragment = said[1], said[2] or "", said[3] or ""
        ref = self._at.get(dataset)
        if ref is None:
            close = nearest(dataset, sorted(self._at))
            hint = f"did you mean {close}?" if close else f"its sources are {', '.join(sorted(self._at))}"
            what = "it cites a dataset that is not among the sources of the story"
            _refuse(self._name, link.line, what, f"{hint}; add others to `sources` in kfm.yml, with zone: published")
        version = ref.content_hash
        if not version.startswith(f"sha256:{prefix}"):
            _refuse(
                self._name, link.line,
                f"it cites version {prefix[:12]} of {dataset}, which is not its public version any more, or never was: "
                f"that is {version[7:19]}",
                "look whether the sentence is still true, then cite that version, or none in particular",
            )  # fmt: skip
        if not fragment:
            return StoryCitation(dataset=dataset, version=version)
        key = tuple(map(unquote, fragment.split("/")))
        if key not in self._keys_of(ref):
            _refuse(
                self._name, link.line,
                f"it cites a file that version {version[7:19]} of {dataset} does not have",
                f"`kfm cat published/{dataset}` lists its keys; write a `/` within a part as %2F",
            )  # fmt: skip
        return StoryCitation(dataset=dataset, version=version, key=key, digest=self._digest(ref, key))

    def _keys_of(self, ref: SourceRef) -> frozenset[tuple[str, ...]]:
        if ref.name not in self._keys:
            self._keys[ref.name] = frozenset(self._read.keys(ref.name))
        return self._keys[ref.name]

    def _digest(self, ref: SourceRef, key: tuple[str, ...]) -> str:
        entry = (ref.name, *key)
        if entry not in self._digests:
            found = hashlib.sha256()
            with self._read.open(entry) as file:
                while piece := file.read(1 << 20):
                    found.update(piece)
            self._digests[entry] = f"sha256:{found.hexdigest()}"
        return self._digests[entry]
