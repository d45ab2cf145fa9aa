"""A protected table in other machine forms, from the command line: as a declared source, and made by author's code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import MASK, SAFE, dataset, installation
from tests.masking import forms
from tests.masking.notation_forms import Files, table
from tests.masking.test_forms import PUBLIC
from tests.sampling import sampled

ROWS = table()
SITES = "trinomial,kind,found,lat,lon,note\n" + "".join(
    f'{row.id},{row.kind},1950-06-01,{row.lat},{row.lng},"{row.notes}"\n' for row in ROWS
)
CODE = """
import json
from kfm import Output, Plan, Step, Updater

class Given(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin(name) for name in NAMES]

    def plan(self, inputs):
        return Plan([Step(id=f"file-{n}", key=(str(n),), params={"n": n}) for n in range(COUNT)], complete=True)

    def perform(self, step, read):
        return Output(body=BODY(read, step.params["n"]), media_type="application/octet-stream")
"""


@pytest.fixture
def known(site: Kfm) -> Kfm:
    """An installation that knows the protected table."""
    Path("sites.csv").write_text(SITES)
    Path("mask.yml").write_text(MASK)
    assert site("run", "sites").code == 0
    return site


COLUMNS = ", contract: {columns: [{name: id}]}"  # the least that a gate accepts


def declared(name: str, files: Files, kind: str = "") -> None:
    """Each file is a source; the dataset publishes its bytes as they are."""
    sources = ""
    for n, (path, body) in enumerate(files.items()):
        Path(f"{n}-{path}").write_bytes(body)
        sources += f"      s{n}: {{uri: {n}-{path}{kind}}}\n"
    code = CODE.replace("NAMES", repr([f"s{n}" for n in range(len(files))])).replace("COUNT", str(len(files)))
    _write(name, code.replace("BODY(read, step.params", "read.bytes((step.params").replace('n"])', 'n"]))'), sources)


def authored(name: str, files: Files) -> None:
    """The author's code makes the bytes from nothing that is protected."""
    Path("seed.csv").write_text("a,b\n1,2\n")
    bodies = json.dumps([body.hex() for body in files.values()])
    code = CODE.replace("NAMES", "['s0']").replace("COUNT", str(len(files)))
    code = code.replace("BODY(read, step.params", "bytes.fromhex((json.loads(BODIES)[step.params").replace(
        'n"])', 'n"]]))'
    )
    _write(name, code + f"\nBODIES = {bodies!r}\n", "      s0: {uri: seed.csv}\n")


def _write(name: str, code: str, sources: str) -> None:
    installation(dataset("sites", "sites.csv", mask=True))
    Path("sites.csv").write_text(SITES)
    Path(f"{name}_code.py").write_text(code)
    with Path("kfm.yml").open("a") as file:
        file.write(
            f"  {name}:\n    updater: {name}_code.py:Given\n    title: parks\n    license: CC0-1.0\n"
            f"    sensitivity: public\n    sources:\n{sources}"
        )


PATHS = {"declared": declared, "authored": authored}


def outcome(site: Kfm, name: str) -> str:
    """Run and promote a dataset, and return what became of it."""
    ran = site("run", name)
    shown = ran.err
    if ran.code == 0:
        promoted = by_order(site, SAFE, "promote", name)
        shown = promoted.err
        if promoted.code == 0 and Path("public/datasets", name).exists():
            return "published"
        if promoted.code == 4 and "is pending review" in shown:
            return "pending review"
    assert "gate." in shown, shown
    assert not Path("public/datasets", name).exists()
    assert not any(row.lat in shown or row.id in shown for row in ROWS)
    return "denied"


def groups(names: list[str], size: int) -> list[list[str]]:
    """Groups that each go over all kinds of forms."""
    count = -(-len(names) // size)
    return [names[at::count] for at in range(count)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("names", sampled(groups(list(forms.DENIED), 6)), ids=lambda names: names[0])
def test_a_table_in_another_form_is_not_published(known: Kfm, names: list[str], path: str) -> None:
    for n, name in enumerate(names):
        PATHS[path](f"parks{n}", forms.DENIED[name](ROWS))
        assert outcome(known, f"parks{n}") == "denied", name


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("names", sampled(groups(list(forms.PENDING), 2)), ids=lambda names: names[0])
def test_a_form_that_cannot_be_read_is_pending_review(known: Kfm, names: list[str], path: str) -> None:
    for n, name in enumerate(names):
        PATHS[path](f"parks{n}", forms.PENDING[name](ROWS))
        assert outcome(known, f"parks{n}") == "pending review", name
        assert "gate.unreadable" in str(known("review", "list", "--json").data)


@pytest.mark.parametrize("names", sampled(groups([path.name for path in PUBLIC], 4)), ids=lambda names: names[0])
def test_a_public_table_is_published_next_to_it(known: Kfm, names: list[str]) -> None:
    bodies = {path.name: path.read_bytes() for path in PUBLIC}
    for n, name in enumerate(names):
        declared(f"parks{n}", {name: bodies[name]}, f", format: {Path(name).suffix[1:]}{COLUMNS}")
        assert outcome(known, f"parks{n}") == "published", name
