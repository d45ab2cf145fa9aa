"""Holds sources against contracts in Python and in Node: accepted bytes, held rows, findings, counts and words.

`python -m tests.node.fuzz_inspection [COUNT] [SEED]` prints what they differ in.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from kfm.errors import KfmError
from kfm.model.canonical import canonical
from kfm.model.records import DataContract
from kfm.parsing.dates import date_format_problem, date_reader
from kfm.parsing.encodings import codec_of, encoding_of, output_codec
from kfm.parsing.patterns import compiled, pattern_flaw
from kfm.validation import json_records as inspect_split
from kfm.validation import text_blocks as inspect_text
from kfm.validation.source_check import contract_problems, inspect
from tests.node import inspection_samples as samples
from tests.node import inspection_sources as sources
from tests.node.twin import Twin, batches, encoded

_REAL = {"block": 1 << 16, "maxLine": 1 << 22, "chunk": 1 << 18, "maxRecord": 1 << 25}


@contextmanager
def within(limits: dict[str, int]) -> Iterator[None]:
    """The inspection with less room than it has."""

    def use(block: int, max_line: int, chunk: int, max_record: int) -> None:
        inspect_text.BLOCK = block
        inspect_text.MAX_LINE = max_line
        inspect_split.CHUNK, inspect_split.MAX_RECORD = chunk, max_record
        csv.field_size_limit(max_line)

    use(*(_REAL | limits).values())
    try:
        yield
    finally:
        use(*_REAL.values())


def inspected(asked: dict[str, Any], body: bytes, limits: dict[str, int]) -> dict[str, Any]:
    contract = msgspec.convert(asked, DataContract)
    accepted: list[bytes] = []
    held: list[bytes] = []
    with within(limits):
        try:
            report = inspect(lambda: io.BytesIO(body), contract, "stations", accepted.append, held.append)
        except KfmError as problem:
            return {"error": str(problem), "code": problem.code}
    return {
        "report": canonical(report).decode(),
        "accepted": encoded(b"".join(accepted)) if report.changed else None,
        "held": encoded(b"".join(held)),
    }


def shown(asked: dict[str, Any], body: bytes, limits: dict[str, int], ours: Any, theirs: Any) -> str:
    def opened(answer: dict[str, Any]) -> dict[str, Any]:
        decoded = {k: base64.b64decode(answer[k]) for k in ("accepted", "held") if answer.get(k)}
        return {**answer, **decoded}

    return f"{json.dumps(asked)}\n  {body!r} {limits}\n  {opened(ours)} here\n  {opened(theirs)} in Node"


def compare_cases(twin: Twin, cases: list[samples.Case], seen: Counter[str]) -> list[str]:
    differences = []
    answers = twin.ask_all([("inspect", asked, encoded(body), limits) for asked, body, limits in cases])
    for (asked, body, limits), answer in zip(cases, answers, strict=True):
        ours, theirs = inspected(asked, body, limits), answer["ok"]
        if ours != theirs:
            differences.append(shown(asked, body, limits, ours, theirs))
        if "error" in ours:
            seen["refused"] += 1
            continue
        report = json.loads(ours["report"])
        seen["held" if report["held"] else "changed" if report["changed"] else "as it came"] += 1
        for rule in report["finding_counts"]:
            seen[f"rule {rule}"] += 1
    return differences


def compare_contracts(twin: Twin, pick: random.Random, count: int) -> list[str]:
    asked = [samples.contract(pick) for _ in range(count)]
    answers = twin.ask_all([("problems", one) for one in asked])
    return [
        f"{one}: {contract_problems(msgspec.convert(one, DataContract))} here, {answer['ok']} in Node"
        for one, answer in zip(asked, answers, strict=True)
        if contract_problems(msgspec.convert(one, DataContract)) != answer["ok"]
    ]


def compare_patterns(twin: Twin, pick: random.Random, count: int) -> list[str]:
    differences = []
    questions = []
    for _ in range(count):
        pattern = samples.pattern(pick, pick.choice((2, 3, 4)))
        if pick.random() < 0.1:
            at = pick.randrange(len(pattern) + 1)
            sign = pick.choice("()[]{}*+?\\|^$.,-<>=!:iP19ax")
            pattern = pattern[:at] + sign + pattern[at + pick.randrange(2) :]
        texts = [
            "".join(pick.choice("ab1. é\nAkKSs\u212a\u017f_\x0b😀-]{") for _ in range(pick.randint(0, 7)))
            for _ in range(12)
        ]
        questions.append(("pattern", pattern, texts))
    for (_, pattern, texts), answer in zip(questions, twin.ask_all(questions), strict=True):
        ours: Any = pattern_flaw(pattern)
        if not ours:
            whole, some = compiled(pattern), compiled(pattern, whole=False)
            ours = [[whole(text), some(text)] for text in texts]
        if ours != answer["ok"]:
            differences.append(f"{pattern!r} of {texts}: {ours} here, {answer['ok']} in Node")
    return differences


def compare_dates(twin: Twin, pick: random.Random, count: int) -> list[str]:
    differences = []
    questions = []
    pieces = [f"%{letter}" for letter in "YymbBdjaAHIpMSfz%"]
    for _ in range(count):
        form = "".join(
            pick.choice(pieces) + pick.choice(("", "-", " ", "/", "T", ":", "\u00a0", "."))
            for _ in range(pick.randint(1, 4))
        )
        if pick.random() < 0.05:
            form = form.replace("%", "", 1) + pick.choice(("%", "%Q", "é", "\U0001f600"))
        texts = []
        for _ in range(8):
            text = form
            for piece, some in _PARTS.items():
                text = text.replace(piece, pick.choice(some))
            if pick.random() < 0.3 and text:
                at = pick.randrange(len(text))
                text = text[:at] + pick.choice("0123456789 -:/٣x\n") + text[at + pick.randrange(2) :]
            texts.append(text)
        questions.append(("dates", form, texts))
    for (_, form, texts), answer in zip(questions, twin.ask_all(questions), strict=True):
        ours: Any = date_format_problem(form)
        if not ours:
            ours = [date_reader(form)(text) for text in texts]
        if ours != answer["ok"]:
            differences.append(f"{form!r} of {texts}: {ours} here, {answer['ok']} in Node")
    return differences


_PARTS = {
    "%Y": ("2024", "1900", "0000", "9999", "2023"), "%y": ("24", "00", "68", "69"), "%m": ("1", "02", "12", "13", "0"),
    "%b": ("Jan", "feb", "DEC", "xyz"), "%B": ("January", "february", "MAY"), "%d": ("1", "29", "30", "31", "32",
    " 5", "00"),
    "%j": ("1", "001", "60", "365", "366", "367"), "%a": ("Mon", "sun"), "%A": ("Monday", "SUNDAY"), "%H": ("0", "23",
    "24", "07"),
    "%I": ("1", "12", "0"), "%p": ("am", "PM"), "%M": ("0", "59", "60"), "%S": ("5", "59", "60"), "%f": ("1",
    "123456", "1234567"),
    "%z": ("Z", "z", "+00:00", "-0530", "+24:00", "+05:60"), "%%": ("%",),
}  # fmt: skip


def compare_encodings(twin: Twin, pick: random.Random, count: int) -> list[str]:
    differences = []
    questions: list[tuple[Any, ...]] = []
    for _ in range(count):
        name = pick.choice(sources.ENCODINGS)
        if not encoding_of(name):
            questions.append(("encoding", name))
            continue
        body = "".join(pick.choice(sources.CELLS) for _ in range(pick.randrange(5))).encode(codec_of(name), "ignore")
        body = sources.spoiled(pick, body + bytes(pick.randrange(256) for _ in range(pick.choice((0, 0, 4)))))
        questions.append(("decode", name, encoded(body)))
        questions.append(("encode", name, "".join(pick.choice(sources.CELLS) for _ in range(2))))
    for question, answer in zip(questions, twin.ask_all(questions), strict=True):
        ours: Any
        if question[0] == "encoding":
            ours = encoding_of(question[1])
        elif question[0] == "decode":
            try:
                ours = _decoded(question[1], base64.b64decode(question[2]))
            except UnicodeDecodeError:
                ours = None
        else:
            try:
                ours = encoded(question[2].encode(output_codec(question[1])[0]))
            except UnicodeEncodeError:
                ours = None
        if ours != answer["ok"]:
            differences.append(f"{question}: {ours!r} here, {answer['ok']!r} in Node")
    return differences


def _decoded(name: str, body: bytes) -> str:
    codec = codec_of(name)
    if codec == "utf-16" and body[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        codec = "utf-16-le"
    return body.decode(codec)


def run(count: int, seed: int, seen: Counter[str] | None = None) -> list[str]:
    """`count` sources, and a fifth as many each of contracts, patterns, dates and encodings, asked of both."""
    pick = random.Random(seed)
    tally: Counter[str] = Counter() if seen is None else seen
    differences: list[str] = []
    with Twin("./inspection_answers.mjs") as twin:
        for cases in batches((samples.case(pick) for _ in range(count)), 250):
            differences += compare_cases(twin, cases, tally)
        for compare in (compare_contracts, compare_patterns, compare_dates, compare_encodings):
            for _ in range(0, max(count // 5, 1), 250):
                differences += compare(twin, pick, min(250, max(count // 5, 1)))
    return differences


if __name__ == "__main__":
    counted: Counter[str] = Counter()
    found = run(
        int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1, counted
    )
    for difference in found[:12]:
        sys.stdout.write(difference[:3000] + "\n\n")
    sys.stdout.write(f"{dict(counted.most_common())}\n{len(found)} differences\n")
    sys.exit(bool(found))
