"""Finds published text: reads the index that a search alias leads to, and ranks its documents.

Whether a document may be shown is decided when it is asked for: its version must be public now, and nothing may
restrict its dataset or the index. Documents of other versions are not even ranked.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.authority.served_refs import manifest_of
from kfm.app.runs.visibility import Visibility
from kfm.app.session.datasets import is_public_version
from kfm.errors import BadInput
from kfm.model import manifests, refs
from kfm.model.jobs.search_segment import NO_VECTORS, SearchDocument, SearchManifest
from kfm.model.labels import PUBLISHABLE
from kfm.model.records import Record
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest
from kfm.store.search.full_text import best_matches, words_of
from kfm.updaters.jobs import text_vectors

if TYPE_CHECKING:
    from kfm.app.session.session import Session

MOST = 1000  # hits of one question
LONGEST = 1000  # characters of a question
_DEPTH = 200  # ranked hits of either kind that are joined
_NEAR = 0.45  # cosine from which a text is near in meaning
_SHARE = 60  # of reciprocal rank fusion: how much less the second place counts than the first
_SNIPPET = 160
_decode = msgspec.json.Decoder(SearchDocument).decode


class SearchHit(Record, frozen=True):
    """One document that was found."""

    dataset: str
    version: str  # of the dataset, from which the text comes
    key: str  # the id of the row, or the key of the text
    title: str
    snippet: str
    score: float
    alias: str  # of the index


class HiddenSource(Record, frozen=True):
    """A version in an index whose text may not be shown now."""

    alias: str
    dataset: str
    version: str
    why: str


class SearchResult(Record, frozen=True):
    """The answer to a search."""

    query: str
    indexes: dict[str, str]  # the version of each index by its alias
    epochs: dict[str, str]  # by the dataset of an index: the epoch of caches
    meaning: bool  # vectors were compared, too
    hits: list[SearchHit]
    hidden: list[HiddenSource]


class _Index(NamedTuple):
    alias: str
    dataset: str
    version: str
    manifest: SearchManifest


class _Candidate(NamedTuple):
    document: SearchDocument
    dataset: str
    version: str
    alias: str
    model: str


class Found(NamedTuple):
    """What was found of the documents that may be shown."""

    hits: list[SearchHit]
    matched: int  # how many of the ranked documents fit
    meaning: bool
    indexes: int  # how many indexes were searched


MayShow = Callable[[str, str], bool]  # whether a caller may see this version of a dataset


def search_shown(session: Session, query: str, may_show: MayShow, limit: int) -> Found:
    """Return what `search` finds in the indexes and versions that a caller may see. Nothing tells what there is besides
    them: no document of another version is ranked or counted, and no index is named."""
    words = words_of(query[:LONGEST])
    indexes = [each for each in _known_indexes(session) if may_show(each.dataset, each.version)]
    visibility = Visibility(session)
    candidates = [
        one
        for each in indexes
        for one in _candidates(session, visibility, each, may_show)[0]
    ]  # fmt: skip
    hits, matched, meaning = _ranked(candidates, query, words, limit) if words else ([], 0, False)
    return Found(hits, matched, meaning, len(indexes))


def search(session: Session, query: str, *, index: str = "", limit: int = 10) -> SearchResult:
    """Return the documents that fit these words best. BadInput if there is no such index, or no word. Nothing is shown
    of a version that is not public now, or whose dataset is restricted."""
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise BadInput("the limit is not a count of hits", hint=f"give a whole number from 1 to {MOST}")
    words = words_of(query[:LONGEST])
    if not words:
        raise BadInput("there is no word to search for", hint='e.g. `kfm search "oil wells"`')
    with session.state.reading():
        indexes = _indexes(session, index)
        visibility = Visibility(session)
        candidates: list[_Candidate] = []
        hidden: list[HiddenSource] = []
        for each in indexes:
            found, kept_back = _candidates(session, visibility, each)
            candidates += found
            hidden += kept_back
        epochs = {each.dataset: session.state.refs.at(refs.cache_epoch(each.dataset)) for each in indexes}
    hits, _, meaning = _ranked(candidates, query, words, limit)
    versions = {each.alias: each.version for each in indexes}
    return SearchResult(query=query, indexes=versions, epochs=epochs, meaning=meaning, hits=hits, hidden=hidden)


def _ranked(
    candidates: list[_Candidate], query: str, words: list[str], limit: int
) -> tuple[list[SearchHit], int, bool]:
    """Return the best documents, how many fit at all, and whether vectors were compared."""
    scores: dict[int, float] = {}
    snippets: dict[int, str] = {}
    texts = ((n, each.document.title, each.document.text) for n, each in enumerate(candidates))
    for place, hit in enumerate(best_matches(texts, words, _DEPTH)):
        scores[hit.number] = 1 / (_SHARE + place)
        snippets[hit.number] = hit.snippet
    near = _near(candidates, query[:LONGEST])
    for place, number in enumerate(near or ()):
        scores[number] = scores.get(number, 0.0) + 1 / (_SHARE + place)
    best = sorted(scores, key=lambda number: (-scores[number], candidates[number].document.id, number))[:limit]
    return [_hit(candidates[n], snippets.get(n, ""), scores[n]) for n in best], len(scores), near is not None


def _indexes(session: Session, wanted: str) -> list[_Index]:
    """Return the indexes to search: the named one, or all."""
    known = sorted(_aliases(session))
    if wanted and wanted not in known:
        close = nearest(wanted, known)
        raise BadInput(
            f"no search index is called {printable(wanted)}",
            hint=f"did you mean {close}?" if close else f"there are: {', '.join(known) or 'none'}",
        )
    if not known:
        raise BadInput(
            "there is no search index yet",
            hint="declare a dataset with job: index.build_embeddings, run it and publish it",
        )
    return _known_indexes(session, wanted)


def _aliases(session: Session) -> dict[str, str]:
    """Return the version that each alias of an index leads to."""
    found = session.state.refs.all(refs.search_alias(""))
    return {ref.removeprefix(refs.search_alias("")): at for ref, at in found if at}


def _known_indexes(session: Session, wanted: str = "") -> list[_Index]:
    aliases = _aliases(session)
    public = {at: refs.parse(ref).dataset for ref, at in session.state.refs.all(refs.PUBLISHED)}
    found = []
    for alias in [wanted] if wanted else sorted(aliases):
        version = aliases[alias]
        dataset = public.get(version, "")
        manifest = manifest_of(session, dataset, version) if dataset else None
        if manifest is not None:
            found.append(_Index(alias, dataset, version, manifest))
    return found


def _candidates(
    session: Session, visibility: Visibility, index: _Index, may_show: MayShow | None = None
) -> tuple[list[_Candidate], list[HiddenSource]]:
    """Return the documents that may be shown now, and the versions whose documents may not."""
    found: list[_Candidate] = []
    hidden: list[HiddenSource] = []
    closed = _why_hidden(session, visibility, index.dataset, index.version)
    for source in index.manifest.sources:
        why = closed or _why_hidden(session, visibility, source.dataset, source.version)
        if may_show is not None and not may_show(source.dataset, source.version):
            why = why or "not for this caller"
        if why:
            hidden.append(HiddenSource(alias=index.alias, dataset=source.dataset, version=source.version, why=why))
            continue
        for number in range(len(source.segments)):
            for document in _segment(session, index.version, source.name, number):
                found.append(_Candidate(document, source.dataset, source.version, index.alias, index.manifest.model))
    return found, hidden


def _why_hidden(session: Session, visibility: Visibility, dataset: str, version: str) -> str:
    """Return why nothing of this version is shown now; empty if it may be."""
    if not is_public_version(session, dataset, version):
        return "withdrawn, rolled back or no longer kept"
    known = session.state.ledger.version(dataset, version)
    if visibility.level(dataset, known) not in PUBLISHABLE:
        return "restricted now"
    return ""


def _segment(session: Session, version: str, source: str, number: int) -> Iterator[SearchDocument]:
    entry = manifests.find(session.objects, version, (source, str(number)))
    if entry is not None:
        for line in session.objects.read(entry.digest).splitlines():
            yield _decode(line)


def _near(candidates: Sequence[_Candidate], query: str) -> list[int] | None:
    """Return the documents that are near in meaning, the nearest first; None if the model of an index is not installed
    here, or if it has no vectors."""
    models = {each.model for each in candidates}
    if models - {text_vectors.model_name()} or models <= {NO_VECTORS}:
        return None
    import numpy as np

    asked = np.array(text_vectors.vector_of(query), dtype=np.float32)
    length = float(np.sqrt((asked * asked).sum()))
    if not length:
        return []
    nothing = bytes(text_vectors.SIZE)
    rows = b"".join(b64decode(each.document.vector) if each.document.vector else nothing for each in candidates)
    table = np.frombuffer(rows, dtype=np.int8).reshape(len(candidates), text_vectors.SIZE).astype(np.float32)
    lengths = np.sqrt((table * table).sum(axis=1))
    nearness = (table @ asked) / (np.maximum(lengths, 1e-9) * length)
    order = [int(n) for n in np.argsort(-nearness, kind="stable")[:_DEPTH]]
    return [n for n in order if nearness[n] >= _NEAR]


def _hit(found: _Candidate, snippet: str, score: float) -> SearchHit:
    said = found.document
    return SearchHit(
        dataset=found.dataset,
        version=found.version,
        key=said.id,
        title=said.title,
        snippet=snippet or " ".join(said.text.split())[:_SNIPPET],
        score=round(score * _SHARE, 4),
        alias=found.alias,
    )
