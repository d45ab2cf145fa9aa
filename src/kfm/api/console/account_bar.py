"""What every page has for its caller: the way to sign in or out, and what a change from this page carries."""

from __future__ import annotations

from html import escape


def dressed(page: bytes, csrf: str, person: str, audience: str) -> bytes:
    """Return a page with the token for its changes in the head, and who is signed in in its bar."""
    if csrf:
        page = page.replace(b"</head>", f'<meta name="kfm-csrf" content="{escape(csrf)}"></head>'.encode(), 1)
    words = f"{person} ({audience})" if person else "" if audience == "single" else "Sign in"
    link = f'<a href="/sign-in">{escape(words)}</a>' if words else ""
    return page.replace(b"</nav>", link.encode("utf-8", "replace") + b"</nav>", 1)
