"""Modules are nouns of the field, each file name occurs once, and no folder grows too large to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import pytest

from tests.project.bans import repository_files

MOST_MODULES = 30  # in one folder, `__init__.py` not counted
SOURCE = PurePosixPath("src/kfm")

# Names that look like a gerund or participle and are words of the field, each with the reason.
NOUNS = {
    "content_encoding": "the HTTP header Content-Encoding",
    "keyring": "a ring of keys",
    "polling": "the field's word for asking a source at intervals",
    "staging": "the field's word for the area where bytes wait before they are taken over",
    "masking": "the room of masks; the field's word for hiding protected places",
    "parsing": "the room of parsers; the field's word for reading text into values",
    "protected": "the stages for protected records; the word that labels use",
    "scheduling": "the room of schedules; the field's word",
    "serving": "the package of what is shown over HTTP; the field's word, as in model serving",
    "testing": "the room for authors of updaters who test them; named as in numpy.testing",
}
# File names that occur in two rooms, each with the reason.
TWICE: dict[str, str] = {
    "__init__": "the file of every package",
    "serve_gate": "the question and its decision in policy/, what it is about in app/; one gate",
}
# Participles without -ed, adverbs and prepositions: they say how or when, and not what the module holds.
# fmt: off
NO_NOUNS = frozenset({
    "told", "kept", "held", "made", "written", "asked", "known", "sent", "seen", "taken", "given", "found",
    "done", "begun", "chosen", "drawn", "gone", "grown", "hidden", "lost", "meant", "met", "paid", "read",
    "said", "sold", "sought", "spoken", "spent", "stolen", "thought", "torn", "understood", "won", "worn",
    "bought", "brought", "built", "caught", "felt", "fallen", "forgotten", "frozen", "led", "left", "again",
    "anew", "apart", "beside", "beneath", "between", "beyond", "behind", "aside", "away", "forth", "hence",
    "here", "there", "together", "twice", "wayin", "foretold", "untold", "owed",
})
# fmt: on


def head_word(module: str) -> str:
    """The last word of a module's name: the noun that the words before it describe, as in `masked_run`."""
    return module.rpartition("_")[2]


def is_no_noun(module: str) -> bool:
    """True for a name whose last word is a gerund, a participle, an adverb or a preposition."""
    word = head_word(module)
    ending = len(word) > 4 and word.endswith(("ing", "ed", "ly")) and not word.endswith("eed")
    return (ending or word in NO_NOUNS) and module not in NOUNS


def product_modules() -> list[PurePosixPath]:
    """Every Python file of the product outside `cli/`, relative to `src/kfm`."""
    files = [PurePosixPath(name) for name in repository_files() if name.startswith(f"{SOURCE}/")]
    return [file.relative_to(SOURCE) for file in files if file.suffix == ".py" and file.parts[2] != "cli"]


def badly_named(files: Iterable[PurePosixPath]) -> list[str]:
    """Modules and packages whose names are not nouns."""
    names = {name for file in files for name in (*file.parent.parts, file.stem)}
    return sorted(name for name in names if is_no_noun(name))


def named_twice(files: Iterable[PurePosixPath]) -> Iterator[tuple[str, list[str]]]:
    """File names that occur more than once, with the folders that hold them."""
    folders = defaultdict(list)
    for file in files:
        folders[file.stem].append(file.parent.as_posix())
    return ((name, sorted(where)) for name, where in sorted(folders.items()) if len(where) > 1 and name not in TWICE)


def too_full(files: Iterable[PurePosixPath]) -> dict[str, int]:
    """Folders with more modules than they may have, and how many they hold."""
    sizes: dict[str, int] = defaultdict(int)
    for file in files:
        sizes[file.parent.as_posix()] += file.stem != "__init__"
    return {folder: size for folder, size in sizes.items() if size > MOST_MODULES}


def test_every_module_is_named_by_a_noun() -> None:
    assert badly_named(product_modules()) == []


def test_no_file_name_occurs_twice_among_the_rooms() -> None:
    assert list(named_twice(product_modules())) == []


def test_no_folder_holds_more_modules_than_it_may() -> None:
    assert too_full(product_modules()) == {}


def test_every_exception_is_still_needed() -> None:
    files = product_modules()
    names = {name for file in files for name in (*file.parent.parts, file.stem)}
    assert set(NOUNS) <= names
    assert all(sum(file.stem == name for file in files) > 1 for name in TWICE)
    assert len(files) > 300  # the checks above see the product


@pytest.mark.parametrize(
    "planted", ["engine/wondering.py", "store/told.py", "updaters/wholly.py", "app/label_writing.py", "asking/keys2.py"]
)
def test_a_gerund_participle_or_adverb_is_found(planted: str) -> None:
    file = PurePosixPath(planted)
    assert badly_named([*product_modules(), file]) == [file.parts[0] if file.parts[0] == "asking" else file.stem]


@pytest.mark.parametrize("noun", ["masked_run", "feed", "string_table", "masking_stage", "key", "seed", "ring"])
def test_a_noun_with_a_participle_before_it_is_allowed(noun: str) -> None:
    assert not is_no_noun(noun)


def test_a_second_file_of_the_same_name_is_found() -> None:
    assert list(named_twice([*product_modules(), PurePosixPath("sinks/ledger.py")])) == [("ledger", ["sinks", "store"])]


def test_a_folder_that_grew_too_large_is_found() -> None:
    planted = [PurePosixPath(f"store/sub/module_{n}.py") for n in range(MOST_MODULES + 1)]
    assert too_full([*product_modules(), *planted]) == {"store/sub": MOST_MODULES + 1}
