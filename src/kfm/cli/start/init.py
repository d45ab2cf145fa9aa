"""kfm init: write a small installation that runs as it is."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from kfm import config
from kfm.app.metadata.schema_store import LACKING, is_installed
from kfm.cli.render import Screen
from kfm.cli.start import init_templates as templates
from kfm.errors import BadInput

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser


CONFIG = """\
# yaml-language-server: $schema=kfm.schema.json
# An installation of kfm; paths start at this folder. `kfm config show --resolved` tells every setting.
kfm: 1

# Where runs, refs and receipts are kept. Other kinds: jsonl:PATH, memory
state: sqlite:.kfm/state.db

# Where the bytes of every version are kept, by digest.
objects: file:.kfm/objects

# Where what is published is written as files. `noop` writes nothing.
publish: file:public

# Where what is published is described, for whoever looks for data: STAC, DCAT and lineage, as files.
catalog: file:catalog

# What may be reached beyond public addresses on ports 80 and 443, e.g. ["127.0.0.1:8931"].
network:
  allow: []

# The share of its keys a dataset may lose in one run before someone has to look.
deletion_budget: 0.1

datasets:
  rain-gauges:
    updater: updaters/rain_gauges.py:RainGauges

    # `kfm publish` asks for these: nothing is published without them.
    title: Rain gauges
    description: Monthly rain at three gauges, in millimetres. Invented, to have something to run.
    license: CC0-1.0
    sensitivity: public
    attribution: Nobody; the numbers are made up
    extent:
      bbox: [-102.05, 36.99, -94.59, 40.0]
      interval: ["2025-11-01T00:00:00Z", null]

    sources:
      gauges:
        uri: data/rain_gauges.csv       # or https://…; the bytes are hashed on the way in
        format: csv
        complete: true                  # the file is everything: what it lacks may be deleted
        contract:                       # what does not fit is quarantined, with the reason
          partition_by: county          # its distinct values are told to plan()
          columns:
            - {name: gauge, required: true}
            - {name: county, required: true}
            - {name: month, type: text, pattern: '\\d{4}-\\d{2}'}
            - {name: rain_mm, type: number, minimum: 0, mode: discard-row}
"""
UPDATER = '''\
"""An updater is three methods: what to read, what to do with it, and doing one step of it."""

from __future__ import annotations

from kfm import Output, Plan, SourceRef, Step, Updater


class RainGauges(Updater):
    id = "rain-gauges"
    version = "1.0.0"  # change it whenever plan() or perform() would answer differently
    dataset = "kfm://dataset/rain-gauges"

    def inputs(self, trigger, sources) -> list[SourceRef]:
        """Pin what will be read. `gauges` is the name in kfm.yml."""
        return [sources.pin("gauges")]

    def plan(self, inputs) -> Plan:
        """One step for each county. Pure: no clock, files, network, randomness or environment in here."""
        return Plan(
            steps=[Step(id=f"county-{name}", key=(name,), params={"county": name}) for name in inputs[0].partitions],
            complete=True,
        )

    def perform(self, step, read) -> Output:
        """The rows of one county. May be called again for the same step, and must then give the same."""
        rows = [row for row in read.csv("gauges") if row["county"] == step.params["county"]]
        return Output.csv(sorted(rows, key=lambda row: (row["gauge"], row["month"])))
'''
DATA = """\
gauge,county,month,rain_mm
dodge-city,ford,2025-11,22.4
dodge-city,ford,2025-12,9.8
dodge-city,ford,2026-01,14.2
dodge-city,ford,2026-02,18.9
hays,ellis,2025-11,19.1
hays,ellis,2025-12,11.3
hays,ellis,2026-01,12.7
hays,ellis,2026-02,-1
manhattan,riley,2025-11,41.2
manhattan,riley,2025-12,24.9
manhattan,riley,2026-01,21.6
manhattan,riley,2026-02,27.3
"""
_CATALOG = "catalog: file:catalog\n"
FILES = {"kfm.yml": CONFIG, "updaters/rain_gauges.py": UPDATER, "data/rain_gauges.csv": DATA}  # for the first template
TEMPLATES = ("python", "csv", "geojson", "stac")


def arguments(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where (default: here)")
    parser.add_argument(
        "--template",
        choices=TEMPLATES,
        metavar="KIND",
        help="python (an updater), csv, geojson or stac (declared, without code); at a terminal KFM asks",
    )
    parser.set_defaults(handler=init, reports=True)


def head() -> str:
    """Return the settings above `datasets` that a new kfm.yml has. Without a validator no catalog is declared, because
    the catalog gate would then refuse every publication."""
    found = CONFIG.partition("datasets:\n")[0]
    if is_installed():
        return found
    without = f"# It is checked before anything is published: {LACKING}, then take the # away.\n# {_CATALOG}"
    return found.replace(_CATALOG, without)


def files(template: str = "python") -> dict[str, str]:
    """Return the files to write, by path."""
    _, mark, declared = CONFIG.partition("datasets:\n")
    written = {
        "python": (mark + declared, {name: text for name, text in FILES.items() if name != "kfm.yml"}),
        "csv": (templates.CSV, {"data/rain_gauges.csv": DATA}),
        "geojson": (templates.GEOJSON, {"data/wells.geojson": templates.GEOJSON_DATA}),
        "stac": (templates.STAC, {"data/scene.json": templates.STAC_DATA}),
    }
    body, others = written[template]
    return {"kfm.yml": head() + body, **others}


def around(folder: str, template: str) -> dict[str, str]:
    """Return the files around an installation, such as .gitignore. They are left out if they exist, because the folder
    may be a repository already."""
    import json
    import shutil
    import sys

    dataset = {"geojson": "wells", "stac": "scenes"}.get(template, "rain-gauges")
    command = shutil.which("kfm") or f"{sys.executable} -m kfm"
    at = os.path.abspath(os.path.join(folder, "kfm.yml"))
    found = {
        ".gitignore": templates.IGNORED,
        "README.md": templates.README.format(dataset=dataset, command=command, config=at),
        "kfm.schema.json": json.dumps(config.json_schema(), indent=1) + "\n",
        f"tests/test_{dataset.replace('-', '_')}.py": templates.TEST.format(dataset=dataset),
    }
    return {name: text for name, text in found.items() if not os.path.lexists(os.path.join(folder, name))}


def asked(options: argparse.Namespace, screen: Screen) -> str:
    """Return the template that was named. If none was, ask the user on a terminal, and use `python` elsewhere."""
    import sys

    if options.template or screen.json or screen.quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return options.template or TEMPLATES[0]
    screen.say(f"what do you have? {', '.join(TEMPLATES)} (empty: {TEMPLATES[0]})")
    answer = sys.stdin.readline().strip() or TEMPLATES[0]
    if answer not in TEMPLATES:
        raise BadInput("there is no such template", hint=f"nothing was written; there are {', '.join(TEMPLATES)}")
    return answer


def init(options: argparse.Namespace, screen: Screen) -> int:
    folder = options.folder
    if not folder or not folder.isprintable():
        raise BadInput("the folder's name is empty or holds a control character", hint="use a plain path")
    template = asked(options, screen)
    written = write_all(folder, {**files(template), **around(folder, template)})
    if screen.json:
        screen.data({"written": written})
        return 0
    for path in written:
        screen.line(path)
    into = "" if folder == "." else f"cd {folder}, then "
    screen.say(f"next: {into}`kfm run --dry-run` to look, `kfm run` to do it")
    return 0


def write_all(folder: str, files: dict[str, str], beside: tuple[str, ...] = ("kfm.yaml", "kfm.json")) -> list[str]:
    """Write all files or none: raise before anything is written if one of them exists."""
    if not folder or not folder.isprintable():
        raise BadInput("the folder's name is empty or holds a control character", hint="use a plain path")
    targets = {os.path.join(folder, name): text for name, text in files.items()}
    for path in (*targets, *(os.path.join(folder, name) for name in beside)):
        if os.path.lexists(path):
            raise BadInput(
                f"{path} is there already", hint=f"nothing was written; choose another {'folder' if beside else 'name'}"
            )
    made: list[str] = []
    folders: list[str] = []
    try:
        for path, text in targets.items():
            _make_folders(os.path.dirname(path), folders)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            made.append(path)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
    except BaseException as problem:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                os.unlink(path)
        for path in reversed(folders):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        if isinstance(problem, OSError):
            reason = (problem.strerror or "").lower()
            raise BadInput(f"{folder} cannot be written: {reason}", hint="nothing was written") from None
        raise
    return list(targets)


def _make_folders(path: str, made: list[str]) -> None:
    if not path or os.path.isdir(path):
        return
    _make_folders(os.path.dirname(path), made)
    if os.path.isdir(path):  # a/b/.. exists as soon as a/b does
        return
    os.mkdir(path)
    made.append(path)
