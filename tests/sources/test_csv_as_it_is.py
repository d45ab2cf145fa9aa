"""Tables as people have them: something above them, comments between rows, a row of units, other signs and letters."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kfm.model.canonical import canonical
from kfm.model.records import DataContract
from kfm.validation.table_preamble import Skips, ends_quoted
from tests.engine.installations import Installation, environment
from tests.node.sites import command

# An excerpt, unchanged, of what https://waterservices.usgs.gov answers in its own format; public domain (USGS).
RDB = Path(__file__).parent / "files" / "usgs-nwis-sites.rdb.txt"

SITES = """
kfm: 1
accept_weak_storage: true
datasets:
  sites:
    version: "1.0.0"
    sensitivity: public
    sources:
      sites:
        uri: sites.txt
        format: csv
        contract: {%s}
    outputs: {all: {from: sites}}
"""


def site(folder: Path, contract: str, body: bytes) -> Installation:
    (folder / "kfm.yml").write_text(SITES % contract)
    (folder / "sites.txt").write_bytes(body)
    return Installation(folder)


def rows(there: Installation) -> list[str]:
    return there.kfm("cat", "processed/sites", "all").out.splitlines()


def test_a_file_of_the_geological_survey_is_read_as_it_is(tmp_path: Path) -> None:
    columns = "columns: [{name: site_no, required: true, pattern: '[0-9]+'}, {name: dec_lat_va, type: number}]"
    there = site(tmp_path, rf'delimiter: "\t", comment: "#", skip_after_header: 1, {columns}', RDB.read_bytes())
    there.kfm("run")
    found = rows(there)
    data = [line for line in RDB.read_text().splitlines() if line.startswith("USGS")]
    assert len(found) == 1 + len(data) > 10
    assert found[0].startswith("agency_cd,site_no,station_nm")
    assert found[1].startswith('USGS,03161500,"SOUTH FORK NEW RIVER NR CRUMPLER, NC",ST,36.53484707')
    assert "5s" not in found[1]
    assert "nothing of sites is quarantined" in there.kfm("held", "sites").err
    assert " noop " in there.kfm("run").out


@pytest.mark.parametrize(
    ("delimiter", "encoding", "body"),
    [
        (r'"\t"', "utf-8-sig", "\ufeffa\tb\n1\té\n".encode()),
        (";", "latin-1", "a;b\n1;é\n".encode("latin-1")),
        ('"|"', "cp1252", "a|b\r\n1|é\r\n".encode("cp1252")),
        ('","', "utf-16", "\ufeffa,b\n1,é\n".encode("utf-16-le")),
    ],
)
def test_other_signs_and_letters_come_out_as_one(tmp_path: Path, delimiter: str, encoding: str, body: bytes) -> None:
    contract = f"delimiter: {delimiter}, encoding: {encoding}, skip_lines: 2, comment: '%'"
    lead = "Station ö\n\n" if encoding != "utf-16" else "\ufeffStation ö\r\n\r\n"
    codec = "utf-16-le" if encoding == "utf-16" else encoding
    plain = body.decode(codec).removeprefix("\ufeff")
    there = site(tmp_path, contract, (lead + "% none\n" + plain).encode(codec))
    there.kfm("run")
    assert rows(there) == ["a,b", "1,é"]


def test_a_line_within_quotes_is_no_comment(tmp_path: Path) -> None:
    body = b'# one\nid,note\n1,"first\n# second"\n# two\n2,6" pipe\n# three\n3,"a ""# b"""\n4,x # y\n'
    there = site(tmp_path, "comment: '#'", body)
    there.kfm("run")
    text = there.kfm("cat", "processed/sites", "all").out
    assert text == 'id,note\n1,"first\n# second"\n2,"6"" pipe"\n3,"a ""# b"""\n4,x # y\n'


def test_rows_that_do_not_fit_are_held_and_counted_without_the_comments(tmp_path: Path) -> None:
    contract = "comment: '#', skip_after_header: 1, columns: [{name: mm, type: number, mode: discard-row}]"
    there = site(tmp_path, contract + ", max_held_share: 1", b"# a\nid,mm\n-,in mm\n# b\n1,2\n# c\n2,x\n3,4\n")
    there.kfm("run")
    assert rows(there) == ["id,mm", "1,2", "3,4"]
    held = there.kfm("held", "sites", "--json").out
    assert '"row":2' in held.replace(" ", ""), "rows are counted as the table has them"


def test_a_file_that_ends_within_what_is_skipped_is_held(tmp_path: Path) -> None:
    there = site(tmp_path, "skip_lines: 9", b"a,b\n1,2\n")
    answer = there.kfm("run", expect=3)
    assert "there is no header" in answer.err


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        ("skip_lines: -1", "skip_lines"),
        ("comment: ''", "comment"),
        ("comment: '\"'", "comment holds a quote"),
        ("comment: ',x'", "comment begins with the delimiter"),
        ("header: false, columns: [{name: a}], skip_after_header: 1", "skip_after_header has no meaning without"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, contract: str, said: str) -> None:
    there = site(tmp_path, contract, b"a\n1\n")
    answer = there.kfm("run", expect=None)
    assert answer.code in (2, 3), answer
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "public").exists()


@pytest.mark.parametrize("setting", ["comment: '#'", "skip_lines: 1", "skip_after_header: 1"])
def test_node_refuses_such_a_source_and_names_who_reads_it(tmp_path: Path, setting: str) -> None:
    site(tmp_path, setting, b"a\n1\n2\n")
    done = subprocess.run(
        command("node", "run", "sites"), cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert f"has a source with {setting.partition(':')[0]}, and this runner reads none" in done.stderr
    assert "python -m updater run sites" in done.stderr


def test_a_contract_that_skips_nothing_has_the_digest_it_always_had() -> None:
    assert b"skip" not in canonical(DataContract(format="csv"))
    assert b"comment" not in canonical(DataContract(format="csv"))


def test_blocks_of_any_size_give_the_same_table() -> None:
    text = 'x\ny\n#c\na,b\n1,"q\n#in\n"\n#c\n2,"z"\n#last'
    lines = text.splitlines(keepends=True)
    skips = Skips(lines=2, comment="#", after_header=0)
    wanted = 'a,b\n1,"q\n#in\n"\n2,"z"\n'
    for size in range(1, len(lines) + 1):
        blocks = ["".join(lines[at : at + size]) for at in range(0, len(lines), size)]
        assert "".join(skips.table(iter(blocks), ",")) == wanted, size


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ('a,"b\n', False, True),
        ('a,b"\n', False, False),
        ('b",c\n', True, False),
        ('""x\n', True, True),
        ('"a","b\n', False, True),
        ('"a""', False, True),
        ('"a"""', False, False),
        ("plain\n", True, True),
    ],
)
def test_where_a_quote_is_open(line: str, before: bool, after: bool) -> None:
    assert ends_quoted(line, ",", before) is after
