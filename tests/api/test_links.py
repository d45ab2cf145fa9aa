"""Every link that a page of the server has leads somewhere on it."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from urllib.parse import quote, urljoin, urlsplit

from kfm.api.route_table import ROUTES
from tests.api.roles_site import template_of
from tests.api.serving_site import OPEN, Site

OF_EACH = 1  # pages of one route that are read
LINK = re.compile(r'(?:href|src)="([^"]+)"')
ELSEWHERE = {"/livez", "/readyz", "/metrics"}


def links_of(page: str, at: str) -> set[str]:
    """The addresses of this server that a page links to, without their fragments."""
    found = (urljoin(at, unescape(link)) for link in LINK.findall(page))
    here = (urlsplit(link) for link in found if link.startswith("/") and not link.startswith("//"))
    return {each.path + (f"?{each.query}" if each.query else "") for each in here}


def test_every_link_on_every_page_leads_somewhere(served: Site) -> None:
    waiting, known, read = ["/", f"/datasets/{OPEN}/"], set[str](), Counter[str]()
    broken = []
    while waiting:
        at = waiting.pop(0)
        template = template_of(at)
        page = served.ask(quote(at, safe="/?=&%@:,+"))
        read[template] += 1
        for link in sorted(links_of(page.body.decode(), at) - known):
            known.add(link)
            answer = served.ask(quote(link, safe="/?=&%@:,+"), "HEAD")
            if answer.status not in (200, 303) and link not in ELSEWHERE:
                broken.append((at, link, answer.status))
            elif answer.headers.get("content-type", "").startswith("text/html") and read[template_of(link)] < OF_EACH:
                waiting.append(link)
    assert broken == []
    pages = {route.path for route in ROUTES if route.method == "GET" and route.media.startswith("text/html")}
    assert len(known) > 100 and len(set(read) & pages) > 15
    assert any(link.endswith("feed.xml") for link in known) and any(link.endswith(".SHA256SUMS") for link in known)
