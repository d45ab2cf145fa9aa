"""An installation with a protected table, and the command line called in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.app.governance.people import make_list
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.kept import once

SAFE = Path("../kept-by-people")  # where private keys are
KEY = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
IDS = [f"14QX{100 + n}" for n in range(12)]
POINTS = [(f"{37.1 + n * 0.2173:.6f}", f"{-101.3 + n * 0.5119:.6f}") for n in range(12)]
NOTES = [f"beneath the lone cottonwood {n}" for n in range(12)]
CODES = ["village", "camp", "mound"]

UPDATERS = """
from kfm import Output, Plan, Step, Updater


class Copy(Updater):
    version = "1.0.0"
    names = ("sites",)

    def inputs(self, trigger, sources):
        return [sources.pin(name) for name in self.names]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))], complete=True)

    def perform(self, step, read):
        return Output(body=read.bytes(0), media_type="text/csv")


class ByKind(Copy):
    def plan(self, inputs):
        return Plan([Step(id=f"kind-{p}", key=(p,), params={"kind": p}) for p in inputs[0].partitions], complete=True)

    def perform(self, step, read):
        return Output.csv(row for row in read.csv(0) if row["kind"] == step.params["kind"])
"""

MASK = """
id: sites
version: "1"
namespace: state-sites
record_id: trinomial
resolution: 6
location:
  latitude: lat
  longitude: lon
  accuracy: {all: {name: point, metres: 10}}
columns:
  kind: {kind: code, values: [village, camp, mound]}
  found: {kind: date, to: decade}
"""


def table() -> str:
    rows = ["trinomial,kind,found,lat,lon,note"]
    rows += [
        f"{site},{CODES[n % 3]},19{50 + n}-06-0{1 + n % 9},{lat},{lon},{note}"
        for n, (site, (lat, lon), note) in enumerate(zip(IDS, POINTS, NOTES, strict=True))
    ]
    return "\n".join(rows) + "\n"


SECRETS = [*IDS, *(coordinate for point in POINTS for coordinate in point), "cottonwood"]


def label(of: str, sensitivity: str = "generalised", **more: Any) -> str:
    said = {"sensitivity": sensitivity, "care": "open", "custodian": "office", "public_resolution": 6, **more}
    fields = ", ".join(f"{name}: {value}" for name, value in said.items() if value is not None)
    return f"  - {{of: {{{of}}}, {fields}}}\n"


def labels(*written: str) -> None:
    Path("labels.yml").write_text("version: 1\nlabels:\n" + "".join(written) if written else "version: 1\n")


CONTRACT = "        contract: {columns: [{name: site}]}\n"  # the least that a gate accepts


def dataset(name: str, uri: str, *, updater: str = "Copy", mask: bool = False, more: str = "", **said: str) -> str:
    said = {"title": name, "license": "CC0-1.0", **said}
    fields = "".join(f"    {field}: {value}\n" for field, value in said.items() if value)
    kept = "" if "contract:" in more else CONTRACT
    return (
        f"  {name}:\n    updater: updaters.py:{updater}\n{fields}    sources:\n      sites:\n"
        f"        uri: {uri}\n        format: csv\n" + kept + ("        mask: mask.yml\n" if mask else "") + more
    )


def installation(*datasets: str, custodians: bool = True) -> None:
    Path("kfm.yml").write_text(
        "labels: labels.yml\n"
        + ("custodians:\n  office: {key: 'env:KFM_SECRET_OFFICE'}\n" if custodians else "")
        + "datasets:\n"
        + "".join(datasets)
    )
    Path("updaters.py").write_text(UPDATERS)
    Path("mask.yml").write_text(MASK)
    Path("sites.csv").write_text(table())


@pytest.fixture
def site(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:  # noqa: F811
    """The protected table as a dataset that leaves through masking."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    installation(dataset("sites", "sites.csv", mask=True))
    labels(label("dataset: sites"), label("source: sites.csv"))
    once("office", [Path(), SAFE], lambda: make_list(kfm, SAFE, "office"))
    return kfm


OURS = {"sites.csv", "copy.csv", "labels.yml", "mask.yml", "kfm.yml", "updaters.py"}


def every_byte() -> dict[str, bytes]:
    """All that the product wrote, with the names of the files."""
    found = [path for path in sorted(Path().rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): path.read_bytes() for path in found if str(path) not in OURS}


def hits(secrets: list[str] = SECRETS) -> list[str]:
    """In which files something protected can be read, as UTF-8 or UTF-16, in any letters."""
    out = []
    for name, body in every_byte().items():
        plain = body.lower() + name.lower().encode()
        for secret in secrets:
            forms = [secret.lower().encode(), secret.lower().encode("utf-16-le")]
            if any(form in plain for form in forms):
                out.append(f"{name}: {secret}")
    return out
