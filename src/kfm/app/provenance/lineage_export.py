"""`kfm lineage export`: writes the public records of runs in standard formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kfm.app.session.session import Session
from kfm.delivery.public_runs import public_run
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.public_run import PublicRun
from kfm.projections import cloudevents, cypher, mermaid, openlineage, prov


def export(session: Session, grammar: str, *, dataset: str = "", run_id: str = "") -> Iterator[bytes]:
    """Yield the export of all runs in ledger order, of the runs of a dataset, or of one run. BadInput if there is no
    such run."""
    return _GRAMMARS[grammar](_runs(session, dataset, run_id))


def _runs(session: Session, dataset: str, run_id: str) -> Iterator[PublicRun]:
    found = False
    for entry in session.state.ledger.entries():
        if dataset in ("", entry.dataset) and run_id in ("", entry.run_id):
            found = True
            yield public_run(session.state, session.objects, entry)
    if run_id and not found:
        raise BadInput("no such run has ended", hint="see `kfm runs list`", run_id=run_id)


def _lines(documents: Callable[[PublicRun], Iterable[Any]]) -> Callable[[Iterator[PublicRun]], Iterator[bytes]]:
    def write(runs: Iterator[PublicRun]) -> Iterator[bytes]:
        for run in runs:
            for document in documents(run):
                yield canonical(document) + b"\n"

    return write


def _prov(runs: Iterator[PublicRun]) -> Iterator[bytes]:
    """Yield one PROV document with a bundle for each run."""
    prefixes: dict[str, str] = {}
    bundles: dict[str, Any] = {}
    for run in runs:
        document = prov.prov_json(run)
        prefixes |= document["prefix"]
        bundles |= document["bundle"]
    yield prov.to_bytes({"prefix": prefixes, "bundle": bundles})


def _mermaid(runs: Iterator[PublicRun]) -> Iterator[bytes]:
    yield mermaid.chart(runs).encode()


_GRAMMARS: dict[str, Callable[[Iterator[PublicRun]], Iterator[bytes]]] = {
    "openlineage": _lines(openlineage.events),
    "cloudevents": _lines(lambda run: [cloudevents.event(run)]),
    "prov": _prov,
    "prov-o": _lines(lambda run: [prov.prov_o(run)]),
    "cypher": _lines(lambda run: cypher.batch([run])),
    "mermaid": _mermaid,
}
