"""`index.build_embeddings` and `kfm search`: public text is found, and nothing that was taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kfm import open as open_installation
from kfm.model.jobs.search_segment import NO_VECTORS
from kfm.updaters.jobs import text_vectors
from tests.app.derived_jobs.conftest import INDEX, Run, body, derived, written
from tests.cli.conftest import Kfm


def at(kfm: Kfm, ref: str) -> str:
    return next((each["version"] for each in kfm("refs", "list", ref, "--json").data if each["ref"] == ref), "")


def found(kfm: Kfm, *words: str) -> Any:
    return kfm("search", *words, "--json").data


@pytest.fixture
def indexed(wells: Kfm, run: Run) -> Kfm:
    """The wells with a published index of their text."""
    assert run("well-index")["status"] == "SUCCESS"
    assert wells("publish", "well-index").code == 0
    return wells


def test_a_word_finds_the_rows_that_have_it_and_each_names_its_version(indexed: Kfm) -> None:
    said = found(indexed, "santa", "fe")
    assert said["hits"] and all(hit["title"] == "Santa Fe" for hit in said["hits"])
    assert {hit["version"] for hit in said["hits"]} == {at(indexed, "published/wells")}
    assert said["indexes"] == {"wells": at(indexed, "published/well-index")} and said["meaning"]
    shown = indexed("search", "berexco", "santa", "--limit", "2")
    assert shown.code == 0 and shown.out.count("wells ") == 2


@pytest.mark.long
def test_a_question_is_answered_by_meaning_where_no_word_fits(indexed: Kfm) -> None:
    said = found(indexed, "petroleum", "extraction")
    assert said["meaning"] and said["hits"], "no well has one of these words"


@pytest.mark.long
def test_python_searches_as_the_command_does(indexed: Kfm) -> None:
    said = open_installation(".").search("santa fe", index="wells", limit=3)
    assert [hit.key for hit in said.hits] == [hit["key"] for hit in found(indexed, "santa", "fe")["hits"]][:3]
    assert "3 found" in repr(said)


def test_the_alias_and_the_epoch_move_with_publication_and_rollback(indexed: Kfm, run: Run) -> None:
    first, epoch = at(indexed, "search/wells"), int(at(indexed, "cache/well-index"))
    assert first == at(indexed, "published/well-index") and epoch == 2
    written(INDEX.replace("LEASE_NAME, ORIG_OPERATOR", "LEASE_NAME, WELL_NAME"))
    run("well-index")
    receipt = indexed("publish", "well-index", "--json").data["receipts"][0]
    second = at(indexed, "published/well-index")
    assert first != second == at(indexed, "search/wells") and int(at(indexed, "cache/well-index")) == epoch + 1
    assert [move["ref"] for move in receipt["moves"]] == ["published/well-index", "search/wells", "cache/well-index"]
    assert indexed("rollback", "well-index").code == 0
    assert at(indexed, "search/wells") == first and int(at(indexed, "cache/well-index")) == epoch + 2
    assert indexed("rollback", "well-index", "--to", "nothing").code == 0
    assert at(indexed, "search/wells") == "" and int(at(indexed, "cache/well-index")) == epoch + 3
    assert "there is no search index yet" in indexed("search", "santa").err
    assert indexed("doctor", "--deep").code == 0


def test_what_was_withdrawn_is_not_found_and_the_epoch_counts_it(indexed: Kfm) -> None:
    epoch = int(at(indexed, "cache/well-index"))
    assert indexed("rollback", "wells", "--to", "nothing").code == 0
    said = found(indexed, "santa", "fe")
    assert said["hits"] == [] and said["hidden"][0]["why"].startswith("withdrawn")
    assert int(said["epochs"]["well-index"]) == epoch + 1


@pytest.mark.long
def test_what_is_restricted_now_is_not_found(indexed: Kfm) -> None:
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("sensitivity: public", "sensitivity: generalised", 1))
    assert found(indexed, "santa")["hits"], "generalised data may be public"
    before, *rest = text.partition("  well-tiles:")
    Path("kfm.yml").write_text(before.replace("sensitivity: public", "sensitivity: restricted") + "")
    said = found(indexed, "santa")
    assert said["hits"] == [] and said["hidden"][0]["why"] == "restricted now"
    assert rest


@pytest.mark.long
def test_a_segment_whose_rows_did_not_change_keeps_its_bytes(wells: Kfm, run: Run) -> None:
    written(INDEX.replace("alias: wells", "alias: wells, segments: 8"))
    run("well-index")
    before = {n: body("processed/well-index", "rows", str(n)) for n in range(8)}
    assert (
        sum(len(each.splitlines()) for each in before.values()) == len(Path("wells.csv").read_text().splitlines()) - 1
    )
    Path("wells.csv").write_text(Path("wells.csv").read_text().replace("Santa Fe", "Santa Rosa", 1))
    run("wells")
    assert wells("publish", "wells").code == 0
    assert run("well-index")["changes"] == {"added": 0, "changed": 2, "removed": 0, "keys": 9}
    assert sum(before[n] != body("processed/well-index", "rows", str(n)) for n in range(8)) == 1


@pytest.mark.long
def test_without_the_extra_the_index_is_of_words_alone_and_says_so(
    wells: Kfm, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setattr(text_vectors, "model_name", lambda: "")
        run("well-index")
        assert json.loads(body("processed/well-index", "index"))["model"] == NO_VECTORS
        assert b'"vector"' not in body("processed/well-index", "rows", "0")
        assert wells("publish", "well-index").code == 0
        said = found(wells, "santa")
        assert said["hits"] and not said["meaning"]
    assert run("well-index")["changes"]["changed"] == 2, "with the extra it is made again"


@pytest.mark.long
def test_vectors_are_the_same_in_every_order_and_company(wells: Kfm, run: Run) -> None:
    run("well-index")
    lines = [json.loads(line) for line in body("processed/well-index", "rows", "0").splitlines()]
    assert [each["id"] for each in lines] == sorted(each["id"] for each in lines)
    for each in lines[::20]:
        again = text_vectors.vector_of(f"{each['title']}\n{each['text']}")
        assert text_vectors.packed(again) == each["vector"]


@pytest.mark.long
def test_texts_without_columns_are_documents(kfm: Kfm, run: Run) -> None:
    Path("guide.txt").write_text("# How wells are plugged\n\nCement is pumped into the borehole.\n")
    head = (
        "kfm: 1\ndatasets:\n  guide:\n    sensitivity: public\n    title: x\n    license: CC0-1.0\n"
        "    updater: kfm.updaters.mirror:Mirror\n    sources: {text: {uri: guide.txt, format: text}}\n"
    )
    written(
        derived("guide-index", "index.build_embeddings", "", "{text: {dataset: guide, zone: published}}"), head=head
    )
    run("guide")
    published = kfm("publish", "guide")
    if published.code:
        pytest.fail(published.err)
    assert run("guide-index")["status"] == "SUCCESS"
    assert kfm("publish", "guide-index").code == 0
    (hit,) = found(kfm, "cement")["hits"]
    assert (hit["title"], hit["key"]) == ("How wells are plugged", "text")


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ("columns: [NOTHING]", "no column"),
        ("columns: [LEASE_NAME], id: STATUS", "two rows have the same id"),
        ("columns: [EMPTY], id: KID", "has no text"),
    ],
)
@pytest.mark.long
def test_what_cannot_be_indexed_is_refused(wells: Kfm, run: Run, parameters: str, what: str) -> None:
    lines = Path("wells.csv").read_text().splitlines()
    Path("wells.csv").write_text("\n".join([f"{lines[0]},EMPTY", *(f"{line}," for line in lines[1:])]) + "\n")
    run("wells")
    assert wells("publish", "wells").code == 0
    written(derived("well-index", "index.build_embeddings", parameters, "{rows: {dataset: wells, zone: published}}"))
    receipt = run("well-index")
    assert receipt["status"] == "FAILED" and what in receipt["errors"][0]["message"]


@pytest.mark.long
def test_a_wrong_question_is_one_line_and_none_is_read_as_the_language_of_the_engine(indexed: Kfm) -> None:
    wrong = {("!!!",): "no word to search for", ("santa", "--index", "well"): "did you mean wells?",
             ("santa", "--limit", "0"): "from 1 to 1000"}  # fmt: skip
    for words, what in wrong.items():
        answer = indexed("search", *words)
        assert answer.code == 3 and what in answer.complaint
    for words in ('"', "a AND", "NEAR(", "col:x", "*", "' OR 1=1 --", "\u0000", "😀 santa"):
        assert indexed("search", words).code in (0, 3), words
