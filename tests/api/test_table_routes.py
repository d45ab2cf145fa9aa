"""The rows of a version over HTTP, in the format that a caller asks for."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kfm.app.data.row_formats import FORMS, MEDIA_TYPES
from kfm.app.serving import table_answers
from kfm.app.serving.discretion import Discretion
from kfm.app.serving.serve_gate import ServeGate
from kfm.app.serving.shelf import Shelf
from kfm.app.serving.table_answers import Crowded, NoForm, VersionRows, file_in_form, version_rows
from kfm.app.session.session import open_session
from kfm.config import load
from kfm.crypto.encryption import MAGIC
from tests.api.serving_site import ABSENT, CLOSED, OPEN, SECRET, Answer, Site

AT = f"/v1/datasets/{OPEN}/data"
ROWS = [{"id": name, "depth": depth} for name, depth in (("a", 1), ("b", 2))] * 2


def asked(site: Site, query: str = "", accept: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return site.ask(AT + query, headers={**named, **({"Accept": accept} if accept else {})})


def kind(answer: Answer) -> str:
    return answer.headers["content-type"].partition(";")[0]


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
def test_a_format_is_asked_for_by_name_or_by_accept(served: Site, form: str) -> None:
    media_type = MEDIA_TYPES[form].partition(";")[0]  # type: ignore[index]
    named, accepted = asked(served, f"?format={form}"), asked(served, "", media_type)
    assert (named.status, kind(named)) == (200, media_type)
    assert accepted.steady() == named.steady()
    assert "Accept" in named.headers["vary"] and "Authorization" in named.headers["vary"]
    assert named.headers["content-disposition"].endswith(f'.{form}"')
    assert asked(served, f"?format={form}", "image/png").steady() == named.steady(), "the name of a format wins"


def test_the_rows_of_all_files_come_one_after_another_or_those_of_one(served: Site) -> None:
    assert [json.loads(line) for line in asked(served, "?format=ndjson").body.splitlines()] == ROWS
    assert asked(served, "?format=csv").body == b"id,depth\n" + b"a,1\nb,2\n" * 2
    version = served.about(OPEN)["version"]
    one = served.ask(f"/v1/datasets/{OPEN}/versions/{version}/data?key=more")
    assert one.body == b"id,depth\na,1\nb,2\n"
    assert asked(served, "?key=nothing").status == 404


def test_every_format_that_a_version_names_is_to_be_had_and_its_page_links_to_it(served: Site) -> None:
    version = served.about(OPEN)["version"]
    told = json.loads(served.ask(f"/v1/datasets/{OPEN}/versions/{version}").body)
    assert told["row_formats"] == ["csv", "ndjson", "parquet"]
    page = served.ask(f"/versions/{OPEN}/{version}").body.decode()
    at = next(link["href"] for link in told["links"] if link["rel"] == "data")
    for form in told["row_formats"]:
        assert f'href="{at}?format={form}"' in page
        assert served.ask(f"{at}?format={form}").status == 200


def test_the_most_wanted_format_that_is_possible_is_sent(served: Site) -> None:
    assert kind(asked(served)) == kind(asked(served, "", "*/*")) == "text/csv", "as it is stored"
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    assert kind(asked(served, "", browser)) == "text/csv"
    assert kind(asked(served, "", "text/csv;q=0.1, application/x-ndjson")) == "application/x-ndjson"
    there_is_none = "application/geo+json, application/x-ndjson;q=0.2, text/csv;q=0.1"
    assert kind(asked(served, "", there_is_none)) == "application/x-ndjson", "these rows have no places"


def test_a_format_that_is_not_possible_is_a_406_that_names_those_that_are(served: Site) -> None:
    for query, accept in (("?format=geojson", ""), ("", "application/geo+json"), ("", "image/png"), ("", "*/*;q=0")):
        answer = asked(served, query, accept)
        assert (answer.status, kind(answer)) == (406, "application/problem+json")
        detail = json.loads(answer.body)["detail"]
        assert "text/csv (format=csv)" in detail and "geojson" not in detail
    assert asked(served, "?format=xml").status == 400


def test_each_format_has_an_etag_of_its_own_and_no_cache_mixes_them(served: Site) -> None:
    forms = ("csv", "ndjson", "parquet")
    first = {form: asked(served, f"?format={form}") for form in forms}
    tags = {form: answer.headers["etag"] for form, answer in first.items()}
    assert len(set(tags.values())) == len(forms)
    for form, tag in tags.items():
        assert asked(served, f"?format={form}", If_None_Match=tag).status == 304
        others = {each for each in forms if each != form}
        assert {asked(served, f"?format={each}", If_None_Match=tag).status for each in others} == {200}
    with ThreadPoolExecutor(6) as pool:
        again = list(pool.map(lambda form: (form, asked(served, "", MEDIA_TYPES[form])), forms * 6))  # type: ignore[index]
    assert all(answer.body == first[form].body for form, answer in again)


def test_a_part_of_a_format_is_a_part_of_its_bytes(served: Site) -> None:
    whole = asked(served, "?format=parquet").body
    part = asked(served, "?format=parquet", Range="bytes=-8")
    assert (part.status, part.body) == (206, whole[-8:]) and whole[-4:] == b"PAR1"
    assert part.headers["content-range"] == f"bytes {len(whole) - 8}-{len(whole) - 1}/{len(whole)}"
    assert asked(served, "?format=csv", Range="bytes=99999-").status == 416
    head = served.ask(f"{AT}?format=parquet", "HEAD")
    assert (head.body, head.headers["content-length"]) == (b"", str(len(whole)))


def test_what_is_closed_is_the_one_404_in_every_format(served: Site) -> None:
    for form in FORMS:
        answers = []
        for name in (SECRET, CLOSED, *ABSENT):
            version = served.about(name)["version"]
            answers.append(served.ask(f"/v1/datasets/{name}/data?format={form}").steady())
            answers.append(served.ask(f"/v1/datasets/{OPEN}/versions/{version}/data?format={form}").steady())
            answers.append(served.ask(f"/v1/datasets/{name}/versions/{version}/data?format={form}&key=all").steady())
        assert answers[0][0] == 404 and all(answer == answers[0] for answer in answers)


# -- what a server does not show by itself


@pytest.fixture
def session(served: Site) -> Any:
    with open_session(load(str(served.folder / "kfm.yml"), {}), mode="read") as opened:
        yield opened


def rows_in(session: Any, **changes: Any) -> VersionRows:
    shelf = Shelf(session, ServeGate(session), "public")
    shown = shelf.find(OPEN)
    assert shown is not None
    found = version_rows(session, shown, shown.version, "", Discretion(session, shelf, "public"))
    assert found is not None and found.is_plain
    return found._replace(**changes)


def test_encrypted_bytes_are_shown_in_no_form(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_in(session)
    read: list[str] = []

    def sealed(_self: object, digest: str) -> bytes:
        read.append(digest)
        return MAGIC + b"rest"

    monkeypatch.setattr(type(session.objects), "read", sealed)
    table_answers._written._bodies.clear()
    assert file_in_form(session, rows, ("ndjson",)) is None
    assert file_in_form(session, rows, ("geojson",)) is None
    assert read, "the fault fired"


def test_rows_beyond_the_bounds_are_not_read(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_answers, "MOST_BYTES", 10)
    rows = rows_in(session, is_plain=False)  # nobody asked for these yet
    with pytest.raises(NoForm) as none:
        file_in_form(session, rows, FORMS)
    assert none.value.possible == []
    one = rows._replace(entries=rows.entries[:1])
    found = file_in_form(session, one, ("parquet", "csv"))
    assert found is not None and found[1] == "csv" and found[0].body is None, "the file itself has no bound"
    with pytest.raises(NoForm) as some:
        file_in_form(session, one, ("parquet",))
    assert some.value.possible == ["csv"]


def test_a_crowd_is_turned_away(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_answers, "SECONDS", 0.01)
    rows = rows_in(session, is_plain=False)
    with table_answers._at_once, table_answers._at_once, pytest.raises(Crowded):
        file_in_form(session, rows, ("ndjson",))
    assert file_in_form(session, rows, ("ndjson",)) is not None


def test_what_was_written_is_kept_within_its_bound(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = table_answers._Written()
    monkeypatch.setattr(table_answers, "_written", kept)
    rows = rows_in(session)
    bodies = {form: file_in_form(session, rows, (form,)) for form in ("csv", "ndjson")}  # type: ignore[arg-type]
    assert len(kept._bodies) == 2
    monkeypatch.setattr(table_answers, "MOST_KEPT", 60)
    for form in ("csv", "ndjson"):
        assert file_in_form(session, rows, (form,)) == bodies[form]  # type: ignore[arg-type]
    parquet = file_in_form(session, rows, ("parquet",))
    assert parquet is not None and kept._size == sum(len(body) for body, _ in kept._bodies.values())
