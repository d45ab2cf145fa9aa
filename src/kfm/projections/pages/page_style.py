"""The look and the words that all HTML pages share: one scale of type, colours for light and dark, and numbers, sizes
and times as people read them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kfm.projections.pages import file_marks

# No page runs a script or loads anything. A block of JSON-LD is data, which a browser does not run.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root{color-scheme:light dark;--paper:#fff;--wash:#f4f7f8;--ink:#15212b;--soft:#4d5c69;--line:#dbe3e8;--link:#0b5a8a;
--deep:#0c3c5c;--on-deep:#fff;--on-soft:#c9dbe7;--good:#17633b;--good-wash:#e3f3e9;--care:#7d4306;--care-wash:#fdf0da;
--bad:#962020;--bad-wash:#fbe8e6;--raw:#e8eef5;--made:#e3f3e9;--far:#fdf0da;--mark:#7d4306;--land:#eef2e9;--shore:#8d9c86;
--dot:#b3420f;--d1:#fde3c4;--d2:#f9b97a;--d3:#ee8a3c;--d4:#cb5a12;--d5:#8a3206;
--s:.8125rem;--m:1rem;--l:1.25rem;--xl:1.5625rem;--xxl:clamp(1.75rem,1.2rem + 2.4vw,2.6rem)}
@media (prefers-color-scheme:dark){:root{--paper:#10171d;--wash:#17212a;--ink:#e9eff4;--soft:#a9b7c3;--line:#2d3b47;
--link:#86c5f2;--deep:#0b2435;--on-deep:#fff;--on-soft:#b9cddb;--good:#8fd6ac;--good-wash:#14301f;--care:#f2c078;
--care-wash:#35260f;--bad:#f2a39b;--bad-wash:#3a1916;--raw:#1f2c3a;--made:#1e3324;--far:#3a2f1b;--mark:#f0b878;
--land:#1d2a26;--shore:#60766a;--dot:#ffa566;--d1:#4a2d14;--d2:#7c4415;--d3:#b8661c;--d4:#ea9440;--d5:#ffd2a0}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
body{margin:0;background:var(--paper);color:var(--ink);
font:var(--m)/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
-webkit-text-size-adjust:100%}
.in{max-width:74rem;margin:0 auto;padding:0 1.25rem}
.bar{background:var(--deep);color:var(--on-deep)}
.bar .in{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;justify-content:space-between;
padding-top:.8rem;padding-bottom:.8rem}
.bar a{color:var(--on-deep);text-decoration:none}.bar a:hover{text-decoration:underline}
.bar .archive{font-weight:650}.bar nav{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;font-size:var(--s)}
.bar nav a{color:var(--on-soft)}
.hero{background:var(--wash);border-bottom:1px solid var(--line);padding:2.25rem 0 1.75rem}
.kind{margin:0 0 .35rem;color:var(--soft);font-size:var(--s);overflow-wrap:anywhere}
h1{font-size:var(--xxl);line-height:1.15;letter-spacing:-.015em;margin:0;overflow-wrap:anywhere;text-wrap:balance}
.lead{font-size:var(--l);line-height:1.5;color:var(--soft);margin:.9rem 0 0;max-width:46rem;overflow-wrap:anywhere}
h2{font-size:var(--xl);line-height:1.25;margin:0 0 .8rem;letter-spacing:-.01em}
h3{font-size:var(--m);margin:1.6rem 0 .3rem}
p{margin:0 0 .8rem}a{color:var(--link);text-underline-offset:.15em}
a:focus-visible,[tabindex]:focus-visible,summary:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.tags{display:flex;flex-wrap:wrap;gap:.5rem;margin:1.1rem 0 0;padding:0;list-style:none;font-size:var(--s)}
.tags li{border:1px solid var(--line);border-radius:2rem;padding:.15rem .75rem;background:var(--paper)}
.tags .good{color:var(--good);background:var(--good-wash);border-color:transparent}
.tags .care{color:var(--care);background:var(--care-wash);border-color:transparent}
.tags a{color:inherit}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr));gap:1rem 1.5rem;margin:1.6rem 0 0}
.facts dt{color:var(--soft);font-size:var(--s)}
.facts dd{margin:0;font-size:var(--l);font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.two{display:grid;gap:2.5rem 3.5rem;padding-top:2.25rem;padding-bottom:3rem}
@media (min-width:62rem){.two{grid-template-columns:minmax(0,1fr) 19.5rem}}
.one{padding-top:2.25rem;padding-bottom:3rem}.two>*,.one>*{min-width:0}section{margin:0 0 2.75rem}
aside section{margin:0 0 1.6rem;padding:0 0 1.4rem;border-bottom:1px solid var(--line)}
aside section:last-child{border:0}
aside h2{font-size:var(--m);letter-spacing:0;margin:0 0 .4rem}
aside p,aside ul,aside dl{font-size:.9375rem;margin:0 0 .5rem;overflow-wrap:anywhere}
aside ul,ul.plain{list-style:none;padding:0}
aside li{margin:0 0 .3rem}
.gets{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.4rem 0 0}
.get{background:var(--link);color:var(--paper);text-decoration:none;border-radius:.4rem;
padding:.7rem 1rem;
font-weight:600;overflow-wrap:anywhere;line-height:1.35}.get:hover{text-decoration:underline}
.get small{display:block;font-weight:400;font-size:var(--s)}
.note{color:var(--soft);font-size:var(--s);margin:.5rem 0 0}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem;background:var(--paper)}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.5rem .85rem;border-bottom:1px solid var(--line);vertical-align:top}
tbody tr:last-child td,tbody tr:last-child th{border-bottom:0}
thead th{background:var(--wash);color:var(--soft);font-weight:600;font-size:var(--s);white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap}td.w,.rows td{white-space:nowrap}.rows{width:auto;min-width:50%}
.none{color:var(--soft)}
code,pre,kbd{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875em;overflow-wrap:anywhere}
pre{background:var(--wash);border:1px solid var(--line);border-radius:.5rem;padding:.85rem 1rem;overflow-x:auto;
margin:.4rem 0 1rem;
line-height:1.5}pre code{font-size:.8125rem;overflow-wrap:normal}
blockquote{margin:0 0 .5rem;padding:.7rem .9rem;background:var(--wash);border-left:3px solid var(--link);
font-size:.9375rem;
overflow-wrap:anywhere}
figure{margin:0}figcaption{color:var(--soft);font-size:var(--s);margin:.5rem 0 0}
.map{display:block;width:100%;height:auto;border:1px solid var(--line);border-radius:.5rem;background:var(--wash)}
.map .land{fill:var(--land);stroke:var(--shore);stroke-width:1.2}.map .grid{fill:none;stroke:var(--line);
stroke-width:1}
.map text{fill:var(--soft);font:11px system-ui,sans-serif}.map .bar-line{stroke:var(--ink);stroke-width:1.5;fill:none}
@media (max-width:32rem){.map text{font-size:18px}}
.map .inset{fill:var(--paper);stroke:var(--line)}.map .here{fill:none;stroke:var(--dot);stroke-width:2}
.map .dots{fill:none;stroke:var(--dot);stroke-linecap:round;stroke-opacity:.72}
.map .ways{fill:none;stroke:var(--dot);stroke-width:1.4;stroke-linejoin:round}
.map .areas{fill:var(--dot);fill-opacity:.2;stroke:var(--dot);stroke-width:1;stroke-linejoin:round}
.map .cells{fill:var(--dot);fill-opacity:.38;stroke:var(--dot);stroke-width:1}
.map .d1{fill:var(--d1)}.map .d2{fill:var(--d2)}.map .d3{fill:var(--d3)}.map .d4{fill:var(--d4)}
.map .d5{fill:var(--d5)}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0;margin:.5rem 0 0;font-size:var(--s);
color:var(--soft)}
.key i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem;border-radius:.15rem;vertical-align:-.1rem}
.key .d1{background:var(--d1)}.key .d2{background:var(--d2)}.key .d3{background:var(--d3)}
.key .d4{background:var(--d4)}
.key .d5{background:var(--d5)}
.plus{color:var(--good)}.minus{color:var(--bad)}.gone{color:var(--bad);background:var(--bad-wash);
border-radius:.25rem;padding:.05rem .4rem}
.now{color:var(--good);background:var(--good-wash);border-radius:.25rem;padding:.05rem .4rem;font-size:var(--s)}
.cards{display:grid;gap:1.25rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));padding:0;
list-style:none;
margin:2rem 0 3rem}
.cards li{border:1px solid var(--line);border-radius:.6rem;padding:1.15rem 1.25rem;background:var(--paper);
display:flex;
flex-direction:column;min-width:0}
.cards .thumb{border:0;border-radius:.35rem;margin:0 0 .9rem}
.cards h2{font-size:var(--l);margin:0 0 .4rem;overflow-wrap:anywhere}.cards p{overflow-wrap:anywhere;margin:0 0 .8rem}
.cards .foot{margin:auto 0 0;color:var(--soft);font-size:var(--s)}
.cards .care{color:var(--care);background:var(--care-wash);border-radius:2rem;padding:.05rem .6rem}
.end{border-top:1px solid var(--line);color:var(--soft);font-size:var(--s);padding:1.4rem 0 2.5rem}
.words{max-width:64rem}dl.pairs{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.25rem 1.25rem;
margin:0 0 1rem}
dl.pairs dt{color:var(--soft)}dl.pairs dd{margin:0;overflow-wrap:anywhere}
@media (max-width:32rem){dl.pairs{grid-template-columns:minmax(0,1fr);gap:0}dl.pairs dd{margin:0 0 .6rem}}
ol.told{padding-left:1.4rem}ol.told li{margin:.35rem 0;overflow-wrap:anywhere}.cites{display:block;color:var(--soft);
font-size:var(--s)}
.cites code{color:var(--mark)}
.scroll svg{display:block;max-width:none}.scroll.picture{padding:1rem}
.box rect{fill:var(--raw);stroke:var(--line);stroke-width:1.5}.box.harmonised rect{fill:var(--made)}
.box.derived rect{fill:var(--far)}.box.closed rect{stroke:var(--mark);stroke-dasharray:5 3}
.box text{fill:var(--ink);font:13px system-ui,sans-serif}.box .stage{font-size:11px;fill:var(--soft)}
.box .name{font-weight:600}.box .digest{font:11px ui-monospace,monospace}
.arrow{fill:none;stroke:var(--soft);stroke-width:1.5}.tip{fill:var(--soft)}
.sea{fill:none;stroke:var(--line)}.line{stroke:var(--line);fill:none}
.degree{fill:var(--soft);font:11px system-ui,sans-serif}
.extent{fill:var(--link);fill-opacity:.25;stroke:var(--link);stroke-width:2}
@media print{:root{color-scheme:light}.bar{background:none;color:var(--ink);border-bottom:2px solid var(--ink)}
.bar a,.bar nav a{color:var(--ink)}.bar nav,.get{display:none}.hero{background:none}.scroll{overflow:visible}
section,figure,tr{break-inside:avoid}a[href^="http"]::after{content:" (" attr(href) ")";font-size:.8em;
overflow-wrap:anywhere}}
"""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def document(title: str, body: Sequence[str], head: str = "", policy: str = POLICY) -> str:
    """Return a whole HTML document. `head` is written into its head as it is."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">{file_marks.HTML}'
        f"<title>{escape(title)}</title><style>{STYLE}</style>{head}</head><body>{''.join(body)}</body></html>\n"
    )


def as_bytes(page: str) -> bytes:
    """Return the bytes of a page. A title may hold half a surrogate pair, which is not text."""
    return page.encode("utf-8", "replace")


def size_of(count: int) -> str:
    """Return a number of bytes as people write it: 1.2 MB. The units are powers of 1000."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    if unit == 0:
        return f"{count:,} byte{'s' * (count != 1)}"
    return f"{size:.1f} {_UNITS[unit]}" if size < 99.95 else f"{size:.0f} {_UNITS[unit]}"


def many(count: int, what: str, plural: str = "") -> str:
    """Return a count with its noun: 1 file, 1,200 files."""
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def day_of(moment: str) -> str:
    """Return the day of a moment in RFC 3339: 2 Mar 2026; the text itself if it is none."""
    year, month, day = moment[:4], moment[5:7], moment[8:10]
    if not (year.isdigit() and month.isdigit() and day.isdigit() and 1 <= int(month) <= 12):
        return moment
    return f"{int(day)} {_MONTHS[int(month) - 1]} {int(year)}"


def time_tag(moment: str, *, clock: bool = False) -> str:
    """Return a moment for people and for programs; with `clock` the time of day too. Moments are in UTC."""
    if not moment:
        return ""
    said = day_of(moment)
    if clock and said != moment and len(moment) >= 16:
        said += f", {moment[11:16]} UTC"
    return f'<time datetime="{escape(moment)}">{escape(said)}</time>'


def short_digest(digest: str) -> str:
    """Return the first 12 characters of a digest, with the whole digest for those who point at it."""
    text = digest.removeprefix("sha256:")
    return f'<code title="{escape(digest)}">{escape(text[:12])}</code>'
