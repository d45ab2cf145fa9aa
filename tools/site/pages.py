"""What `make site` does beyond MkDocs: one text, read in the repository and in the site.

- The front page is README.md; CONTRIBUTING.md and CHANGELOG.md are pages, too.
- A link to anything else of the repository (a test, a schema, an example, a folder) leads to a plain page that shows
  it. These are made when the site is; no text is kept twice.
- Headings have the anchors that they have in a repository browser.
- In the navigation `guides/*.md` stands for the pages of a folder that have no place of their own.
- Search puts guides and concepts before references, and those before decisions and lists of changes.
- Nothing of today's date is in it: the same files make the same site.
"""

from __future__ import annotations

import fnmatch
import html
import os
import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
OF_THE_TOP = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
# For the search, by folder and by page. A word in a title counts a thousand times as much as one in the text, so only
# a very small number puts the title of a decision behind the text of a guide.
BOOST = {"start": 8.0, "guides": 6.0, "concepts": 6.0, "decisions": 0.0002}
BOOST_OF_PAGE = {"changelog.md": 0.0002, "old-names.md": 0.0002, "conformance.md": 0.001, "promises.md": 0.001}
SHOWN = "source"  # where the site shows what is no page
_TARGET = re.compile(r"\]\(\s*<?([^)\s>#]+)")
_FENCE = re.compile(r"^(```\w+)[ ]([^\n]*)$", re.M)
_SECTION = re.compile(r'id="(__nav_[\d_]*label)"[^>]*>\s*(?:<span class="md-ellipsis">)?\s*([^<]+)')
_LABELLED = re.compile(r'aria-labelledby="(__nav_[\d_]*label)"')
_CORNER = re.compile(r"<th([^>]*)></th>")
_PLAIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>{name}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;margin:1rem;background:Canvas;color:CanvasText}}
pre{{overflow:auto}}h1{{font-size:1.2rem;overflow-wrap:anywhere}}</style>
</head><body><main><p><a href="{up}">KFM</a></p><h1>{name}</h1>
{body}
</main></body></html>
"""


def slug(title: str, separator: str) -> str:
    """As a repository browser makes it, so that a fragment is right in both."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def in_repository(page: str) -> str:
    """Where in the repository a page of the site stands."""
    return next((name for name, there in OF_THE_TOP.items() if there == page), f"docs/{page}")


def in_site(name: str) -> str:
    """Where in the site something of the repository stands."""
    if name in OF_THE_TOP:
        return OF_THE_TOP[name]
    page = f"{name}/README.md" if (ROOT / name).is_dir() else name
    if page.startswith("docs/") and (ROOT / page).exists():
        return page.removeprefix("docs/")
    return f"{SHOWN}/{name}.html"


def boost(page: str) -> float:
    """How much more a match in this page counts in the search than one in an ordinary page."""
    return BOOST_OF_PAGE.get(page, BOOST.get(page.partition("/")[0], 1.0))


def resolved(page: str, target: str) -> str:
    """What of the repository a link of this page means; "" if it is somebody else's address or of the page itself."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not parts.path:
        return ""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(page)), unquote(parts.path)))
    return name if not name.startswith("..") and (ROOT / name).exists() else ""


class _Links(Treeprocessor):
    page = ""

    def run(self, root: Element) -> None:
        for element in root.iter():
            for attribute in {"a": ("href",), "img": ("src",)}.get(element.tag, ()):
                target = element.get(attribute, "")
                if name := resolved(self.page, target):
                    there = posixpath.relpath(in_site(name), posixpath.dirname(self.page) or ".")
                    fragment = urlsplit(target).fragment
                    element.set(attribute, quote(there) + (f"#{fragment}" if fragment else ""))


class _Rewriting(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(_LINKS, "links of the repository", 1)  # before MkDocs looks at them


_LINKS = _Links()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(_Rewriting())  # type: ignore[arg-type]
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    config.theme.static_templates = set()  # a page for addresses that are none, and a list with today's date
    named: set[str] = set()
    _named(config.nav, named)
    pages = sorted(path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md"))
    config.nav = _expanded(config.nav, [page for page in pages if page not in named])
    return config


def _named(nav: Any, found: set[str]) -> None:
    if isinstance(nav, str):
        found.add(nav)
    for one in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        _named(one, found)


def _expanded(nav: list[Any], free: list[str]) -> list[Any]:
    """With patterns in place of which the pages stand that nobody named; a section without pages is left out."""
    found: list[Any] = []
    for one in nav:
        if isinstance(one, dict):
            ((title, inside),) = one.items()
            if not isinstance(inside, list):
                found.append(one)
            elif below := _expanded(inside, free):
                found.append({title: below})
        elif "*" in one:
            found += [page for page in free if _fits(page, one)]
        else:
            found.append(one)
    return found


def _fits(page: str, pattern: str) -> bool:
    if "**" in pattern:
        return page.startswith(pattern.partition("**")[0])
    return posixpath.dirname(page) == posixpath.dirname(pattern) and fnmatch.fnmatch(page, pattern)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for template in [file for file in files if file.src_uri == "sitemap.xml"]:
        files.remove(template)
    for name, page in OF_THE_TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    shown = set()
    for page in files.documentation_pages():
        for target in _TARGET.findall(page.content_string):
            name = resolved(page.src_uri, target)
            if name and in_site(name).startswith(f"{SHOWN}/"):
                shown.add(name)
    for name in sorted(shown):  # also what is hidden, as .importlinter
        shower = File.generated(config, in_site(name), content=_plain(name, shown), inclusion=InclusionLevel.INCLUDED)
        files.append(shower)
    return files


def _plain(name: str, shown: set[str]) -> str:
    """A page that shows a file, or what is in a folder."""
    path = ROOT / name
    if path.is_dir():
        body = "<ul>\n" + "".join(_entry(one, name, shown) for one in sorted(os.listdir(path))) + "</ul>"
    else:
        text = path.read_text(encoding="utf-8")
        body = f'<pre tabindex="0"><code>{html.escape(text)}</code></pre>'
    up = posixpath.relpath("index.html", posixpath.dirname(in_site(name)))
    return _PLAIN.format(name=html.escape(name), up=up, body=body)


def _entry(one: str, folder: str, shown: set[str]) -> str:
    if one.startswith((".", "__")) or one.endswith(".pyc"):
        return ""
    there = f"{folder}/{one}"
    said = html.escape(one)
    site = in_site(there)
    if there in shown or site.endswith(".md"):
        address = quote(posixpath.relpath(re.sub(r"\.md$", ".html", site), posixpath.dirname(in_site(folder))))
        said = f'<a href="{address}">{said}</a>'
    return f"<li>{said}</li>\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    _LINKS.page = page.file.src_uri
    page.meta.setdefault("search", {})["boost"] = boost(page.file.src_uri)
    return _FENCE.sub(_fence, markdown)


def _fence(found: re.Match[str]) -> str:
    """The words for the tests that run the page are not for its reader; the name of a file is."""
    kind, words = found.groups()
    file = re.search(r"\bfile=(\S+)", words)
    return f'{kind} title="{file.group(1)}"' if file else kind


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Names for what the theme leaves unnamed to whoever listens to the page; and a corner of a table heads nothing."""
    names = {place: title.strip() for place, title in _SECTION.findall(output)}
    output = _CORNER.sub(r"<td\1></td>", output)
    output = _LABELLED.sub(lambda found: f'aria-label="{names.get(found.group(1), found.group(1))}"', output)
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
