"""A file edited in place reads as wanted, and keeps every byte that the edit does not concern."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from typing import Any

import pytest

from kfm.errors import BadInput
from kfm.parsing import documents
from kfm.parsing.documents import Path
from kfm.parsing.yaml_edit import Block, NotEditable, YamlEdit, quoted, same, scalar
from tests.parsing.yaml_texts import COMMENTS, KEYS, TEXTS, Writer, value
from tests.sampling import tries


def edited(text: str, *changes: tuple[Path, Any], plain: bool = True) -> str:
    edit = YamlEdit(text.encode(), "x.yml", plain=plain)
    for path, new in changes:
        edit.set(path, new)
    return edit.body().decode()


def removed(text: str, *paths: Path) -> str:
    edit = YamlEdit(text.encode(), "x.yml")
    for path in paths:
        edit.remove(path)
    return edit.body().decode()


def read(text: str) -> Any:
    return documents.read(text.encode(), "x.yml", json=False).value


def at(content: Any, path: Path) -> Any:
    for part in path:
        content = content[part]
    return content


def places(content: Any, above: Path = ()) -> list[Path]:
    """Every place in a value, and one in each mapping and list where something can be added."""
    if not isinstance(content, (dict, list)):
        return []
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    found = [path for key, each in entries for path in ((*above, key), *places(each, (*above, key)))]
    if isinstance(content, list):
        return [*found, (*above, len(content))]
    return [*found, (*above, next(key for key in KEYS if key not in content))]


def wanted(content: Any, path: Path, new: Any) -> None:
    around = at(content, path[:-1])
    if isinstance(around, list) and path[-1] == len(around):
        around.append(new)
    else:
        around[path[-1]] = new


def kept_lines(old: str, new: str) -> int:
    """The number of lines of the old text with which the new one begins and ends."""
    one, other = old.splitlines(), new.splitlines()
    first = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    ends = zip(reversed(one[first:]), reversed(other[first:]), strict=False)
    return first + next((n for n, (a, b) in enumerate(ends) if a != b), min(len(one), len(other)) - first)


def random_file(pick: random.Random) -> tuple[dict[str, Any], str]:
    content = {key: value(pick) for key in pick.sample(KEYS, pick.randrange(1, 4))}
    text = Writer(pick).document(content)
    assert same(read(text), content), text
    return content, text


def random_value(pick: random.Random) -> Any:
    return pick.choice([pick.choice(TEXTS), 5, None, True, ["a", "b"], {"a": 1}, Block({"a": "x", "b": {"c": 1}})])


def test_a_random_edit_of_a_random_file_reads_as_wanted_and_keeps_the_other_lines(count: Any) -> None:
    pick = random.Random(24)
    done = refused = 0
    for _ in range(tries(2000)):
        content, text = random_file(pick)
        path, new = pick.choice(places(content)), random_value(pick)
        meant = copy.deepcopy(content)
        wanted(meant, path, new)
        is_leaf = "\n" not in str(was := _was(content, path)) and not isinstance(was, (dict, list))
        try:
            after = edited(text, (path, new), plain=pick.random() < 0.5)
        except NotEditable:
            refused += 1
            assert "#" in text, (text, path)  # a comment would be lost
            continue
        done += 1
        assert same(read(after), meant), (text, path, after)
        assert after.startswith("\ufeff") == text.startswith("\ufeff")
        assert "\r\n" not in text or "\n" not in after.replace("\r\n", "")
        assert all(after.count(comment) >= text.count(comment) for comment in COMMENTS), (text, path, after)
        if is_leaf:
            assert kept_lines(text, after) >= len(text.splitlines()) - 1, (text, path, after)
    assert done > refused * 10
    count("files edited in place", done)


def _was(content: Any, path: Path) -> Any:
    try:
        return at(content, path)
    except (KeyError, IndexError):
        return None


def test_many_random_edits_of_one_file_read_as_wanted(count: Any) -> None:
    pick = random.Random(25)
    done = 0
    for _ in range(300):
        meant, text = random_file(pick)
        edit = YamlEdit(text.encode(), "x.yml")
        for _ in range(pick.randrange(2, 8)):
            path, new = pick.choice(places(meant)), random_value(pick)
            try:
                if isinstance(path[-1], str) and path[-1] in at(meant, path[:-1]) and pick.random() < 0.3:
                    edit.remove(path)
                    del at(meant, path[:-1])[path[-1]]
                else:
                    edit.set(path, new)
                    wanted(meant, path, copy.deepcopy(new))
            except NotEditable:
                continue
            assert same(edit.value, meant)
        assert same(read(edit.body().decode()), meant), text
        done += 1
    count("files with many edits", done)


EXACT: dict[str, tuple[str, Path, Any, str]] = {
    "a value keeps its comment": ("a: 1   # why\nb: 2\n", ("a",), 7, "a: 7   # why\nb: 2\n"),
    "a value keeps its quotes": ("a: 'x' # c\nb: \"y\"\n", ("a",), "it's", "a: 'it''s' # c\nb: \"y\"\n"),
    "double quotes stay": ('a:  "x"\n', ("a",), "y", 'a:  "y"\n'),
    "a text that could be read otherwise gets quotes": ("a: x\n", ("a",), "true", 'a: "true"\n'),
    "a key is added behind the last one": ("a:\n    b: 1 # c\n# end\nc: 2\n", ("a", "d"), "x",
                                            "a:\n    b: 1 # c\n    d: x\n# end\nc: 2\n"),
    "in brackets": ("a: {b: 1,  c: [2] }  # c\n", ("a", "d"), 3, "a: {b: 1,  c: [2], d: 3 }  # c\n"),
    "in brackets with a comma at the end": ("a: [1, 2,]\n", ("a", 2), 3, "a: [1, 2, 3,]\n"),
    "in brackets over several lines": ("a: {\n  b: 1  # c\n  }\n", ("a", "d"), 3, "a: {\n  b: 1, d: 3  # c\n  }\n"),
    "the first of a list": ("a: []  # none\nb: 1\n", ("a", 0), Block({"x": 1, "z": [2]}),
                            "a:  # none\n  - x: 1\n    z: [2]\nb: 1\n"),
    "dashes in the column of the key": ("a:\n- 1\n\nb: 2\n", ("a", 1), 2, "a:\n- 1\n- 2\n\nb: 2\n"),
    "nothing is written yet": ("a:   # none\nb: 2\n", ("a",), "x", "a: x   # none\nb: 2\n"),
    "a text of several lines": ("a: |\n  one\n  two\n\nb: 2\n", ("a",), "x", "a: x\n\nb: 2\n"),
    "behind a text that keeps its empty lines": ("a:\n  b: |+\n    one\n\nc: 2\n", ("a", "d"), 1,
                                                 "a:\n  b: |+\n    one\n\n  d: 1\nc: 2\n"),
    "no line break at the end": ("a: 1\nb: 2", ("c",), 3, "a: 1\nb: 2\nc: 3"),
    "CRLF": ("a: 1\r\nb: 2\r\n", ("c",), Block({"d": 3}), "a: 1\r\nb: 2\r\nc:\r\n  d: 3\r\n"),
    "a byte order mark": ("\ufeffa: 1\n", ("b",), 2, "\ufeffa: 1\nb: 2\n"),
    "a very long line": (f"a: {'x' * 9000} # c\nb: 1\n", ("b",), 2, f"a: {'x' * 9000} # c\nb: 2\n"),
    "a very long line in brackets": (f"a: {{b: [{'1, ' * 3000}2]}}\n", ("a", "c"), 3,
                                     f"a: {{b: [{'1, ' * 3000}2], c: 3}}\n"),
    "a mark of the start": ("---\na: 1\n", ("a",), 2, "---\na: 2\n"),
    "a list of blocks becomes one line": ("a:\n  - 1\n  - 2\nb: 1\n", ("a",), ["x"], "a: [x]\nb: 1\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", EXACT)
def test_only_the_value_changes(case: str) -> None:
    text, path, new, after = EXACT[case]
    assert edited(text, (path, new)) == after


def test_a_value_that_is_there_already_changes_nothing() -> None:
    text = "a:   'x'\nb: [ 1,2 ]\n"
    assert edited(text, (("a",), "x"), (("b",), [1, 2])) == text


REMOVED: dict[str, tuple[str, Path, str]] = {
    "a line": ("a: 1\nb: 2  # c\nc: 3\n", ("b",), "a: 1\nc: 3\n"),
    "the first line": ("a: 1\nb: 2\n", ("a",), "b: 2\n"),
    "the last line without a line break": ("a: 1\nb: 2", ("b",), "a: 1"),
    "several lines": ("a:\n  b: 1\n  c: 2\nd: 3\n", ("a",), "d: 3\n"),
    "behind a dash": ("a:\n  - b: 1\n    c: 2\n", ("a", 0, "b"), "a:\n  - c: 2\n"),
    "in brackets": ("a: {b: 1, c: 2, d: 3}\n", ("a", "c"), "a: {b: 1, d: 3}\n"),
    "the last in brackets": ("a: {b: 1, c: 2 }\n", ("a", "c"), "a: {b: 1 }\n"),
    "the only one": ("a:\n  b: 1\nc: 2\n", ("a", "b"), "a: {}\nc: 2\n"),
    "above a comment": ("a: 1\n# about c\nc: 3\n", ("a",), "# about c\nc: 3\n"),
}


@pytest.mark.parametrize("case", REMOVED)
def test_only_the_key_and_its_value_go(case: str) -> None:
    text, path, after = REMOVED[case]
    assert removed(text, path) == after


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a:  # why\n  - 1\n", ("a",)),
        ("a:\n  # why\n  b: 1\n", ("a",)),
        ("a: |  # why\n  one\n", ("a",)),
        ("a: {b: 1,  # why\n  c: 2}\n", ("a",)),
        ("a: 1\n", ("b", "c")),
        ("a: 1\n", ("a", "c")),
        ("a: [1]\n", ("a", 3)),
        ("a: [1]\n", ("a", "b")),
        ("- 1\n", ("a",)),
    ],
)
def test_a_change_that_would_lose_a_comment_or_has_no_place_is_refused(text: str, path: Path) -> None:
    with pytest.raises(NotEditable):
        edited(text, (path, "x"))


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: {b: 1}\nc:\n  <<: {d: 1}\n",
        "a:\n\tb: 1\n",
        "a: 1\na: 2\n",
        "a: 1\n---\nb: 2\n",
        "a: !x 1\n",
        "a: [1\n",
        "a: 'x\n",
    ],
    ids=["anchor", "merge key", "tab", "key twice", "two documents", "tag", "open bracket", "open quote"],
)
def test_a_file_that_kfm_does_not_read_is_not_edited(text: str) -> None:
    with pytest.raises(BadInput, match=r"x\.yml:\d+:\d+"):
        YamlEdit(text.encode(), "x.yml")


def test_every_text_is_read_as_it_was_written() -> None:
    pick = random.Random(26)
    odd = [
        chr(code) for code in (*range(0x100), 0x2028, 0xFEFF, 0xFFFE, 0x1F600, 0xE0100, *map(ord, "#:,{}[]&*!|>'%@`"))
    ]
    texts = [*TEXTS, *("".join(pick.choices(odd, k=pick.randrange(1, 6))) for _ in range(3000))]
    for text in texts:
        assert read(f"a: {scalar(text)}\nb: {{c: {quoted(text)}}}\n") == {"a": text, "b": {"c": text}}, repr(text)


def test_ruamel_is_loaded_only_for_an_edit() -> None:
    program = (
        "import sys; from kfm.cli.main import main; main(['labels', '--help']); import kfm.app.stewards.label_edit; "
        "import kfm.app.previews.draft_pull_request; sys.exit('ruamel' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
