"""The answers of an installation: records that display themselves.

They display names, counts and digests. Steps and keys may hold values of the data; they are accessible but not
displayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kfm.app.data.answers import DatasetStatus, Explanation, PlanPreview, Status
from kfm.app.data.text_search import SearchResult
from kfm.app.data.version_diff import Difference
from kfm.app.provenance.explain import written
from kfm.app.provenance.lineage import Lineage, tree
from kfm.app.runs.execution import Outcome, Undelivered, problem_of
from kfm.client.display import Displayable, as_html, as_text, short
from kfm.errors import KfmError
from kfm.model.records import Effect, Receipt, RefEntry
from kfm.parsing.characters import escaped

CHANGES = ("added", "changed", "removed", "keys")


class Ran(Displayable):
    """The result of `run` or `resume`: one receipt per run, and the errors."""

    __slots__ = ("_public", "_versions", "dry_run", "effects", "problems", "receipts", "undelivered")

    def __init__(self, outcome: Outcome, versions: Sequence[str], *, public: frozenset[str], dry_run: bool) -> None:
        """`public` are the datasets whose counts may be displayed."""
        self.receipts: tuple[Receipt, ...] = tuple(outcome.receipts)
        self.effects: tuple[Effect, ...] = tuple(outcome.effects)  # changes outside KFM; in a dry run, predicted
        self.undelivered: tuple[Undelivered, ...] = tuple(outcome.undelivered)
        self.problems: tuple[KfmError, ...] = tuple(_problems(outcome))  # the worst first, like the exit code
        self.dry_run = dry_run
        self._versions = tuple(versions)
        self._public = public

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def versions(self) -> dict[str, str]:
        """The version of each dataset that the run made or found."""
        return {receipt.dataset: version for receipt, version in zip(self.receipts, self._versions, strict=True)}

    @property
    def requested(self) -> bool:
        """Whether an operation only became a request: others must sign before anything moves."""
        return any(receipt.job_type == "operation.request" for receipt in self.receipts)

    def _title(self) -> str:
        count = len(self.receipts)
        what = f"{count} run" if count == 1 else f"{count} runs"
        wrong = f"; {len(self.problems)} failed: {self.problems[0]}" if self.problems else ""
        return ("dry run, nothing was changed: " if self.dry_run else "") + what + wrong

    def _table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        names = ("dataset", "status", "outcome", *CHANGES, "version", "run")
        return names, [
            (
                f"{one.dataset}/{one.partition}" if one.partition else one.dataset,
                one.status,
                one.outcome,
                *(one.changes.get(name) if one.dataset in self._public else None for name in CHANGES),
                short(version),
                one.run_id,
            )
            for one, version in zip(self.receipts, self._versions, strict=True)
        ]


def _problems(outcome: Outcome) -> Iterator[KfmError]:
    for what in outcome.undelivered:
        if what.ours:
            told = type(what.problem)(what.message, hint=what.problem.hint)
            told.__cause__ = what.problem
            yield told
    for _, problem in outcome.problems:
        yield problem
    yield from filter(None, map(problem_of, outcome.receipts))


class Planned(PlanPreview, frozen=True):
    """The plan that a run would make now. `diff` has the differences, `shown` the steps."""

    def __repr__(self) -> str:
        return as_text(*self._told())

    def _repr_html_(self) -> str:
        return as_html(*self._told())

    def _told(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        same = self.before == self.plan_hash
        compared = {
            "nothing": "the first one",
            "last": "as the last run's" if same else "another than the last run's",
            "locked": "as the locked one" if same else "changed under the same inputs and version: bump the version",
        }[self.against]
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        rows = [(source.name,) for source in self.inputs]
        return f"plan {short(self.plan_hash)}: {steps}, {compared}", ("input",), rows


class Explained(Explanation, frozen=True):
    """The explanation of one subject, from public records only."""

    def __repr__(self) -> str:
        return "\n".join(map(escaped, written(self, [], "text").splitlines()))

    def page(self) -> str:
        """Return the explanation as an HTML page that needs no network and no script."""
        return written(self, [], "html")

    def _repr_html_(self) -> str:
        rows = [(line.text, " ".join(dict.fromkeys(map(short, line.cites)))) for line in self.lines]
        return as_html(f"{self.thing} ({self.kind})", ("what is known", "by"), rows)


class Overview(Status, frozen=True):
    """The status of every dataset, the next commands, and the quick checks of `kfm doctor`."""

    def __repr__(self) -> str:
        return "\n".join(as_text(*part) for part in self._parts())

    def _repr_html_(self) -> str:
        return "".join(as_html(*part) for part in self._parts())

    def _parts(self) -> Iterator[tuple[str, Sequence[str], Iterable[Sequence[object]]]]:
        many = "1 dataset" if len(self.datasets) == 1 else f"{len(self.datasets)} datasets"
        state = ", everything is frozen" if self.is_frozen else ""
        names = ("dataset", "version", "as of", "public", "freshness", "held", "frozen", "waiting", "last run")
        yield (
            f"{many} at {self.at}{state}",
            names,
            [
                (
                    one.dataset,
                    short(one.version) or ("protected" if one.is_made else ""),
                    one.as_of,
                    _public(one),
                    one.freshness,
                    one.held_rows or "yes" if one.is_held else "",
                    "yes" if one.is_frozen else "",
                    one.waiting or "",
                    one.last_outcome,
                )
                for one in self.datasets
            ],
        )
        if self.next:
            yield "next", ("command", "why"), [(step.command, step.why) for step in self.next]
        wrong = [(check.check, check.found) for check in self.checks if not check.ok]
        if wrong:
            yield "wrong", ("check", "found"), wrong


class Compared(Difference, frozen=True):
    """The difference between two versions: counts, and in `changes` each changed key. Keys and rows are not
    displayed."""

    def __repr__(self) -> str:
        return as_text(*self._told())

    def _repr_html_(self) -> str:
        return as_html(*self._told())

    def _told(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        before, after = short(self.before.version) or "nothing", short(self.after.version) or "nothing"
        counts = [
            (what, getattr(self, what), getattr(self.rows, what) if self.rows is not None else None)
            for what in ("added", "changed", "removed")
        ]
        return f"{self.after.dataset} from {before} to {after}", ("change", "keys", "rows"), counts


class Traced(Lineage, frozen=True):
    """The lineage of a thing in one direction. `steps` has every run between two things."""

    def __repr__(self) -> str:
        return "\n".join(map(escaped, tree(self)))

    def _repr_html_(self) -> str:
        word = "made of" if self.direction == "upstream" else "read by a run that made"
        rows = [
            (f"{one.of.id} {short(one.of.digest)}", word, f"{one.to.id} {short(one.to.digest)}", one.run_id)
            for one in self.steps
        ]
        return as_html(f"{self.thing.id} {short(self.thing.digest)}", ("thing", "was", "thing", "run"), rows)


class Found(SearchResult, frozen=True):
    """The published documents that fit a question. Displayed without their text, which is in `hits`."""

    def __repr__(self) -> str:
        return as_text(*self._told())

    def _repr_html_(self) -> str:
        return as_html(*self._told())

    def _told(self) -> tuple[str, Sequence[str], Iterable[Sequence[object]]]:
        rows = [(hit.dataset, hit.key, hit.title, hit.score, short(hit.version)) for hit in self.hits]
        return f"{len(self.hits)} found for {self.query}", ("dataset", "key", "title", "score", "version"), rows


class Quarantined(Displayable):
    """What is quarantined of a dataset: the report of each source, and the rows themselves."""

    __slots__ = ("_public", "_read", "dataset", "sources")

    def __init__(
        self,
        dataset: str,
        sources: list[dict[str, Any]],
        read: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
        *,
        public: bool,
    ) -> None:
        """`public` says whether counts may be displayed."""
        self.dataset = dataset
        self.sources = sources  # as `kfm quarantine --json` gives them
        self._read = read
        self._public = public

    def rows(self) -> list[dict[str, Any]]:
        """Return the quarantined rows, each with the place that it came from."""
        return self._read(self.sources)

    def _title(self) -> str:
        if not self.sources:
            return f"nothing of {self.dataset} is quarantined"
        held = sum(source["held_rows"] for source in self.sources)
        rows = "1 row" if held == 1 else f"{held} rows"
        return f"{self.dataset}: {rows} quarantined" if self._public else f"{self.dataset}: rows are quarantined"

    def _table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return ("source", "rule", "findings"), [
            (source["source"], rule, count if self._public else None)
            for source in self.sources
            for rule, count in sorted(source["counts"].items())
        ]


class Refs(Displayable, Mapping[str, str]):
    """The version of every ref at the moment of the call."""

    __slots__ = ("_at", "_history")

    def __init__(self, at: dict[str, str], history: Callable[[str], list[RefEntry]]) -> None:
        self._at = at
        self._history = history

    def __getitem__(self, ref: str) -> str:
        return self._at[ref]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def history(self, ref: str) -> list[RefEntry]:
        """Return all moves of a ref, oldest first. The name of a dataset means its published ref, else its processed
        one."""
        return self._history(ref)

    def _title(self) -> str:
        return "1 ref" if len(self) == 1 else f"{len(self)} refs"

    def _table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return ("ref", "version"), [(ref, short(version)) for ref, version in self._at.items()]


R = TypeVar("R", Planned, Explained, Overview, Compared, Traced, Found)


def shown_as(kind: type[R], record: msgspec.Struct) -> R:
    """Return the record converted to `kind`, a subclass that displays itself."""
    return kind(**{name: getattr(record, name) for name in record.__struct_fields__})


def _public(one: DatasetStatus) -> str:
    if not one.is_public:
        return "withdrawn" if one.is_withdrawn else "no"
    return "older" if one.is_behind or one.withdrawal is not None else "yes"
