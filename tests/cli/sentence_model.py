"""A model of one dataset: what `status`, `why-not`, `freshness`, `explain` and `review` must say after any history.

It knows what it typed and which version each ref is at. It shares no code with the reports.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.cli.conftest import Answer, Kfm

STEPS = ("run", "run", "run same", "hold", "recover", "publish", "publish", "publish by name", "roll back", "withdraw",
         "tighten", "loosen")  # fmt: skip
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


class Model:
    def __init__(self, kfm: Kfm, config: str, kinds: Counter[str]) -> None:
        self.config = config  # with the sensitivity left open
        self.kfm, self.kinds, self.minutes = kfm, kinds, 0
        self.level, self.rows, self.actor = "public", 1, ""
        self.last = ""  # the outcome of the last run
        self.is_held = self.is_denied = self.ever = False
        self.made = self.public = ""
        self.live: list[str] = []  # public versions, the oldest first
        self.taken: dict[str, tuple[str, str]] = {}  # who took a version back, and why
        self.made_at: dict[str, int] = {}
        self.made_level: dict[str, str] = {}
        self.configure()

    def configure(self) -> None:
        Path("kfm.yml").write_text(self.config.format(level=self.level))

    def refs(self) -> tuple[str, str]:
        found = {each["ref"]: each["version"] for each in self.kfm("refs", "list", "--json").data}
        return found.get("processed/birds", ""), found.get("published/birds", "")

    # -- steps

    def step(self, what: str, number: int) -> None:
        self.minutes += 7
        os.environ["KFM_NOW"] = (BEGUN + timedelta(minutes=self.minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        why, before = f"because of {number}", self.public
        os.environ["KFM_ACTOR"] = self.actor = f"person{number}"
        by_name = ("--to", self.made) if self.made and what == "publish by name" else ()
        said = {"publish": ("publish", "birds", "--reason", why), "withdraw": ("rollback", "birds", "--to", "nothing"),
                "publish by name": ("publish", "birds", *by_name, "--reason", why),
                "roll back": ("rollback", "birds", "--reason", why)}  # fmt: skip
        if what in ("run", "run same", "hold", "recover"):
            self.run(what)
        elif what in ("tighten", "loosen"):
            self.level = "restricted" if what == "tighten" else "public"
            self.configure()
            assert self.kfm("resume").code == 0
            if self.level == "restricted":
                self.take(self.live, "kfm recall", "it is more protected than when it was published")
        else:
            answer = self.kfm(*said[what], *(("--reason", why) if what == "withdraw" else ()))
            self.moved(what, answer, before, why)
        assert self.refs()[1] == self.public, (what, answer if what in said else "")

    def run(self, what: str) -> None:
        self.rows += what == "run"
        good = "id,name\n" + "".join(f"{n},bird {n}\n" for n in range(self.rows))
        Path("list.csv").write_text("name\na bird\n" if what == "hold" else good)
        receipt = self.kfm("run", "--json").data["receipts"][0]
        self.last, self.is_held = receipt["outcome"], what == "hold"
        assert (self.last == "held") is self.is_held, receipt
        before, self.made = self.made, self.refs()[0]
        if self.made != before or self.last == "done":
            self.made_at.setdefault(self.made, self.minutes)
        if self.made != before:
            self.made_level.setdefault(self.made, self.level)  # the same bytes keep it

    def moved(self, what: str, answer: Answer, before: str, why: str) -> None:
        """Predict what an operation did, by what is known here, and compare its exit code."""
        public = self.refs()[1]
        if what.startswith("publish"):
            again = self.made in self.taken and what == "publish"
            closed = "restricted" in (self.level, self.made_level.get(self.made))
            expected = 3 if not self.made or again else 0 if self.made == before else 4 if closed else 0
            assert answer.code == expected, (what, answer)
            self.is_denied = answer.code == 4
            if answer.code == 0:
                self.public, self.ever = self.made, True
                self.live = [each for each in self.live if each != self.made] + [self.made]
                self.taken.pop(self.made, None)
        elif what == "withdraw":
            assert answer.code == (0 if self.ever else 3), answer
            self.take(self.live, self.actor, why)
        elif answer.code == 0:  # a rollback that names no version returns to the one before
            assert public in self.live[:-1] and self.level == "public", answer
            self.take(self.live[self.live.index(public) + 1 :], self.actor, why)
            self.public = public
        else:
            assert public == before

    def take(self, versions: list[str], who: str, why: str) -> None:
        for version in list(versions):
            self.taken[version] = (who, why)
            self.live.remove(version)
        if versions is self.live or not self.live:
            self.public = ""

    # -- sentences

    def true(self, kind: str, said: bool, expected: bool, evidence: object) -> None:
        """Compare one kind of sentence with the model, and count it if it was said."""
        assert said is expected, (kind, "said" if said else "not said", evidence)
        self.kinds[kind] += said

    @property
    def is_closed(self) -> bool:
        return "restricted" in (self.level, self.made_level.get(self.made))

    @property
    def is_behind(self) -> bool:
        return bool(self.made) and self.made != self.public and self.made not in self.taken

    def check(self) -> None:
        for report in (self.status, self.why_not, self.freshness, self.explain, self.review):
            report()

    def status(self) -> None:
        told = self.kfm("status", "--json").data
        (one,) = told["datasets"]
        text, steps = " ".join(self.kfm("status").out.split()), {each["command"] for each in told["next"]}
        back = self.taken.get(self.made) if self.made != self.public else None
        self.true("status: never made", "never made" in text, not self.made and not self.is_held, text)
        self.true("status: public", one["is_public"], bool(self.public), one)
        self.true("status: withdrawn", one["is_withdrawn"], self.ever and not self.public, one)
        self.true("status: newer built", "newer built" in text, bool(self.public) and self.is_behind, text)
        self.true("status: newer withdrawn", "newer withdrawn" in text, bool(self.public) and back is not None, text)
        self.true("status: who withdrew it", "was withdrawn by" in text, back is not None, text)
        if back is not None:
            assert (one["withdrawal"]["by"], one["withdrawal"]["reason"][: len(back[1])]) == back, one
        self.true("status: held", "held" in text.partition("next:")[0], self.is_held, text)
        publish = "kfm publish birds --reason …" in steps
        self.true("status: next is publish", publish, self.is_behind and not self.is_closed, steps)
        self.true("status: next is quarantine", "kfm quarantine birds" in steps, self.is_held, steps)
        never, late = not self.made and not self.is_held, bool(self.made) and self.age > 90
        runs = never or (late and not self.is_behind)
        self.true("status: next is run", "kfm run birds" in steps, runs, (steps, self.age))
        self.true("status: late", "late by" in text, late, (text, self.age))

    @property
    def age(self) -> int:
        return self.minutes - self.made_at.get(self.public or self.made, self.minutes)

    def why_not(self) -> None:
        reasons = self.kfm("why-not", "birds", "--json").data["reasons"]
        found: dict[str, Any] = {each["what"]: each for each in reversed(reasons)}
        gone = self.made in self.taken and self.made != self.public
        self.true("why-not: never run", "never-run" in found, not self.last, reasons)
        self.true("why-not: nothing new", "noop" in found, self.last in ("noop", "unchanged"), reasons)
        self.true("why-not: held", "held" in found, self.is_held, reasons)
        self.true("why-not: withdrawn", "withdrawn" in found, gone or (self.ever and not self.public), reasons)
        if gone:
            who, why = self.taken[self.made]
            assert f"was withdrawn by {who} at " in found["withdrawn"]["why"] and why in found["withdrawn"]["why"], (
                reasons
            )
        self.true("why-not: unpublished", "unpublished" in found, self.is_behind and not self.is_closed, reasons)
        self.true("why-not: closed", "closed" in found, bool(self.made) and self.is_closed, reasons)
        publish = [each["do"] for each in reasons if each["do"].startswith("kfm publish")]
        self.true("why-not: do publish", bool(publish), (self.is_behind or gone) and not self.is_closed, reasons)

    def freshness(self) -> None:
        (one,) = self.kfm("schedule", "freshness", "--json").data
        self.true("freshness: never", one["verdict"] == "never", not self.made, one)
        self.true("freshness: late", one["verdict"] == "late", bool(self.made) and self.age > 90, (one, self.age))
        if self.made:
            assert one["age_min"] == self.age == sum(one["blame"].values()), (one, self.age)
            newer = self.made_at[self.made] > self.made_at.get(self.public, self.minutes)
            gone = newer and self.made in self.taken and self.last != "held" and self.minutes > self.made_at[self.made]
            if bool(self.public) and gone:
                self.true("freshness: withdrawn", "withdrawn" in one["blame"], True, one)

    def explain(self) -> None:
        if not self.last:
            return
        said = [each["text"] for each in self.kfm("explain", "birds", "--json").data["lines"]]
        text, shown = " ".join(said), self.public or self.made
        self.true("explain: published", "It was published at" in text, shown in self.live or shown in self.taken, said)
        self.true("explain: withdrawn", "It was withdrawn by" in text, shown in self.taken, said)
        self.true("explain: nothing is public", "Nothing of birds is public today" in text, shown in self.taken, said)
        closed = "restricted" in (self.level, self.made_level.get(shown))
        self.true("explain: plainly public", "It is plainly public" in text, bool(shown) and not closed, said)
        self.true("explain: has no version", "has no version" in text, not shown, said)

    def review(self) -> None:
        kinds = Counter(each["kind"] for each in self.kfm("review", "list", "--json").data)
        self.true("review: held", kinds["held"] == 1, self.is_held, kinds)
        self.true("review: stopped by a gate", kinds["gate"] == 1, self.is_denied, kinds)
