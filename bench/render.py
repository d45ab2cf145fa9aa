"""Turns a contest into a result (plain JSON), and a result into the tables of docs/performance.md.

Rendering is a function of the result alone: the same file always gives the same page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contest import Row, Spread, Work, value_of
from works import Target

BEGIN = "<!-- bench:begin; everything up to bench:end is written by `make bench` -->"
END = "<!-- bench:end -->"
DETAILS = ("plan_steps", "finished_steps", "bytes", "least", "written")
Result = dict[str, Any]
TIMES = "\N{MULTIPLICATION SIGN}"
DASH = "\N{EN DASH}"


# -- a contest as a result


def work_result(work: Work, rows: list[Row]) -> Result:
    return {
        "id": work.id,
        "title": work.title,
        "unit": work.unit,
        "measure": work.measure,
        "per": work.per,
        "delay_us": work.delay_us,
        "note": work.note,
        "yardstick": work.yardstick.name if work.yardstick else "",
        "rows": [_row_result(work, row) for row in rows],
    }


def _row_result(work: Work, row: Row) -> Result:
    syncs = [s["syncs"] / s["units"] for s in row.samples if s.get("syncs") is not None]
    counted = Spread.of(syncs)
    made = Spread.of(s["seconds"] for s in row.samples)
    busy = Spread.of(1e6 * s["cpu_seconds"] / s["units"] for s in row.samples if "cpu_seconds" in s)
    return {
        "name": row.contestant.name,
        "peer": row.contestant.peer,
        "n": row.n,
        "durable": row.contestant.durable,
        "absent": row.absent,
        "samples": len(row.samples),
        "value": _spread(Spread.of(value_of(work.measure, sample) for sample in row.samples)),
        "ratio": _spread(Spread.of(row.ratios)),
        "seconds": _rounded(made.median) if made else None,
        "syncs": _rounded(counted.median) if counted else row.traced_syncs and _rounded(row.traced_syncs),
        "cpu_us": _rounded(busy.median) if busy else None,
        "syncs_by": "shim" if counted else "strace" if row.traced_syncs is not None else "",
        "detail": {key: row.samples[-1][key] for key in DETAILS if row.samples and key in row.samples[-1]},
    }


def _spread(spread: Spread | None) -> list[float] | None:
    return [_rounded(v) for v in (spread.median, spread.low, spread.high)] if spread else None


def _rounded(value: float) -> float:
    """Four significant digits: the fifth is noise."""
    return float(f"{value:.4g}")


def target_results(works: list[Result], targets: tuple[Target, ...]) -> list[Result]:
    """Each target that this contest measured, and what came out."""
    found = []
    for target in targets:
        rows = {row["name"]: row for work in works if work["id"] == target.work for row in work["rows"]}
        row = rows.get(target.contestant)
        if row is None or row["value"] is None:
            continue
        got = _reached(target, row, rows)
        if got is None:
            continue
        kept = (target.least is None or got >= target.least) and (target.most is None or got <= target.most)
        found.append(
            {"work": target.work, "name": target.contestant, "kind": target.kind, "least": target.least,
             "most": target.most, "times": target.times, "got": _rounded(got), "reached": kept}
        )  # fmt: skip
    return found


def _reached(target: Target, row: Result, rows: dict[str, Result]) -> float | None:
    if target.kind == "value":
        return float(row["value"][0])
    if target.kind == "ratio":
        return float(row["ratio"][0]) if row["ratio"] else None
    if target.kind == "syncs":
        return float(row["syncs"]) if row["syncs"] is not None else None
    other = rows.get(target.times)
    if other is not None and other["ratio"] is row["ratio"] is None and None not in (other["value"], row["value"]):
        return float(other["value"][0] / row["value"][0])  # times, without a yardstick: how often it is the quicker
    if other is None or other["ratio"] is None or row["ratio"] is None:
        return None
    return float(row["ratio"][0] / other["ratio"][0])  # both against the yardstick beside them


# -- a result as a page


def render(result: Result) -> str:
    """Everything between the markers."""
    return "\n".join(_lines(result)).rstrip() + "\n"


def _lines(result: Result) -> Iterator[str]:
    machine = result["machine"]
    place = f"{machine['cores']} cores ({machine['cpu']}), {machine['system']}, {machine['filesystem']}"
    means = f"Python {machine['python']}, SQLite {machine['sqlite']}"
    yield f"Measured {result['date']} with KFM {result['kfm']} on {place}, {means}; {result['rounds']} rounds,"
    yield f"load {machine['load']} at the start. Peers: {', '.join(_peers(result)) or 'none'}."
    yield ""
    if result["notices"]:
        yield from (f"- {notice}" for notice in result["notices"])
        yield ""
    yield "### Targets"
    yield ""
    yield "| work | contestant | target | measured | |"
    yield "|---|---|---|---|---|"
    works = {work["id"]: work for work in result["works"]}
    for target in result["targets"]:
        work = works[target["work"]]
        verdict = "reached" if target["reached"] else f"**missed by {_miss(target)}**"
        bound = _bound(target, work)
        yield f"| {work['title']} | {target['name']} | {bound} | {_number(target['got'])} | {verdict} |"
    for work in result["works"]:
        yield ""
        yield f"### {work['title']}"
        yield ""
        yield from _table(work)


def _peers(result: Result) -> Iterator[str]:
    for name, version in sorted(result["peers"].items()):
        yield f"{'DBOS' if name == 'dbos' else name.capitalize()} {version}"


def _table(work: Result) -> Iterator[str]:
    shown = [row for row in work["rows"] if row["value"]]
    ratios = any(row["ratio"] for row in shown)
    syncs = any(row["syncs"] for row in shown) and work["measure"] == "rate"
    busy = any(row["cpu_us"] is not None for row in shown) and work["measure"] == "rate" and work["unit"] != "GiB/s"
    plans = any("plan_steps" in row["detail"] for row in shown)
    written = any("written" in row["detail"] for row in shown)
    durable = any(row["durable"] for row in shown)
    head = ["", work["unit"], "spread"]
    head += [f"{TIMES} {work['yardstick']}", "spread"] if ratios else []
    head += [f"syncs a {work['per']}"] if syncs else []
    head += ["CPU µs"] if busy else []
    head += ["steps planned", "done before"] if plans else []
    head += ["least", "KiB written"] if written else []
    head += ["samples of"] if work["measure"] == "rate" else ["samples"]
    head += ["durable"] if durable else []
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in shown:
        value, ratio = row["value"], row["ratio"]
        cells = [row["name"], _number(value[0]), f"{_number(value[1])}{DASH}{_number(value[2])}"]
        if ratios:
            cells += [_number(ratio[0]), f"{_number(ratio[1])}{DASH}{_number(ratio[2])}"] if ratio else ["", ""]
        if syncs:
            star = "\\*" if row["syncs_by"] == "strace" else ""
            cells.append("" if row["syncs"] is None else _number(row["syncs"]) + star)
        if busy:
            cells.append("" if row["cpu_us"] is None else _number(row["cpu_us"]))
        if plans:
            cells += [_number(row["detail"].get(key, 0)) for key in ("plan_steps", "finished_steps")]
        if written:
            cells += [_number(1000 * row["detail"]["least"]), _number(row["detail"]["written"] / 1024)]
        cells.append(str(row["samples"]) + (f" {TIMES} {_number(row['n'])}" if work["measure"] == "rate" else ""))
        if durable:
            cells.append(row["durable"])
        yield "| " + " | ".join(cells) + " |"
    notes = [work["note"]] if work["note"] else []
    if any(row["syncs_by"] == "strace" for row in shown) and syncs:
        notes.append("\\* counted with strace in a run of its own: the server is linked statically.")
    absent = [f"{row['name']} ({row['absent']})" for row in work["rows"] if row["absent"]]
    if absent:
        notes.append("Absent: " + "; ".join(absent) + ".")
    if notes:
        yield ""
        yield " ".join(notes)


def _bound(target: Result, work: Result) -> str:
    word = "at least" if target["least"] is not None else "at most"
    number = _number(target["least"] if target["least"] is not None else target["most"])
    unit = {
        "ratio": f"{TIMES} {work['yardstick']}",
        "value": work["unit"],
        "syncs": f"syncs a {work['per']}",
        "times": f"{TIMES} {target['times']}",
    }[target["kind"]]
    return f"{word} {number} {unit}"


def _miss(target: Result) -> str:
    bound = target["least"] if target["least"] is not None else target["most"]
    worse = bound / target["got"] if target["least"] is not None else target["got"] / bound
    return f"{_number(worse)}{TIMES}"


def _number(value: float) -> str:
    """Three digits are what the noise leaves: 1,234 and 12.3 and 0.0123."""
    if value == 0:
        return "0"
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.6f}".rstrip("0")


def into_page(page: str, tables: str) -> str:
    """The page with the part between the markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no bench markers")
    return f"{before}{BEGIN}\n\n{tables}\n{END}{after}"
