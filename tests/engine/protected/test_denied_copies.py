"""A protected table comes back in another form and is denied: no byte of it can be read in the installation.

Every file that KFM wrote is searched: the state, its log and its free pages, objects, artifacts, temporary files, and
the terminal. The places are searched as they are written in many ways, packed and encoded.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.app.previews.test_killed_anywhere import DYING
from tests.cli.conftest import Kfm
from tests.engine.protected.test_forms import PATHS, ROWS, _write, authored, known  # noqa: F401
from tests.masking import forms
from tests.masking.canaries import Canary, encodings, hits
from tests.masking.notation_forms import Files

CANARIES = [Canary(float(row.lat), float(row.lng), row.id) for row in ROWS]
NOTES = [row.notes.encode() for row in ROWS]
GIVEN = ("sites.csv", "labels.yml", "mask.yml", "kfm.yml", "updaters.py", "seed.csv")


def written(*terminal: str) -> dict[str, bytes]:
    """Every file that KFM wrote, with all names, and the terminal."""
    found = {
        str(path): path.read_bytes()
        for path in sorted(Path().rglob("*"))
        if path.is_file() and not _is_given(path) and "__pycache__" not in path.parts
    }
    return {**found, "names": "\n".join(found).encode(), "terminal": "\n".join(terminal).encode()}


def _is_given(path: Path) -> bool:
    return str(path) in GIVEN or path.name.endswith("_code.py") or (len(path.parts) == 1 and path.name[0].isdigit())


def readable(*terminal: str, copies: Iterable[bytes] = ()) -> dict[str, set[str]]:
    """The files in which something protected can be read, and how it is written: in one of 116 encodings, or as a
    passage of one of these copies, whatever its format."""
    found: dict[str, set[str]] = {}
    parts = [body[at : at + 48] for body in copies for at in range(0, len(body) - 48, max(48, len(body) // 8))]
    passages = {part for part in parts if len(set(part)) > 12}  # not of zeros, as between the members of an archive
    for name, body in written(*terminal).items():
        ways = {way for _, way in hits(body, CANARIES, encodings)} | {"note" for note in NOTES if note in body}
        ways |= {"copy" for passage in passages if passage in body}
        if ways:
            found[name] = ways
    return found


def test_each_of_the_encodings_would_be_found() -> None:
    ways = encodings(CANARIES[5])
    assert len(ways) >= 114
    for way, written_as in ways.items():
        body = b" | ".join([b"abc", *written_as, b"xyz"])
        assert (5, way) in hits(body, CANARIES[:10], encodings), way


NAMED = ("parquet uncompressed", "geopackage", "zip", "bz2", "xz", "two files")  # the trials left these readable
OTHERS = sorted(name for name in forms.DENIED if name not in NAMED)
GROUPS = [list(NAMED), *(OTHERS[at::16] for at in range(16))]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("names", [GROUPS[0], *(pytest.param(one, marks=pytest.mark.long) for one in GROUPS[1:])])
def test_a_denied_copy_cannot_be_read_in_the_store(known: Kfm, names: list[str], path: str) -> None:  # noqa: F811
    said, copies = "", []
    for n, name in enumerate(names):
        files = forms.DENIED[name](ROWS)
        PATHS[path](f"parks{n}", files)
        copies += files.values()
        ran = known("run", f"parks{n}", "--artifacts", "artifacts")
        assert ran.code == 4 and "gate." in ran.err, name
        said += ran.out + ran.err
    assert readable(said, copies=copies) == {}


KILLED = """
import hashlib
import os

given = Given.perform

def perform(self, step, read):
    if step.params["n"] == COUNT - 1 and os.path.exists("kill"):
        os._exit(9)
    return given(self, step, read)

Given.perform = perform
"""


def killed(name: str, files: Files) -> str:
    """An author's code dies before its last step, with the others done."""
    authored(name, files)
    code = Path(f"{name}_code.py")
    code.write_text(code.read_text() + KILLED.replace("COUNT", str(len(files))))
    Path("kill").touch()
    done = subprocess.run(
        [sys.executable, "-m", "kfm", "run", name], env=dict(os.environ), capture_output=True, text=True, check=False
    )
    Path("kill").unlink()
    assert done.returncode == 9, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["a file for each row", *(pytest.param(name, marks=pytest.mark.long) for name in NAMED)]
)
def test_nothing_can_be_read_after_a_kill_and_a_resume_that_is_denied(known: Kfm, name: str) -> None:  # noqa: F811
    files = forms.DENIED[name](ROWS)
    said = killed("parks", {**files, "last": b"the last step"})
    assert any(b"parks" in body for name, body in written().items() if name.startswith(".kfm/state"))
    assert readable(said) == {}
    resumed = known("resume")
    assert resumed.code == 4 and "gate." in resumed.err
    again = known("run", "parks")
    assert again.code == 4
    looked = [known(*words) for words in (("runs", "list"), ("doctor", "--deep"), ("runs", "show", "last"))]
    assert [one.code for one in looked] == [0, 0, 0]
    assert readable(said, resumed.err, again.err, *(one.out + one.err for one in looked)) == {}


RADIANS = """
import math
from kfm import Output, Plan, Step, Updater

class Given(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("s0")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))], complete=True)

    def perform(self, step, read):
        rows = [[math.degrees(float(row["a"])), math.degrees(float(row["b"]))] for row in read.csv(0)]
        return Output(body=str(rows).encode(), media_type="text/plain")
"""
CONTRACT = """
      s0:
        uri: 0-a.csv
        format: csv
        contract:
          max_held_share: 1
          columns: [{name: a, type: number, maximum: 0.685, mode: discard-row}, {name: b, type: number}]
"""


def test_the_source_of_a_denied_output_cannot_be_read_either(known: Kfm) -> None:  # noqa: F811
    """The leak check does not recognise radians in the source, but degrees in the output."""
    (body,) = forms.MISSED["radians"](ROWS).values()
    Path("0-a.csv").write_bytes(body)
    _write("parks", RADIANS, CONTRACT)
    ran = known("run", "parks")
    assert ran.code == 4 and "gate." in ran.err
    numbers = [line.partition(b",")[0] for line in body.splitlines()[1:]]
    assert [name for name, body in written(ran.err).items() if any(one in body for one in numbers)] == []
    shown = known("quarantine", "parks", "--rows")
    assert any(one.decode() in shown.out for one in numbers)  # the custodian's key is here
    again = known("run", "parks")
    assert again.code == 4 and "gate." in again.err


def test_a_plan_that_names_protected_sites_is_denied_before_it_is_stored(known: Kfm) -> None:  # noqa: F811
    authored("parks", {"a": b"1"})
    code = Path("parks_code.py")
    step = f'Step(id="{ROWS[0].id}", key=("{ROWS[1].id}",), params={{"n": 0}})'
    code.write_text(code.read_text().replace('Step(id=f"file-{n}", key=(str(n),), params={"n": n})', step))
    ran = known("run", "parks")
    assert ran.code == 4 and "in the plan of parks" in ran.err
    assert readable(ran.err) == {}


def test_a_run_that_passes_leaves_no_encrypted_copy_behind(known: Kfm) -> None:  # noqa: F811
    before = _encrypted()
    authored("parks", {"small": b"a,b\n1,2\n", "large": b"towns and counties\n" * 10_000})
    ran = known("run", "parks")
    assert ran.code == 0, ran.err
    assert _encrypted() == before
    assert "towns and counties" in known("cat", "processed/parks", "1").out
    Path("seed.csv").touch()
    assert "noop" in known("run", "parks").out and _encrypted() == before
    assert known("doctor", "--deep").code == 0


def _encrypted() -> tuple[int, int]:
    """The number of encrypted objects, as files and as rows."""
    with sqlite3.connect(f"file:{Path('.kfm/state.db').resolve()}?mode=ro", uri=True) as state:
        (rows,) = state.execute("SELECT count(*) FROM objects WHERE substr(value, 1, 7) = x'4b464d5345414c'").fetchone()
        (waiting,) = state.execute("SELECT count(*) FROM standings WHERE key LIKE 'unjudged/%'").fetchone()
    files = [path for path in Path(".kfm/objects").rglob("*") if path.is_file()]
    return rows + waiting, sum(path.read_bytes().startswith(b"KFMSEAL") for path in files)


def test_an_error_of_author_code_does_not_quote_a_protected_row(known: Kfm) -> None:  # noqa: F811
    for n, text in enumerate((f"bad row {ROWS[0].lat},{ROWS[0].lng}", "bad row 7")):
        authored(f"parks{n}", {"a": b"1"})
        code = Path(f"parks{n}_code.py")
        code.write_text(
            code.read_text().replace("        return Output(", f"        raise ValueError({text!r})\n        Output(")
        )
        ran = known("run", f"parks{n}")
        assert ran.code == 1 and "ValueError" in ran.err
        assert readable(ran.out + ran.err) == {}
    assert "bad row 7" in ran.err


@pytest.mark.long
def test_a_journal_of_lines_shows_nothing_of_a_denied_copy(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_STATE", "jsonl:.kfm/state.jsonl")
    known = request.getfixturevalue("known")  # noqa: F811
    files = forms.DENIED["two files"](ROWS)
    authored("parks", files)
    ran = known("run", "parks")
    assert ran.code == 4 and "gate." in ran.err and Path(".kfm/state.jsonl").stat().st_size > 10_000
    # A row of a journal is base64 at any offset, and the search opens that.
    assert readable(ran.out + ran.err, copies=files.values()) == {}


def dies(at: int, *words: str) -> str | None:
    """Kill a command before or after its transaction of this number; return what it had printed, None if it ended."""
    done = subprocess.run(
        [sys.executable, "-c", DYING, *words],
        env={**os.environ, "DIE_AT": str(at)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode == -signal.SIGKILL else None


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_a_run_that_is_denied_can_be_killed_anywhere(known: Kfm, part: int) -> None:  # noqa: F811
    files = forms.DENIED["a file for each row"](ROWS)
    killed = 0
    for at in range(1 + part, 400, 4):
        name = f"parks{at}"
        authored(name, files)
        if (said := dies(at, "run", name)) is None:
            break
        killed += 1
        assert readable(said, copies=files.values()) == {}
        ended = known("resume")
        again = known("run", name)
        assert again.code == 4 and "gate." in again.err
        assert readable(ended.out + ended.err + again.err, copies=files.values()) == {}
    assert killed


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_a_run_that_passes_can_be_killed_anywhere(known: Kfm, part: int) -> None:  # noqa: F811
    files = {"small": b"a,b\n1,2\n", "large": b"towns and counties\n" * 10_000}
    killed = 0
    for at in range(1 + part, 400, 4):
        name = f"parks{at}"
        authored(name, files)
        if dies(at, "run", name) is None:
            break
        killed += 1
        known("resume")
        assert known("run", name).code == 0
        for n, body in enumerate(files.values()):
            assert known("cat", f"processed/{name}", str(n)).out == body.decode()
        assert _waiting() == 0
    assert killed and known("doctor", "--deep").code == 0


def _waiting() -> int:
    """The number of objects that wait for a verdict."""
    with sqlite3.connect(f"file:{Path('.kfm/state.db').resolve()}?mode=ro", uri=True) as state:
        return int(state.execute("SELECT count(*) FROM standings WHERE key LIKE 'unjudged/%'").fetchone()[0])


def test_a_forced_run_repairs_a_damaged_source_next_to_protected_data(known: Kfm) -> None:  # noqa: F811
    authored("parks", {"a": b"1"})
    seed = Path("seed.csv")
    seed.write_text("a,b\n" + "1,2\n" * 30_000)
    assert known("run", "parks").code == 0
    digest = hashlib.sha256(seed.read_bytes()).hexdigest()
    stored = Path(".kfm/objects/sha256", digest[:2], digest[2:])
    stored.write_bytes(stored.read_bytes().replace(b"1", b"3", 1))
    assert known("doctor", "--deep").code != 0
    assert known("run", "parks", "--force", "--reason", "the disk was damaged").code == 0
    assert known("doctor", "--deep").code == 0 and _waiting() == 0
