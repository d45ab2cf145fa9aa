"""No Markdown makes a story that holds or becomes markup, hides text, takes long, or reads otherwise when written."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import BadInput, Refused
from kfm.model.canonical import canonical
from kfm.model.jobs.story_record import FORMAT, Story, StoryBlock, StoryCitation, StorySpan
from kfm.parsing.characters import is_printable
from kfm.projections.pages.story_html import story_html
from kfm.updaters.jobs import story_source
from kfm.updaters.jobs.story_source import read_story, text_of
from kfm.updaters.jobs.story_writer import markdown_of

TAGS = {"article", "p", "section", "h2", "h3", "h4", "h5", "h6", "ol", "ul", "li", "blockquote", "a", "em", "strong",
        "code", "span"}  # fmt: skip
ATTRIBUTES = {"class", "lang", "role", "href", "title", "rel", "id", "start"}
HOSTILE = {
    "a script": "<script>alert(1)</script>",
    "a script in a block": "<script>\nalert(1)\n\n</script>\n",
    "a closed comment": "<!-- --><script>alert(1)</script>",
    "a picture with a handler": "<svg onload=alert(1)>",
    "an image with a handler": "<img src=x onerror=alert(1)>",
    "a style": "<style>*{background:url(https://evil.example/)}</style>",
    "a frame": '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
    "a closing tag": "</article></main></body><script>alert(1)</script>",
    "a link to script": "[x](javascript:alert(1))",
    "a link to script in capitals": "[x](JaVaScRiPt:alert(1))",
    "a link to script with an entity": "[x](javascript&colon;alert(1))",
    "a link to script with a tab": "[x](<java\tscript:alert(1)>)",
    "a link to script by reference": "[x][1]\n\n[1]: javascript:alert(1)",
    "a link to data": "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "a link to a file": "[x](file:///etc/passwd)",
    "a link without scheme": "[x](//evil.example/)",
    "a plain link": "[x](http://evil.example/)",
    "a link with a user": "[x](https://me@evil.example/)",
    "a link with a quote": '[x](https://evil.example/"onmouseover="alert(1))',
    "a link with a title": '[x](https://evil.example/ "\\"onmouseover=alert(1)")',
    "an automatic link": "<javascript:alert(1)>",
    "an image beacon": "![](https://evil.example/pixel.gif)",
    "an image with markup": "![<b>x</b>](https://evil.example/pixel.gif)",
    "an image of script": "![x](javascript:alert(1))",
    "an image in a link": "[![x](https://evil.example/a.gif)](javascript:alert(1))",
    "entities": "&lt;script&gt;alert(1)&lt;/script&gt; &#60;b&#62; &#x3c;i&#x3e; &amp;lt;",
    "code": "`<script>alert(1)</script>` and\n\n    <script>alert(1)</script>\n\n```html\n<script>1</script>\n```",
    "a heading": "###### <script>alert(1)</script> ######",
    "a huge heading": "# " + "<b>x</b>" * 1000,
    "a set heading": "<script>alert(1)</script>\n=====",
    "nested brackets": "[" * 500 + "x" + "]" * 500 + "(javascript:alert(1))",
    "nested emphasis": "*" * 5000 + "<b>" + "*" * 5000,
    "bidi controls": "a\u202egnissap\u202c b\u2066c\u2069 \u200ex\u200f",
    "control characters": "a\x00b\x07c\x1b[31md\x7fe\u0085f\u2028g\ufeffh",
    "tags of Unicode": "a\U000e0041\U000e0042b",
    "a lone half": "a &#xD800; b",
    "a citation with markup": '[x](kfm://dataset/wells#"><script>alert(1)</script>)',
}
CITED = "\n\n[it](kfm://dataset/wells)\n"


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.seen: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_comment(self, data: str) -> None:
        self.seen.add("comment")

    def handle_decl(self, decl: str) -> None:
        self.seen.add("declaration")


def made(text: str) -> Story:
    """A story of this text in which each citation, whatever it says, is one of the wells."""
    cited = StoryCitation(dataset="wells", version="sha256:" + "1" * 64)

    def resolved(block: StoryBlock) -> StoryBlock:
        spans = tuple(
            msgspec.structs.replace(span, href="", cites=cited) if span.href.lower().startswith("kfm:") else span
            for span in block.spans
        )
        return msgspec.structs.replace(block, spans=spans, blocks=tuple(map(resolved, block.blocks)))

    blocks = tuple(map(resolved, read_story(text_of(text.encode(), "text"), "text").blocks))
    return Story(format=FORMAT, title="T", language="en", blocks=blocks, citations=(cited,))


def spans_of(blocks: tuple[StoryBlock, ...]) -> list[StorySpan]:
    return [span for block in blocks for span in (*block.spans, *spans_of(block.blocks))]


def check(story: Story) -> None:
    page = Tags(story_html(story, {}))
    assert page.seen <= TAGS and set(page.attributes) <= ATTRIBUTES
    assert all(href.startswith(("https://", "#cite-")) for href in page.attributes.get("href", ()))
    for span in spans_of(story.blocks):
        assert is_printable(span.text.replace("\u200c", "").replace("\u200d", ""))
        assert not span.href or span.href.startswith("https://")
    text = markdown_of(story)
    assert words(made(text)) == words(story), "the Markdown has the same text and links"


def words(story: Story) -> list[tuple[str, str, str]]:
    """The text of each block with its links, without how it is shown."""
    found: list[tuple[str, str, str]] = []
    for span in spans_of(story.blocks):
        said = (span.href, span.cites.address if span.cites else "")
        if found and found[-1][1:] == said:
            found[-1] = (found[-1][0] + span.text, *said)
        else:
            found.append((span.text, *said))
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_text_becomes_markup(name: str) -> None:
    story = made(HOSTILE[name] + CITED)
    check(story)
    assert msgspec.json.decode(canonical(story), type=Story) == story


def test_a_hostile_text_keeps_its_words() -> None:
    story = made("<script>alert(1)</script> [x](javascript:alert(2)) ![a *b*](https://evil.example/)" + CITED)
    text = "".join(span.text for span in spans_of(story.blocks))
    assert text == "<script>alert(1)</script> [x](javascript:alert(2)) a bit"
    assert "<script>" not in story_html(story, {}) and "evil.example" not in story_html(story, {})


def test_what_hides_text_is_shown_and_what_joins_letters_stays() -> None:
    story = made("a\u202eb\u00a0c \u0646\u200c\u0645" + CITED)
    assert spans_of(story.blocks)[0].text == "a\ufffdb c \u0646\u200c\u0645"


def test_structure_survives_and_is_written_again() -> None:
    text = (
        "# T\n\nA *b **c** d* `e``f` [g *h*](https://example.org/?a=1&copy;=2).\n\n> q\n>\n> - 1\n>   2. x\n>   3. y\n"
        ">\n>   more\n> - 2\n\n* a\n\n+ b\n\n7) c\n8) d\n\n1. new\n\n"
        "## U! [v](kfm://dataset/wells)!\n\n-1 + 1) 2. = \\#\n"
    )
    story = made(text)
    kinds = [block.kind for block in story.blocks]
    assert kinds == ["heading", "paragraph", "quote", "list", "list", "list", "list", "heading", "paragraph"]
    assert (story.blocks[5].ordered, story.blocks[5].start, len(story.blocks[5].blocks)) == (True, 7, 2)
    assert made(markdown_of(story)).blocks == story.blocks
    assert {"em", "strong", "code", "blockquote", "ul", "ol"} <= Tags(story_html(story, {})).seen
    check(story)


PIECES = st.sampled_from(
    ["*", "**", "_", "`", "``", "[", "]", "(", ")", "![", "](kfm://dataset/wells)", "](https://example.org/)", "<", ">",
     "&lt;", "&amp;", "\\", "#", "- ", "1. ", "> ", "\n", "\n\n", "    ", "\t", "a", "b c", "!", "~", "|", "=", "+",
     "---\n", "```\n", "<b>", "\u202e", "\x00", "&#10;", "&nbsp;", "[x]: https://example.org/\n", "\u00e9", "\"", "'"]
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_written_as_it_was_read(text: str) -> None:
    try:
        story = made(text + CITED)
    except Refused:
        return
    check(story)


@pytest.mark.long
@settings(max_examples=2000, deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join))
def test_many_texts_are_written_as_they_were_read(text: str) -> None:
    check(made(text + CITED))


def test_a_record_from_elsewhere_is_escaped_too() -> None:
    evil = '"><script>alert(1)</script>'
    cited = StoryCitation(dataset=evil, version=evil, key=(evil,), digest=evil)
    spans = (
        StorySpan(text=evil, href="javascript:alert(1)"),
        StorySpan(text=evil, href=f"https://example.org/{evil}", code=True),
        StorySpan(text=evil, cites=cited, strong=True),
    )
    blocks = (StoryBlock(kind="heading", level=99, spans=spans), StoryBlock(kind="list", ordered=True, spans=spans))
    page = story_html(Story(format=FORMAT, title=evil, language=evil, blocks=blocks, citations=(cited,)), {})
    found = Tags(page)
    assert found.seen <= TAGS and set(found.attributes) <= ATTRIBUTES and "<script" not in page
    assert not any(href.startswith("javascript") for href in found.attributes["href"])


def test_a_record_that_is_nested_too_deeply_is_refused() -> None:
    block = StoryBlock(kind="paragraph", spans=(StorySpan(text="a"),))
    for _ in range(200):
        block = StoryBlock(kind="quote", blocks=(block,))
    with pytest.raises(BadInput, match="nested too deeply"):
        story_html(Story(format=FORMAT, title="", language="en", blocks=(block,), citations=()), {})


def test_the_limits_hold_before_the_text_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(story_source, "_parser", lambda: parsed.append("a parser"))
    for text in ("a" * (story_source.MOST_BYTES + 1), "\n" * 10_001, "\r" * 10_001, "[" * 10_001):
        with pytest.raises(Refused, match="more than"):
            read_story(text_of(text.encode(), "text"), "text")
    assert parsed == []


def test_lists_and_quotes_may_be_twenty_deep() -> None:
    for mark in ("> ", "- ", "> - "):
        depth = 20 // (len(mark) // 2)
        assert "deep" in markdown_of(made(mark * depth + "deep" + CITED))
        with pytest.raises(Refused, match="line 3: lists and quotes are nested more than 20 deep"):
            read_story("a\n\n" + mark * (depth + 1) + "deep", "text")
        with pytest.raises(Refused, match="nested more than 20 deep"):
            read_story(mark * 5000 + "deep", "text")


def work(text: str) -> int:
    """How many calls it takes to read a text: a clock that no other process can slow."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        markdown_of(made(text))
    except Refused:
        pass
    finally:
        sys.setprofile(None)
    return calls


# The first three belong to the default suite.
GROWING = {
    "brackets": "[", "lines": "a\n", "cited": "[a](kfm://dataset/wells) ", "bracketed images": "![", "links": "[a](b",
    "emphasis": "*a ", "mixed emphasis": "*_a ", "quotes": "> ", "items": "- a\n", "angles": "<", "ampersands": "&",
    "ticks": "`a", "backslashes": "\\", "definitions": "[a]: x\n", "titles": '[a](b "', "items in items": "1) ",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [name if n < 3 else pytest.param(name, marks=pytest.mark.long) for n, name in enumerate(GROWING)]
)
def test_four_times_the_text_is_about_four_times_the_work(name: str) -> None:
    few, many = (work(GROWING[name] * count) for count in (200, 800))
    assert many < 6 * few, f"{name}: {few} calls became {many}"


def test_a_quadratic_reader_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = story_source._plain
    monkeypatch.setattr(story_source, "_plain", lambda text: [plain(text) for _ in text for _ in text].pop())
    few, many = (work("a" * count) for count in (20, 80))
    assert many > 6 * few
