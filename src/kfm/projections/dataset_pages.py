"""HTML pages of the published data for people with a browser: one of all datasets, one for each dataset. They run no
script and load nothing. Pure.

A page is in the folder of its dataset, so every address is relative to it and the folder can be served from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor
from typing import Any, NamedTuple

import msgspec

from kfm.model.public_run import WITHHELD_SOURCE, Places, PublicColumn, PublicVersion
from kfm.projections.file_paths import EXPLANATION, PAGE, page_paths, version_path
from kfm.projections.pages.licence_names import licence_address, licence_name
from kfm.projections.pages.page_map import MOST_DRAWN, Drawing, degrees, draw, thumbnail
from kfm.projections.pages.page_style import as_bytes, day_of, document, many, short_digest, size_of, time_tag
from kfm.projections.pages.public_addresses import CITATION, FEED, sums_path

MOST = 100  # most files listed on a page; the NDJSON listing next to it has all
MOST_COLUMNS = 200  # most columns described
PICTURED = 60  # most datasets that the front page shows with a map each
WIDEST = 40  # most columns of the first rows
SOURCES = 6  # most sources named
_FORMATS = {
    "text/csv": "CSV", "application/geo+json": "GeoJSON", "application/json": "JSON", "application/x-ndjson": "NDJSON",
    "application/vnd.apache.parquet": "Parquet", "image/tiff": "GeoTIFF", "application/netcdf": "NetCDF",
    "application/vnd.zarr+zip": "Zarr", "application/wmo-grib2": "GRIB2", "text/plain": "Text",
    "application/geopackage+sqlite3": "GeoPackage", "application/vnd.flatgeobuf": "FlatGeobuf",
    "application/vnd.shp+zip": "Shapefile", "application/vnd.pmtiles": "PMTiles",
}  # fmt: skip


class PageFile(NamedTuple):
    """One file of the current version."""

    key: tuple[str, ...]
    path: str  # below the public folder
    size: int
    digest: str
    media_type: str = ""


class PageVersion(NamedTuple):
    """A version that can still be read, or one that was withdrawn."""

    digest: str
    published_at: str
    entries: int = 0
    size: int = 0
    files: tuple[int, int, int] | None = None  # added, changed, removed since the version before; None: it is the first
    rows: tuple[int, int] | None = None  # added, removed; None: not compared
    withdrawn_at: str = ""
    is_first: bool = False  # nothing of the dataset was published before it


class PageSample(NamedTuple):
    """The first rows of one file."""

    columns: Sequence[PublicColumn]
    rows: Sequence[Sequence[str]]


class PageMap(NamedTuple):
    """The places in the first files."""

    drawing: Drawing
    files: int  # how many files they are from


class DatasetPage(NamedTuple):
    """Everything that the page of a dataset shows."""

    version: PublicVersion
    files: Sequence[PageFile] = ()  # the first; none: their names are not public
    versions: Sequence[PageVersion] = ()  # the newest first
    earlier: int = 0  # how many more versions there are
    sample: tuple[PageFile, PageSample] | None = None
    map: PageMap | None = None
    whole: bool = True  # the facts are those of all files
    links: Sequence[tuple[str, str]] = ()  # for programs: address and words


class FrontEntry(NamedTuple):
    """What the front page says about a dataset."""

    name: str
    title: str
    description: str
    published_at: str
    facts: Sequence[str] = ()  # such as 12 files, 1.2 MB
    masked: bool = False
    picture: str = ""  # a small map as SVG; empty: none


def title_of(version: PublicVersion) -> str:
    return str(_said(version).get("title") or version.dataset)


def dataset_page(page: DatasetPage, places: Places, jsonld: Mapping[str, Any] | None = None) -> bytes:
    """Return the page of a dataset's current version. `jsonld` describes it for search engines."""
    version, title = page.version, title_of(page.version)
    body = [
        bar(places, "../../"),
        '<main><div class="hero"><div class="in">',
        f'<p class="kind">Dataset <code>{escape(version.dataset)}</code></p><h1>{escape(title)}</h1>',
        _lead(version),
        *_tags(page),
        *_downloads(page),
        *_numbers(page),
        '</div></div><div class="in two"><div>',
        *_map(page, places),
        *_sample(page),
        *_columns(page),
        *_files(page),
        *_versions(page),
        *_verify(page),
        "</div><aside>",
        *_aside(page, places),
        "</aside></div></main>",
        end(places),
    ]
    return as_bytes(document(f"{title} · {places.title}", body, _head(version, jsonld)))


def front_page(
    entries: Sequence[FrontEntry],
    places: Places,
    links: Sequence[tuple[str, str]] = (),
    jsonld: Mapping[str, Any] | None = None,
    box: str = "",
) -> bytes:
    """Return the page of all datasets, by name. `jsonld` describes them for search engines. `box` is HTML below the
    description."""
    body = [
        bar(places, ""),
        '<main><div class="hero"><div class="in">',
        f"<h1>{escape(places.title)}</h1>",
        f'<p class="lead">{escape(places.description)}</p>' if places.description else "",
        box,
        '<ul class="tags">',
        f"<li>{many(len(entries), 'dataset')}</li>",
        *(f"<li>{each}</li>" for each in _addresses(places)),
        '</ul></div></div><div class="in">',
    ]
    pictured = len(entries) <= PICTURED
    if entries:
        body += ['<ul class="cards">', *(_card(each, pictured) for each in entries), "</ul>"]
    else:
        body.append('<p class="lead">Nothing is published.</p>')
    if places.catalog and entries:
        root = places.catalog
        links = [*links, (f"{root}/catalog.json", "STAC catalog"), (f"{root}/catalog.jsonld", "DCAT catalog")]
    if links:
        body += ["<section><h2>For programs</h2>", _list(links), "</section>"]
    body += ["</div></main>", end(places)]
    return as_bytes(document(places.title, body, _for_engines(jsonld)))


def bar(places: Places, up: str) -> str:
    """Return the bar at the top of every page. `up` leads to the folder of the front page."""
    links = [f'<a href="{up}{PAGE}">All datasets</a>']
    if places.home:
        links.append(f'<a href="{escape(places.home)}">About the archive</a>')
    return (
        f'<header class="bar"><div class="in"><a class="archive" href="{up}{PAGE}">{escape(places.title)}</a>'
        f'<nav aria-label="Archive">{"".join(links)}</nav></div></header>'
    )


def end(places: Places) -> str:
    said = " · ".join([f"Published by {escape(places.publisher)}", *_addresses(places)])
    return f'<footer class="end"><div class="in">{said}</div></footer>'


def _addresses(places: Places) -> list[str]:
    found = []
    if places.contact:
        found.append(_contact(places.contact))
    if places.home:
        found.append(f'<a href="{escape(places.home)}">{escape(places.home.partition("://")[2].rstrip("/"))}</a>')
    return found


def _contact(contact: str) -> str:
    if "://" in contact:
        return f'<a href="{escape(contact)}">Contact the archive</a>'
    return f'<a href="mailto:{escape(contact)}">{escape(contact)}</a>'


def small_map(page: DatasetPage, places: Places) -> str:
    """Return the map of a dataset for its card on the front page; empty if it has none."""
    return thumbnail(page.map.drawing, places.outline) if page.map is not None else ""


def _card(entry: FrontEntry, pictured: bool) -> str:
    about = f"<p>{escape(_cut(entry.description, 240))}</p>" if entry.description else ""
    facts = [time_tag(entry.published_at), *map(escape, entry.facts)]
    if entry.masked:
        facts.insert(0, '<span class="care">places as cells</span>')
    picture = entry.picture if pictured else ""
    return (
        f'<li>{picture}<h2><a href="{escape(page_paths(entry.name)[0])}">{escape(entry.title)}</a></h2>{about}'
        f'<p class="foot">{" · ".join(filter(None, facts))}</p></li>'
    )


def _head(version: PublicVersion, jsonld: Mapping[str, Any] | None) -> str:
    about = _cut(str(_said(version).get("description") or ""), 300)
    meta = f'<meta name="description" content="{escape(about)}">' if about else ""
    feed = f'<link rel="alternate" type="application/atom+xml" title="Versions" href="{FEED}">'
    return meta + feed + _for_engines(jsonld)


def _for_engines(jsonld: Mapping[str, Any] | None) -> str:
    if not jsonld:
        return ""
    text = msgspec.json.encode(jsonld).decode()  # no character of it may end the block
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/ld+json">{text}</script>'


def _said(version: PublicVersion) -> dict[str, Any]:
    return version.metadata or version.made.metadata


def _lead(version: PublicVersion) -> str:
    text = _said(version).get("description")
    return f'<p class="lead">{escape(str(text))}</p>' if text else ""


def _tags(page: DatasetPage) -> Iterator[str]:
    version = page.version
    licence = str(_said(version).get("license") or "")
    labels = version.made.labels
    yield '<ul class="tags">'
    if licence:
        yield f'<li class="good">{escape(licence_name(licence))}</li>'
    if labels is not None and labels.resolution is not None:
        yield f'<li class="care">Places only as cells, H3 resolution {labels.resolution} or coarser</li>'
    yield f"<li>Version {short_digest(version.digest)}</li>"
    for word in list(_said(version).get("keywords") or ())[:8]:
        yield f"<li>{escape(str(word))}</li>"
    yield "</ul>"


def _numbers(page: DatasetPage) -> Iterator[str]:
    version = page.version
    files = version.files or version.described
    counts = [each.rows for each in files if each.rows is not None]
    rows = f"{sum(counts):,}" if counts and len(counts) == len(files) and page.whole else ""
    times = [each for each in version.interval if each]
    time = " to ".join(dict.fromkeys(time_tag(each) for each in times))
    pairs = (
        ("Published", time_tag(version.published_at)),
        ("Rows", rows),
        ("Files", f"{version.entries:,}"),
        ("Size", size_of(version.size)),
        ("Format", escape(", ".join(_formats(page.files)))),
        ("Time covered", time),
    )
    yield '<dl class="facts">'
    yield from (f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs if value)
    yield "</dl>"


def _formats(files: Iterable[PageFile]) -> list[str]:
    kinds = (each.media_type.partition(";")[0].strip().lower() for each in files)
    return list(dict.fromkeys(_FORMATS.get(kind, "") for kind in kinds if kind in _FORMATS))[:4]


def _map(page: DatasetPage, places: Places) -> Iterator[str]:
    if page.map is None:
        return
    drawing, version = page.map.drawing, page.version
    said = _in_words(drawing)
    if page.map.files < version.entries:
        said += f" of the first {many(page.map.files, 'file')} of {version.entries:,}"
    extent = _extent(version.bbox)
    picture = draw(drawing, places.outline, f"Map of {title_of(version)}: {said}{', ' + extent if extent else ''}")
    yield '<section><h2 id="map">Map</h2><figure>'
    yield picture.svg
    if picture.keys:
        yield '<ul class="key" aria-label="Places in each hexagon">'
        yield from (f'<li><i class="{name}"></i>{words}</li>' for name, words in picture.keys)
        yield "</ul>"
    if picture.outside:
        said += f"; {many(picture.outside, 'place lies', 'places lie')} far from the others and outside the map"
    tail = " The map draws cells that the public files name; exact places are not published." if drawing.cells else ""
    yield f"<figcaption>{said[0].upper()}{said[1:]}{'. ' + extent[0].upper() + extent[1:] if extent else ''}.{tail}"
    yield "</figcaption></figure></section>"


def _in_words(drawing: Drawing) -> str:
    if drawing.is_extent:
        return "the extent of " + many(len(drawing.areas), "file")
    distinct = len(set(drawing.points))
    if distinct < len(drawing.points) and drawing.places() == len(drawing.points):
        words = f"{many(len(drawing.points), 'row')} at {many(distinct, 'place')}"
        return words + (" as density" if drawing.places() > MOST_DRAWN else "")
    pairs = ((drawing.points, "place"), (drawing.ways, "line"), (drawing.areas, "area"), (drawing.cells, "cell"))
    words = " and ".join(many(len(found), what) for found, what in pairs if found)
    return words + (" as density" if drawing.places() > MOST_DRAWN and not drawing.cells else "")


def _extent(box: Sequence[float]) -> str:
    """Return a box in words, outwards to a hundredth of a degree; empty if there is none."""
    if not box:
        return ""
    half = len(box) // 2
    west, south = (floor(each * 100) / 100 for each in box[:2])
    east, north = (ceil(each * 100) / 100 for each in box[half : half + 2])
    across = f"{degrees(west, 'E', 'W')} to {degrees(east, 'E', 'W')}"
    return f"from {across}, {degrees(south, 'N', 'S')} to {degrees(north, 'N', 'S')}"


def _sample(page: DatasetPage) -> Iterator[str]:
    if page.sample is None:
        return
    file, sample = page.sample
    columns = sample.columns[:WIDEST]
    yield '<section><h2 id="rows">First rows</h2>'
    yield '<div class="scroll" role="region" aria-labelledby="rows" tabindex="0"><table class="rows"><thead><tr>'
    numeric = [each.type in ("integer", "number") for each in columns]
    for each, number in zip(columns, numeric, strict=True):
        yield f'<th scope="col"{_right(number)}>{escape(each.name)}</th>'
    yield "</tr></thead><tbody>"
    for row in sample.rows:
        cells = zip(row[:WIDEST], numeric, strict=True)
        yield "<tr>" + "".join(f"<td{_right(number)}>{escape(value)}</td>" for value, number in cells) + "</tr>"
    yield "</tbody></table></div>"
    more = f"; {len(sample.columns) - WIDEST} more columns are in the file" if len(sample.columns) > WIDEST else ""
    yield f'<p class="note">The first {many(len(sample.rows), "row")} of {_link(page, file)}{more}.</p></section>'


def _right(number: bool) -> str:
    return ' class="n"' if number else ""


def _columns(page: DatasetPage) -> Iterator[str]:
    """Yield the columns of tables and the variables of grids, with types and units as far as the files say them."""
    version = page.version
    files = version.files or version.described
    found: dict[str, PublicColumn] = {}
    looked_at = {each.name: each for each in page.sample[1].columns} if page.sample is not None else {}
    for each in (one for file in files for one in (*file.table, *file.bands)):
        found.setdefault(each.name, each)
    for name in (name for file in files for name in file.columns):
        found.setdefault(name, PublicColumn(name))
    found = found or looked_at
    if not found:
        return
    is_grid = not any(file.table or file.columns for file in files) and any(file.bands for file in files)
    what = "Variables" if is_grid else "Columns"
    examples = _examples(page)
    some = [(name, each, each.units or _unit_in(name)) for name, each in list(found.items())[:MOST_COLUMNS]]
    has_units = any(unit for _, _, unit in some)
    yield f'<section><h2 id="columns">{what}</h2>'
    yield '<div class="scroll" role="region" aria-labelledby="columns" tabindex="0"><table><thead><tr>'
    heads = ("Name", "Type", *(["Unit"] if has_units else []), *(["Example"] if examples else []))
    yield from (f'<th scope="col">{head}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    for name, each, unit in some:
        kind = each.type or (looked_at[name].type if name in looked_at else "")
        cells = [escape(kind) or _NONE, *([escape(unit) or _NONE] if has_units else [])]
        cells += [escape(examples.get(name, ""))] if examples else []
        yield f'<tr><th scope="row">{escape(name)}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    said = "" if has_units else "The files state no units."
    said += f" And {len(found) - MOST_COLUMNS:,} more." if len(found) > MOST_COLUMNS else ""
    yield f'<p class="note">{said.strip()}</p></section>' if said else "</section>"


def _examples(page: DatasetPage) -> dict[str, str]:
    """Return the first value of each column in the first rows."""
    if page.sample is None:
        return {}
    sample = page.sample[1]
    names = [each.name for each in sample.columns]
    found: dict[str, str] = {}
    for row in sample.rows:
        for name, value in zip(names, row, strict=True):
            if value:
                found.setdefault(name, value)
    return found


_NONE = '<span class="none">not stated</span>'


def _unit_in(name: str) -> str:
    """Return the unit that a column has in its own name, as in "depth (m)"; empty if it has none."""
    for start, stop in ("()", "[]"):
        if name.endswith(stop) and start in name[1:]:
            return name[name.rindex(start) + 1 : -1].strip()[:40]
    return ""


def _files(page: DatasetPage) -> Iterator[str]:
    version, files = page.version, page.files
    yield '<section><h2 id="files">Files</h2>'
    if files:
        yield '<div class="scroll" role="region" aria-labelledby="files" tabindex="0"><table><thead><tr>'
        yield '<th scope="col">Name</th><th scope="col" class="n">Size</th><th scope="col">SHA-256</th></tr></thead>'
        yield "<tbody>"
        for file in files:
            size = f'<td class="n"><span title="{many(file.size, "byte")}">{size_of(file.size)}</span></td>'
            yield f"<tr><td>{_link(page, file)}</td>{size}<td>{short_digest(file.digest)}</td></tr>"
        yield "</tbody></table></div>"
    here = _address(version.dataset, f"{version_path(version.dataset, version.digest)}.ndjson")
    listing = f'<a href="{escape(here)}">The list of all files</a>'
    some = (
        f"These are the first {len(files):,} of {version.entries:,} files. " if 0 < len(files) < version.entries else ""
    )
    yield f'<p class="note">{some}{listing} has a line of JSON for each, with its whole digest.</p></section>'


def _versions(page: DatasetPage) -> Iterator[str]:
    yield '<section><h2 id="versions">Versions</h2>'
    yield '<div class="scroll" role="region" aria-labelledby="versions" tabindex="0"><table><thead><tr>'
    yield from (f'<th scope="col">{head}</th>' for head in ("Version", "Published", "What changed"))
    yield '<th scope="col" class="n">Files</th><th scope="col" class="n">Size</th></tr></thead><tbody>'
    for each in page.versions:
        digest, name = short_digest(each.digest), page.version.dataset
        if not each.withdrawn_at:
            here = _address(name, f"{version_path(name, each.digest)}.ndjson")
            digest = f'<a href="{escape(here)}">{digest}</a>'
        if each.digest == page.version.digest:
            digest += ' <span class="now">current</span>'
        files, size = (f"{each.entries:,}", size_of(each.size)) if not each.withdrawn_at else ("", "")
        yield (
            f'<tr><td class="w">{digest}</td><td class="w">{time_tag(each.published_at, clock=True)}</td>'
            f'<td>{_changed(each)}</td><td class="n">{files}</td><td class="n">{size}</td></tr>'
        )
    yield "</tbody></table></div>"
    if page.earlier:
        yield f'<p class="note">Not listed here: {many(page.earlier, "earlier version")}.</p>'
    yield "</section>"


def _changed(each: PageVersion) -> str:
    if each.withdrawn_at:
        return f'<span class="gone">Withdrawn {time_tag(each.withdrawn_at)}</span>'
    if each.files is None:
        return "First version" if each.is_first else "Oldest version that is kept"
    added, changed, removed = each.files
    if each.rows is not None and any(each.rows):
        more, less = each.rows
        said = [f'<span class="plus">+{many(more, "row")}</span>'] if more else []
        said += [f'<span class="minus">&minus;{many(less, "row")}</span>'] if less else []
        return ", ".join(said)
    said = [f'<span class="plus">+{many(added, "file")}</span>'] if added else []
    said += [f"{many(changed, 'file')} changed"] if changed else []
    said += [f'<span class="minus">&minus;{many(removed, "file")}</span>'] if removed else []
    return ", ".join(said) or "Published again"


def _verify(page: DatasetPage) -> Iterator[str]:
    yield '<section><h2 id="verify">Verify a copy</h2>'
    if page.files:
        file = page.files[0]
        name = file.path.rpartition("/")[2]
        yield "<p>Two files with the same SHA-256 are the same byte for byte. For a downloaded file:</p>"
        yield f"<pre tabindex=\"0\"><code>echo '{file.digest[7:]}  {escape(name)}' | sha256sum --check</code></pre>"
    yield "<p>For a copy of the whole public folder, with the public key of the archive:</p>"
    yield '<pre tabindex="0"><code>kfm verify FOLDER --key KEY</code></pre>'
    yield "<p>It checks the signed list of every version, each file, and the signed heads of the ledger.</p></section>"


def _aside(page: DatasetPage, places: Places) -> Iterator[str]:
    version = page.version
    said = _said(version)
    licence, text = str(said.get("license") or ""), str(said.get("license_text") or "")
    if licence:
        body = f"<p>{_licence(licence)}</p>"
        body += f"<p>{escape(text)}</p>".replace("\n", "<br>") if text else ""
        yield _block("Licence", body)
    yield _block("How to cite", f"<blockquote>{escape(citation(version, places))}</blockquote>")
    attribution = said.get("attribution")
    source = f"<p>{escape(str(attribution))}</p>" if attribution else ""
    yield _block("Source", source + "".join(_sources(version)))
    made = f"{escape(version.made.updater_id)} {escape(version.made.updater_version)}"
    yield _block(
        "How it was made",
        f"<p>Made {time_tag(version.made.finished_at, clock=True)} by {made}.</p>"
        f'<p><a href="{EXPLANATION}">The whole explanation</a>: sources, runs, labels and evidence.</p>',
    )
    if places.contact:
        yield _block("Contact", f"<p>{escape(places.publisher)}<br>{_contact(places.contact)}</p>")
    links = [("current.json", "Which version is current"), *_further(version), *page.links]
    if places.catalog:
        links.append((f"../../{places.catalog}/{version.dataset}/collection.json", "STAC collection"))
    yield _block("For programs", _list(links))


def _further(version: PublicVersion) -> Iterator[tuple[str, str]]:
    own = f"datasets/{version.dataset}/"
    yield FEED, "Feed of versions"
    yield CITATION, "Citation file"
    yield sums_path(version.dataset, version.digest).removeprefix(own), "Checksums of this version"


def _block(head: str, body: str) -> str:
    return f"<section><h2>{head}</h2>{body}</section>" if body else ""


def _list(links: Iterable[tuple[str, str]]) -> str:
    return (
        '<ul class="plain">'
        + "".join(f'<li><a href="{escape(to)}">{escape(said)}</a></li>' for to, said in links)
        + "</ul>"
    )


def _downloads(page: DatasetPage) -> Iterator[str]:
    """Yield the way to the data: the file itself where there are few, else the list of files."""
    if not page.files:
        return
    yield '<p class="gets">'
    if page.version.entries <= 3:
        for file in page.files:
            kind = ", ".join(filter(None, (*_formats([file]), size_of(file.size))))
            yield f'<a class="get" href="{escape(_address(page.version.dataset, file.path))}">'
            yield f"Download {escape(file.path.rpartition('/')[2])}<small>{kind}</small></a>"
    else:
        yield f'<a class="get" href="#files">Download<small>{many(page.version.entries, "file")}, '
        yield f"{size_of(page.version.size)}</small></a>"
    yield "</p>"


def _sources(version: PublicVersion) -> Iterator[str]:
    used = version.made.used()
    yield '<ul class="plain">' if used else ""
    for each in used[:SOURCES]:
        if each.id.startswith(WITHHELD_SOURCE):
            yield "<li>A protected source, whose address is withheld</li>"
        elif each.id.startswith(("https://", "http://")):
            yield f'<li><a href="{escape(each.id)}">{escape(_cut(each.id, 90))}</a></li>'
        else:
            yield f"<li>{escape(_cut(each.id.removeprefix('kfm://dataset/'), 90))}</li>"
    if len(used) > SOURCES:
        yield f"<li>and {many(len(used) - SOURCES, 'more source', 'more sources')}</li>"
    yield "</ul>" if used else ""


def citation(version: PublicVersion, places: Places) -> str:
    """Return how to cite a version: by whom, when, what, and its digest."""
    said = _said(version)
    by = str(said.get("attribution") or places.publisher)
    when = version.published_at or version.made.finished_at
    where = f" {places.public_url}/{page_paths(version.dataset)[0]}" if places.public_url else ""
    published = f" {places.title}." if places.title != by else ""
    return f"{by} ({when[:4]}): {title_of(version)}. Version {version.digest[7:19]}, {day_of(when)}.{published}{where}"


def _licence(licence: str) -> str:
    name, address = licence_name(licence), licence_address(licence)
    if not address:
        return escape(name)
    short = f" ({escape(licence)})" if name != licence else ""
    return f'<a href="{escape(address)}" rel="license">{escape(name)}</a>{short}'


def _link(page: DatasetPage, file: PageFile) -> str:
    return f'<a href="{escape(_address(page.version.dataset, file.path))}">{escape(_name(file))}</a>'


def _name(file: PageFile) -> str:
    return " / ".join(file.key)


def _address(dataset: str, path: str) -> str:
    """Return the address of a file of the dataset, as its page links to it."""
    own = f"datasets/{dataset}/"
    return path.removeprefix(own) if path.startswith(own) else f"../../{path}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
