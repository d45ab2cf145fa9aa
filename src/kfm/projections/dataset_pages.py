"""HTML pages of the published data for a browser: one of all datasets, one per dataset. They have no script and load
nothing from elsewhere. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor
from typing import Any, NamedTuple

from kfm.model.public_run import Places, PublicVersion
from kfm.projections import dcat, stac
from kfm.projections.explanation_page import STYLE
from kfm.projections.file_paths import version_path

PAGE = "index.html"
MOST = 1000  # most files listed on a page; the NDJSON listing next to it has all
_LICENCES = "https://spdx.org/licenses/"
_POINTER = ('<li><a href="current.json">Which version is current</a></li>',)


class PageFile(NamedTuple):
    """One file of the current version."""

    key: tuple[str, ...]
    path: str  # below the public folder
    size: int
    digest: str


class LiveVersion(NamedTuple):
    """An earlier version that can still be read."""

    digest: str
    published_at: str
    entries: int
    size: int


def page_path(dataset: str) -> str:
    return f"{dataset}/{PAGE}"


def dataset_page(
    version: PublicVersion,
    files: Sequence[PageFile],
    standing: Sequence[LiveVersion],
    places: Places,
    *,
    in_public: bool = False,
) -> bytes:
    """Return the page of a dataset's current version. `files` are the first of its files, or none where their names are
    not public. With `in_public` the page is in the public folder, without a catalog next to it.
    """
    metadata = version.metadata or version.made.metadata
    title = str(metadata.get("title") or version.dataset)
    body = [
        f"<h1>{escape(title)}</h1>",
        _paragraph(metadata.get("description")),
        *_facts(version, metadata),
        "<h2>Files</h2>",
        *_files(version, files, places),
        "<h2>Versions</h2>",
        *_versions(version.dataset, standing, places),
        "<h2>For programs</h2><ul>",
        *(_POINTER if in_public else _catalog_links(version.dataset)),
        f'</ul><p><a href="{"../" if in_public else ""}../index.html">All datasets</a></p>',
    ]
    return _whole(title, body)


def _catalog_links(dataset: str) -> Iterator[str]:
    yield f'<li><a href="{stac.collection_path(dataset).rpartition("/")[2]}">STAC collection</a></li>'
    yield f'<li><a href="../{dcat.PATH}">DCAT catalog</a></li>'


def front_page(datasets: Sequence[tuple[str, dict[str, Any]]], places: Places, *, in_public: bool = False) -> bytes:
    """Return the page of all datasets, by name, with the facts that the DCAT catalog gives."""
    below = "datasets/" if in_public else ""
    body = [f"<h1>{escape(places.title)}</h1>", _paragraph(places.description)]
    body.append("<table><thead><tr>")
    body += [f'<th scope="col">{head}</th>' for head in ("Dataset", "What it is", "Published", "Version")]
    body.append("</tr></thead><tbody>")
    for name, said in datasets:
        link = f'<a href="{escape(below + page_path(name))}">{escape(str(said["title"]))}</a>'
        day = escape(str(said.get("issued") or said["modified"])[:10])
        cells = (link, escape(str(said["description"])), day, f"<code>{escape(said['version'][7:19])}</code>")
        body.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    body.append("</tbody></table>")
    if not datasets:
        body.append("<p>Nothing is published.</p>")
    if not in_public:
        body.append(f'<p>For programs: <a href="{stac.ROOT}">STAC</a>, <a href="{dcat.PATH}">DCAT</a>.</p>')
    return _whole(places.title, body)


def _whole(title: str, body: Sequence[str]) -> bytes:
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{STYLE}a{{color:var(--link)}}</style></head><body><main>"
    )
    # A title may hold half a surrogate pair, which is not text.
    return (head + "".join(body) + "</main></body></html>\n").encode("utf-8", "replace")


def _paragraph(text: Any) -> str:
    return f"<p>{escape(str(text))}</p>" if text else ""


def _facts(version: PublicVersion, metadata: dict[str, Any]) -> Iterator[str]:
    labels = version.made.labels
    cells = f"one H3 cell of resolution {labels.resolution}" if labels and labels.resolution is not None else ""
    files = version.files or version.described
    counts = [each.rows for each in files if each.rows is not None]
    pairs = (
        ("Licence", _licence(str(metadata.get("license") or ""))),
        ("Its text", escape(str(metadata.get("license_text") or "")).replace("\n", "<br>")),
        ("Attribution", escape(str(metadata.get("attribution") or ""))),
        ("Version", f"<code>{escape(version.digest)}</code>"),
        ("Published", escape(version.published_at)),
        ("Made", escape(f"{version.made.finished_at} by {version.made.updater_id} {version.made.updater_version}")),
        ("Shown no finer than", cells),
        ("Extent of the cells", _extent(version.bbox) if version.files else ""),
        ("Extent", _extent(version.bbox) if version.described else ""),
        ("Time", escape(" to ".join(dict.fromkeys(filter(None, version.interval)))) if version.described else ""),
        ("Geometry", escape(", ".join(dict.fromkeys(each.geometry for each in files if each.geometry)))),
        ("Columns", escape(", ".join(dcat.columns_of(files)))),
        ("Variables", escape(", ".join(dict.fromkeys(dcat.in_words(one) for each in files for one in each.bands)))),
        ("Rows", f"{sum(counts):,}" if counts and len(counts) == len(files) else ""),
    )
    yield "<dl>"
    for name, value in pairs:
        if value:
            yield f"<dt>{name}</dt><dd>{value}</dd>"
    yield "</dl>"


def _extent(box: Sequence[float]) -> str:
    """Return a box in words, outwards to a hundredth of a degree; empty if there is none."""
    if not box:
        return ""
    west, south = (floor(degrees * 100) / 100 for degrees in box[:2])
    east, north = (ceil(degrees * 100) / 100 for degrees in box[2:])
    return f"{west:g} to {east:g} degrees of longitude, {south:g} to {north:g} of latitude"


def _licence(licence: str) -> str:
    if licence.startswith(("https://", "http://")):
        return f'<a href="{escape(licence)}">{escape(licence)}</a>'
    is_known = licence and licence not in ("other", "proprietary", "various", "US-PD")
    is_known = is_known and not licence.startswith(("(", "LicenseRef-"))
    known = f'<a href="{_LICENCES}{escape(licence)}.html">{escape(licence)}</a>'
    return known if is_known and " " not in licence else escape(licence)


def _files(version: PublicVersion, files: Sequence[PageFile], places: Places) -> Iterator[str]:
    if files:
        yield "<table><thead><tr>"
        yield from (f'<th scope="col">{head}</th>' for head in ("Name", "Bytes", "SHA-256"))
        yield "</tr></thead><tbody>"
        for file in files:
            name = _link(file.path, " / ".join(file.key), places)
            yield f"<tr><td>{name}</td><td>{file.size:,}</td><td><code>{file.digest[7:]}</code></td></tr>"
        yield "</tbody></table>"
    more = f"The first {len(files):,} of {version.entries:,} files" if 0 < len(files) < version.entries else ""
    listing = _link(f"{version_path(version.dataset, version.digest)}.ndjson", "the list of all files", places)
    yield f"<p>{more + '; see ' if more else 'Also as one file: '}{listing}, a line of JSON each.</p>"


def _versions(dataset: str, standing: Sequence[LiveVersion], places: Places) -> Iterator[str]:
    yield "<table><thead><tr>"
    yield from (f'<th scope="col">{head}</th>' for head in ("Version", "Published", "Files", "Bytes"))
    yield "</tr></thead><tbody>"
    for each in reversed(standing):
        link = _link(f"{version_path(dataset, each.digest)}.ndjson", each.digest[7:19], places)
        cells = (link, escape(each.published_at), f"{each.entries:,}", f"{each.size:,}")
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"


def _link(path: str, words: str, places: Places) -> str:
    """Return a link to a file in the public folder, or plain text if that folder has no address a browser can open."""
    if places.public.startswith("kfm:"):
        return escape(words)
    above = "" if "://" in places.public else "../"
    return f'<a href="{escape(f"{above}{places.public}/{path}")}">{escape(words)}</a>'
