"""The page of the key that a person keeps in a browser."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.frame import console_page
from kfm.api.console.parts import section

if TYPE_CHECKING:
    from kfm.api.console.frame import Around


def key_page(person: str, around: Around) -> bytes:
    own = (
        f'<div id="own-key" role="group" aria-label="The key of this browser" data-person="{escape(person)}">'
        "<p>To make a key here, this page needs script. Without it, make one with "
        "<code>kfm keys new --person NAME --out FILE</code> and sign with <code>kfm review approve --key FILE</code>."
        "</p></div>"
    )
    notes = (
        "<ul><li>The private half stays in this browser. No page and no server can read it, and no backup of the "
        "installation holds it.</li>"
        "<li>The public half counts once it is on the key list. An admin puts it there and says whose it is.</li>"
        "<li>If the browser is lost or stolen, an admin types <code>kfm keys revoke ID</code>, and you make a new "
        "key.</li></ul>"
    )
    lead = '<p class="lead">You sign in to look and to ask. You decide with a signature, made by this key.</p>'
    body = [*section("The key of this browser", (own,)), *section("What this key is", (notes,))]
    return console_page("My key", around, body, "/my-key", ("key_form.js",), lead)
