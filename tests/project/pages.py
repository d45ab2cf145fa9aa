"""The check behind `make docs`: every relative link leads to something, and generated files are current.

Prints one `path:line: what` for each finding and exits 1 if there are any. Nothing is fetched: a link
with a scheme is somebody else's promise. With `--write` (`make schemas`) it writes the generated files.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from kfm.model import labels
from kfm.policy.policy_bundle import policies
from kfm.policy.rego_engines import KEPT, compiled
from kfm.projections import openlineage, stac_governance
from kfm.projections.vocabulary import GOVERNANCE, SCHEMAS
from tests.project import node_files, promises, reference, spdx, specs
from tests.project.bans import ROOT, Finding, repository_files

_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'(][^)]*)?\)")
_REFERENCE = re.compile(r"\s{0,3}\[[^\]^]+\]:\s+<?([^\s>]+)>?")
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ANCHOR = re.compile(r"""<a\s+(?:id|name)=["']([^"']+)["']""")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a page that are not inside a fenced block."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark.group(1)
        else:
            yield number, line


def anchors(text: str) -> set[str]:
    """The fragments a page answers to, as GitHub derives them from its headings."""
    found: set[str] = set()
    for _, line in prose(text):
        found.update(_ANCHOR.findall(line))
        if heading := _HEADING.match(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            unique, n = slug, 0
            while unique in found:
                n += 1
                unique = f"{slug}-{n}"
            found.add(unique)
    return found


def links(text: str) -> Iterator[tuple[int, str]]:
    for number, line in prose(text):
        bare = re.sub(r"(`+)(?:(?!\1).)+\1", "", line)
        for target in _LINK.findall(bare):
            yield number, target
        if reference := _REFERENCE.match(bare):
            yield number, reference.group(1)


def check_page(root: Path, name: str) -> Iterator[Finding]:
    page = root / name
    text = page.read_text(encoding="utf-8")
    for number, target in links(text):
        if _SCHEME.match(target) or target.startswith("//"):
            continue
        path, _, fragment = unquote(target).partition("#")
        there = (root / path.lstrip("/") if path.startswith("/") else page.parent / path).resolve() if path else page
        if not there.is_relative_to(root.resolve()):
            yield Finding(name, number, f"{target}: leaves the repository")
        elif not there.exists():
            yield Finding(name, number, f"{target}: there is no such file")
        elif fragment and there.suffix == ".md" and fragment not in anchors(there.read_text(encoding="utf-8")):
            yield Finding(name, number, f"{target}: there is no such heading")


def check_pages(root: Path = ROOT) -> tuple[int, list[Finding]]:
    """How many pages were read, and what is wrong in them."""
    pages = [name for name in repository_files(root) if name.endswith(".md")]
    return len(pages), [finding for name in pages for finding in check_page(root, name)]


def generated() -> dict[str, str]:
    """Every generated file by its path in the repository, as the code of today makes it."""
    schemas = {f"schemas/{name}.json": _kfm("config", "schema", name) for name in _kfm("config", "schema").split()}
    tables = specs.pages() | {"docs/promises.md": promises.current(), spdx.PATH: spdx.module()}
    shared = {f"{WEB}/canonical_form.js": (ROOT / "node" / "canonical_form.mjs").read_text(encoding="utf-8")}
    return schemas | _published() | reference.pages() | node_files.files() | _policies() | tables | shared


def _published() -> dict[str, str]:
    """The schemas of our own extension of STAC, with examples, and of our facets of OpenLineage."""
    own = {GOVERNANCE: stac_governance.schema(), **openlineage.schemas()}
    own |= {
        GOVERNANCE.replace("schema.json", f"examples/{name}.json"): example
        for name, example in stac_governance.examples().items()
    }
    return {
        "schemas/" + address.removeprefix(SCHEMAS): json.dumps(body, indent=2, ensure_ascii=False) + "\n"
        for address, body in own.items()
    }


WEB = "src/kfm/api/console/web"  # modules of the console; one of them the Node runner has, too
POLICIES = "src/kfm/policy/rego"  # what is installed: the policies without their tests


def _policies() -> dict[str, str]:
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "policies").glob("*.rego")}
    found["words.rego"] = _words()
    installed = {f"{POLICIES}/{name}": text for name, text in found.items() if not name.endswith("_test.rego")}
    return installed | {"policies/words.rego": found["words.rego"]} | _programs(installed)


def _programs(installed: dict[str, str]) -> dict[str, str]:
    """The gates that runs ask, compiled: a run need not do it again."""
    files = policies({path.rpartition("/")[2]: text for path, text in installed.items()})
    return {f"src/kfm/policy/compiled/{gate}.txt": compiled(files, gate) for gate in KEPT}


def _words() -> str:
    """The words of labels, for the policies."""
    ranks = ", ".join(f'"{level}": {rank}' for rank, level in enumerate(labels.LEVELS))
    usable = ", ".join(f'"{level}"' for level in labels.USABLE)
    return f"""# Made by `make schemas` from src/kfm/contract/labels.py, the one place where these words are written.
package kfm.words

# How closed each is.
rank := {{{ranks}}}

usable := {{{usable}}}
"""


def _kfm(*arguments: str) -> str:
    command = [sys.executable, "-m", "kfm.cli.main", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


WRITTEN_BY_HAND = {"docs/reference/transforms.md"}  # among the generated ones, because people look for it there


def check_generated(root: Path, current: dict[str, str]) -> list[Finding]:
    """Generated files that are absent, old, or of something that is gone."""
    stale = "not what the code makes today; run `make schemas`"
    folders = ("schemas", "docs/reference", node_files.FOLDER, POLICIES)
    there = {
        path.relative_to(root).as_posix() for folder in folders for path in (root / folder).rglob("*") if path.is_file()
    }
    there |= {name for name in current if (root / name).is_file()}
    there -= WRITTEN_BY_HAND
    return [
        Finding(name, 1, stale)
        for name in sorted(there | set(current))
        if name not in there or (root / name).read_text(encoding="utf-8") != current.get(name)
    ]


def write_generated(root: Path, current: dict[str, str]) -> None:
    for finding in check_generated(root, current):
        path = root / finding.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if finding.path in current:
            path.write_text(current[finding.path], encoding="utf-8")
        else:
            path.unlink()


def main(arguments: list[str]) -> int:
    current = generated()
    if arguments == ["--write"]:
        write_generated(ROOT, current)
        return 0
    pages, findings = check_pages()
    findings += check_generated(ROOT, current)
    for finding in findings:
        print(finding)
    print(f"Pages: {pages} read, {len(current)} generated files compared, {len(findings)} findings.")
    return 1 if findings or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
