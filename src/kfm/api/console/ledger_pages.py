"""The pages of the ledger: the list of entries, and one entry with the proof that it is in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import commands, json_link, more, pairs, run_link, section, table
from kfm.app.serving.ledger_answers import shown_fields
from kfm.projections.pages.page_style import many, short_digest, time_tag

if TYPE_CHECKING:
    from kfm.app.serving.ledger_answers import LedgerList, LedgerProof, LedgerRow


def ledger_page(found: LedgerList, query: Mapping[str, Any], around: Around) -> bytes:
    headers = ("Entry", "When", "Operation", "Dataset", "Outcome", "Receipt", "Run")
    body = [
        "<p>Each finished run and each operation is one entry. An entry commits to all entries before it.</p>",
        *table("Entries of the ledger, the newest first", headers, map(_row, found.entries), "No entry is shown here."),
    ]
    if found.next:
        body.append(more("/ledger", {**query, "after": found.next}, "Older entries"))
    body.append(json_link("/v1/ledger"))
    return console_page("Ledger", around, body, "/ledger")


def _row(row: LedgerRow) -> tuple[str, ...]:
    return (
        f'<a href="/ledger/{row.index}">{row.index:,}</a>',
        time_tag(row.at, clock=True),
        escape(row.op),
        escape(row.dataset),
        escape(row.outcome),
        short_digest(row.receipt_digest),
        run_link(row.run_id),
    )


def ledger_entry_page(found: LedgerProof, around: Around) -> bytes:
    row = found.entry
    lead = f'<p class="lead">{escape(row.op)} of {escape(row.dataset)}: {escape(row.outcome)}</p>'

    def inside() -> Iterator[str]:
        yield from section("Entry", _entry(found))
        yield from section("Proof", _proof(found), "proof-of-inclusion")
        yield json_link(f"/v1/ledger/{row.index}")

    return console_page(f"Ledger entry {row.index:,}", around, list(inside()), "", ("proof.js",), lead)


def _entry(found: LedgerProof) -> Iterator[str]:
    row = found.entry
    yield from pairs(
        (
            ("When", time_tag(row.at, clock=True)),
            ("Run", run_link(row.run_id, row.run_id)),
            ("Receipt", f"<code>{escape(row.receipt_digest)}</code>"),
            ("Digest of the entry", f"<code>{escape(found.digest)}</code>"),
        )
    )
    moves = ((escape(m.ref), escape(m.before[:19] or "nothing"), escape(m.after[:19] or "nothing")) for m in row.moves)
    yield from table("Refs that it moved", ("Ref", "From", "To"), moves)
    fields = [(name, escape(value)) for name, value in shown_fields(found)]
    if fields:
        yield "<h3>As it is stored</h3>"
        yield from pairs(fields)


def _proof(found: LedgerProof) -> Iterator[str]:
    index = found.entry.index
    if not found.checkpoint:
        yield '<p class="check">No signed head of the ledger covers this entry yet, so nothing proves it to others. '
        yield "<code>kfm audit export</code> signs one, where <code>ledger.sign_with</code> is set.</p>"
        return
    yield f"<p>The signed head is about {many(found.size, 'entry', 'entries')}. The hash of this entry and the "
    yield f"{many(len(found.hashes), 'hash', 'hashes')} below lead to its root, as RFC 9162 says.</p>"
    yield f'<p class="check" id="check" role="status" data-proof="/v1/ledger/{index}">With a script, your browser '
    yield "checks this proof here by itself. Without one, these commands do:</p>"
    yield from commands((f"kfm audit prove {index}", "kfm audit verify"))
    yield "<h3>Signed head</h3>"
    yield f"<pre><code>{escape(found.checkpoint)}</code></pre>"
    yield "<h3>Keys that this server trusts</h3><p>Compare the key with one that you got in another way.</p>"
    yield from commands(found.keys)
    rows = ((str(n), f"<code>{escape(each)}</code>") for n, each in enumerate((found.leaf, *found.hashes)))
    yield from table("Hashes from the entry to the root", ("Step", "Hash"), rows)
