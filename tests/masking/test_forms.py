"""One protected table in every machine form: denied, pending review, or listed as not recognised."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from kfm.masking import contents
from kfm.masking.fingerprints import Fingerprints, Marker, of_stored
from kfm.masking.leak_scanner import ScanReport, scan, scan_all
from tests.masking import forms
from tests.masking.notation_forms import Rows, table
from tests.masking.sites import KEY
from tests.sampling import sampled

ROWS = table()
MARKER = Marker(KEY)
PUBLIC = sorted(path for path in Path(__file__).with_name("public_tables").iterdir() if path.suffix != ".md")


def known_of(rows: Rows) -> Fingerprints:
    return MARKER.of(
        [row.id for row in rows],
        [(row.lat, row.lng) for row in rows],
        finer_than=7,
        texts=[row.notes for row in rows],
    )


KNOWN = known_of(ROWS)


def scanned(form: forms.Form, known: Fingerprints = KNOWN) -> ScanReport:
    return scan_all(form(ROWS).values, known, MARKER)


def test_there_are_at_least_150_forms() -> None:
    assert len(forms.FORMS) == len(forms.DENIED) + len(forms.PENDING) + len(forms.MISSED) >= 250


@pytest.mark.parametrize("name", sampled(forms.DENIED, every=9))
def test_a_table_in_another_form_is_denied(name: str) -> None:
    report = scanned(forms.DENIED[name])
    assert report.verdict == "deny", report
    assert not any(row.lat in str(report) or row.id in str(report) for row in ROWS)


@pytest.mark.parametrize("name", sampled(forms.PENDING, every=3))
def test_a_form_that_cannot_be_read_is_for_a_person_to_review(name: str) -> None:
    report = scanned(forms.PENDING[name])
    assert report.verdict == "review"
    assert "gate.unreadable" in [leak.rule for leak in report.leaks]


@pytest.mark.parametrize("name", sampled(forms.MISSED, every=5))
def test_a_form_that_is_listed_as_not_recognised_is_not_recognised(name: str) -> None:
    assert scanned(forms.MISSED[name]).verdict == "clean", "recognised: the threat model may promise it now"


@pytest.mark.parametrize("name", ["csv, exact", "two files", "transposed", "csv, dms", "wkb hex"])
def test_fingerprints_of_an_earlier_state_recognise_the_same_forms(name: str) -> None:
    """They have no coordinates of four decimals and no text."""
    body = KNOWN.stored().replace(b',"alone":4', b"")
    kept = of_stored(body)
    assert kept.alone == 5 and scanned(forms.FORMS[name], kept).verdict == "deny"


def test_a_table_among_larger_ones_of_the_same_custodian_is_recognised() -> None:
    """A fifth of a column is a fifth of that table, not of everything that a key protects."""
    known = KNOWN | known_of(table(400, seed=1)) | known_of(table(400, seed=2))
    for name in ("only latitudes", "two files of four decimals", "notes as lines"):
        assert scanned(forms.FORMS[name], known).verdict == "deny"


def test_four_values_of_a_column_do_not_deny_and_eight_do() -> None:
    def latitudes(count: int) -> bytes:
        return "\n".join(row.lat[:8] for row in ROWS[:count]).encode()

    assert scan(latitudes(4), KNOWN, MARKER).verdict != "deny"
    assert scan(latitudes(8), KNOWN, MARKER).verdict == "deny"


POINTS = (
    "3.81234567e+01 1.01765432e+02", "N38.1234567 W101.765432", "38.123457 258.234568", "38.123457 101.765432",
    "38\u00b007'24.444\" 101\u00b045'55.555\"", "38 07.40740 N, 101 45.92592 W", "3807.40740,N,10145.92592,W",
    "38123457 -101765432", "\uff13\uff18.\uff11\uff12\uff13\uff14\uff15\uff17 -101.765432", "38,123457;-101,765432",
    "&#51;8.123457, -101&#46;765432", "POINT(-101.765432 38.123457)",
)  # fmt: skip


@pytest.mark.parametrize("text", POINTS)
def test_a_coordinate_in_any_notation_is_recognised(text: str) -> None:
    known = MARKER.of([], [("38.1234567", "-101.7654320")], finer_than=7)
    assert scan(text.encode(), known, MARKER).verdict == "deny"
    elsewhere = MARKER.of([], [("37.1234567", "-101.7654320")], finer_than=7)
    assert scan(text.encode(), elsewhere, MARKER).verdict != "deny"


def moved(row: int) -> str:
    return f"{float(ROWS[row].lat) + 6e-5:.6f},{float(ROWS[row].lng) - 6e-5:.6f}\n"


def test_one_near_point_among_towns_is_reviewed_and_three_are_denied() -> None:
    towns = "".join(f"{37 + n / 70:.6f},{-101 + n / 31:.6f}\n" for n in range(90))
    for count, verdict in ((0, "clean"), (1, "review"), (2, "review"), (3, "deny")):
        body = towns + "".join(moved(row) for row in range(count))
        assert scan(body.encode(), KNOWN, MARKER).verdict == verdict, count


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_a_public_table_of_kansas_is_clean(path: Path) -> None:
    assert scan(path.read_bytes(), KNOWN, MARKER) == ScanReport(verdict="clean")


def test_ten_public_tables_are_compared() -> None:
    assert len(PUBLIC) == 10


def test_three_towns_as_parquet_are_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    towns = pyarrow.csv.read_csv(next(path for path in PUBLIC if path.name == "towns.csv"))
    out = io.BytesIO()
    pq.write_table(pa.table(towns)[:3], out)
    assert scan(out.getvalue(), KNOWN, MARKER).verdict == "clean"
    monkeypatch.setattr(contents, "_arrow_rows", missing)
    assert scan(out.getvalue(), KNOWN, MARKER).verdict == "review", "without the library nobody has read it"


def missing(body: bytes) -> None:
    raise contents._Unreadable


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [40, 1000, 5000])
def test_no_public_table_is_denied_whatever_is_protected(count: int, seed: int) -> None:
    known = known_of(table(count, seed=100 + seed))
    for path in PUBLIC:
        assert scan(path.read_bytes(), known, MARKER).verdict != "deny", path.name


@pytest.mark.long
def test_a_large_public_table_is_not_denied_by_chance() -> None:
    """Almost every protected latitude is near one of its numbers; shifted numbers match as often."""
    wells = table(60_000, seed=9)
    body = "\n".join(f"{row.lat[:9]},{row.lng[:10]}" for row in wells).encode()
    assert scan(body, known_of(table(400, seed=8)), MARKER).verdict != "deny"
