"""The report about a preview: Markdown for people, JUnit and JSON for machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from kfm.model.canonical import canonical
from kfm.model.reports.preview_findings import DatasetReport, Proposed
from kfm.projections.pages.explanation_pictures import extent_map

MARK = "<!-- kfm preview -->"  # by this KFM finds its own comment again
MOST = 60_000  # characters: GitHub accepts a little more


def markdown(report: Proposed) -> str:
    """Return the comment for a pull request. Text from data or files is set as code, so it cannot act as Markdown."""
    said = "\n".join(_markdown(report)) + "\n"
    if len(said) <= MOST:
        return said
    return said[:MOST].rpartition("\n")[0] + "\n```\n\nThe rest is in `checks.json`.\n"


def _markdown(report: Proposed) -> Iterator[str]:
    yield MARK
    yield f"# Preview of {_code(report.branch)}: {_VERDICT[report.conclusion]}"
    yield ""
    yield f"Commit {_code(report.commit)}, preview {_code(report.preview)}."
    yield ""
    if not report.datasets:
        yield "The branch changes no dataset."
    else:
        yield "| dataset | check | verdict | why |"
        yield "|---|---|---|---|"
    for each in report.datasets:
        for check in each.checks:
            why = "; ".join(check.reasons or check.rules) if not check.passed else ""
            verdict = "yes" if check.passed else "**no**"
            yield f"| {_code(each.dataset)} | {_code(check.name)} | {verdict} | {_code(why) if why else ''} |"
    for name in report.removed:
        yield f"\n{_code(name)} is not declared any more; what is published of it stays until it is withdrawn."
    if report.notes:
        yield (
            "\nThe branch also changes " + ", ".join(map(_code, report.notes)) + "; this preview is judged without it."
        )
    for each in report.datasets:
        yield from _dataset(each)
    yield ""
    yield "## To promote it"
    yield ""
    yield "Once it is merged, exactly these digests are promoted, or nothing is:"
    yield ""
    yield from _fenced([f"kfm preview publish {report.branch} --approved {report.preview}"])


def _dataset(each: DatasetReport) -> Iterator[str]:
    yield f"\n## {_code(each.dataset)}"
    yield ""
    yield f"- version {_code(each.version or 'none')}, after {_code(each.base or 'nothing')}"
    yield f"- public now: {_code(each.published or 'nothing')}"
    if each.counts:
        yield "- " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in each.counts.items())
    back = f"to {_code(each.published)}: `kfm rollback {each.dataset} --reason …`"
    gone = f"to nothing: `kfm rollback {each.dataset} --to nothing --reason …`"
    yield f"- a rollback would take it back {back if each.published else gone}"
    yield from _section("Declaration", each.settings)
    if each.why_hidden:
        yield f"\nKeys and values are not shown: {each.why_hidden}."
    more = [f"and {each.more_keys} more"] if each.more_keys else []
    yield from _section("Data", [*each.keys, *more])
    yield from _section("Lines", each.lines, "diff")
    yield from _section("Catalog", each.catalog)
    if each.bbox:
        yield from _section("Extent", [_geojson(each.bbox)], "geojson")
    evidence = [f"run {each.run_id}", f"updater {each.updater_version}", *(f"read {one}" for one in each.inputs)]
    yield from _section("Evidence", evidence)


_VERDICT = {"success": "every gate says yes", "failure": "a gate says no", "neutral": "nothing to judge"}


def _section(title: str, lines: Iterable[str], kind: str = "text") -> Iterator[str]:
    told = list(lines)
    if told:
        yield f"\n### {title}\n"
        yield from _fenced(told, kind)


def _fenced(lines: Iterable[str], kind: str = "text") -> Iterator[str]:
    told = [_visible(line) for line in lines]
    longest = max((len(run) for line in told for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence + kind
    yield from told
    yield fence


def _code(text: str) -> str:
    """Return a text as inline code."""
    return "`" + _visible(text).replace("`", "'").replace("|", "¦") + "`"


def _visible(text: str) -> str:
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text)


def _geojson(box: tuple[float, ...]) -> str:
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return canonical({"type": "Polygon", "coordinates": [ring]}).decode()


def picture(each: DatasetReport) -> str:
    return extent_map(each.bbox, f"Where {each.dataset} is")


def junit(report: Proposed) -> str:
    """Return a JUnit file: one suite per dataset, one case per check."""
    failures = sum(not check.passed for each in report.datasets for check in each.checks)
    tests = sum(len(each.checks) for each in report.datasets)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="kfm" tests="{tests}" failures="{failures}">',
    ]
    for each in report.datasets:
        failed = sum(not check.passed for check in each.checks)
        suite = f'tests="{len(each.checks)}" failures="{failed}" errors="0" skipped="0"'
        lines.append(f"<testsuite name={quoteattr(_visible(each.dataset))} {suite}>")
        for check in each.checks:
            case = f"<testcase classname={quoteattr(_visible(each.dataset))} name={quoteattr(_visible(check.name))}"
            if check.passed:
                lines.append(case + "/>")
                continue
            message = quoteattr(_visible("; ".join(check.rules)))
            text = escape(_visible("; ".join(check.reasons)))
            lines.append(f"{case}><failure message={message}>{text}</failure></testcase>")
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])
