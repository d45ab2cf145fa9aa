"""The HTTP listener of `kfm up --listen` and `kfm webhooks serve`, and the lines that report runs as they end."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kfm import DISTRIBUTION, config
from kfm.app.runs import execution
from kfm.app.session.session import open_session
from kfm.cli.parser import Usage
from kfm.cli.render import Screen
from kfm.errors import BadInput, Refused
from kfm.model.canonical import canonical
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse
    import ssl

    from kfm.app.daemon.source_watch import Watch
    from kfm.app.runs.execution import Outcome
    from kfm.app.session.session import Session
    from kfm.cli.session import Tally
    from kfm.config import Resolved
    from kfm.model.records import Receipt


def secured(options: argparse.Namespace, host: str) -> ssl.SSLContext | None:
    """Return the TLS context to listen with, or None. Raise Refused if other machines could read the requests
    unencrypted."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise BadInput("--tls-cert and --tls-key belong together", hint="give both, or none")
    tls = _tls(options.tls_cert, options.tls_key) if options.tls_cert is not None else None
    if not tls and not options.behind_proxy and not is_loopback(host):
        raise Refused(
            f"{printable(host)} is open to others and there is no TLS",
            hint="give --tls-cert and --tls-key, or --behind-proxy if a proxy ends TLS before us",
        )
    return tls


def needs_webhooks(resolved: Resolved) -> None:
    """Raise BadInput if there is no webhook to listen for."""
    if not resolved.config.webhooks:
        raise BadInput("the configuration names no webhook", hint="add one under `webhooks:`")


def server_module() -> ModuleType:
    """Return the module that serves HTTP. Raise Refused if it is not installed."""
    try:
        from kfm.api import server
    except ImportError:
        raise Refused("serving needs uvicorn and httptools", hint=f"pip install '{DISTRIBUTION}[serve]'") from None
    return server


def reopened(resolved: Resolved) -> Session:
    """Open a session with kfm.yml as it is now."""
    return open_session(config.load(resolved.path, os.environ))


def rules_of(
    server: ModuleType, host: str, *, behind_proxy: bool, is_open: bool = False, rate: int | None = None
) -> Any:
    """Return who may ask a server that listens there, and how often. What a proxy sends is not of this machine."""
    local = is_loopback(host) and not behind_proxy
    return server.Rules("open" if is_open else "local" if local else "shared", behind_proxy, rate)


def index_file(resolved: Resolved) -> str:
    """Return the path of the item index, next to what else the installation keeps for itself."""
    return resolved.at(os.path.join(".kfm", "serve", "items.db"))


def tell_listening(
    screen: Screen,
    resolved: Resolved,
    host: str,
    port: int,
    *,
    tls: bool,
    metrics: bool = False,
    pages: bool = False,
    webhooks: bool = True,
) -> None:
    scheme, names = "https" if tls else "http", sorted(resolved.config.webhooks) if webhooks else []
    host = f"[{host}]" if ":" in host else host
    if screen.json:  # one line, at once: the program that started this process may wait for it
        screen.line(canonical({"listening": f"{scheme}://{host}:{port}", "webhooks": names}).decode())
        screen.out.flush()
    if pages:
        screen.say(f"serving at {scheme}://{host}:{port}/  (API at /v1, STAC at /stac)")
    if names:
        screen.say(f"listening on {scheme}://{host}:{port}/webhooks/…  ({', '.join(names)})")
    if metrics:
        screen.say(f"metrics for Prometheus at {scheme}://{host}:{port}/metrics")


def _tls(cert: str, key: str) -> ssl.SSLContext:
    """Return the TLS context with certificate and key. The error names the flag that is wrong."""
    import ssl

    for flag, path in (("--tls-cert", cert), ("--tls-key", key)):
        try:
            with open(path, "rb"):
                pass
        except (OSError, ValueError) as problem:
            reason = (getattr(problem, "strerror", None) or "not a file name").lower()
            raise Usage(f"{flag} {printable(path)} cannot be read: {reason}", hint="name a file in PEM") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cafile=cert)
    except ssl.SSLError:
        raise Usage(f"--tls-cert {printable(cert)} holds no certificate", hint="name a file in PEM") from None
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            what, hint = f"is not the key of --tls-cert {printable(cert)}", "name the key it was made with"
        else:
            what, hint = "holds no key that can be used", "name a file in PEM"
        raise Usage(f"--tls-key {printable(key)} {what}", hint=hint) from None
    return context


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def teller(
    session: Session, watching: Watch, screen: Screen, tally: Tally, kept: Outcome | None = None
) -> Callable[[Iterator[Receipt]], int]:
    """Return a function that takes receipts as they come. It makes each durable and publishes it, then prints a line,
    and returns how many there were. `kept` collects the receipts."""

    def told(receipts: Iterator[Receipt]) -> int:
        count, found, since = 0, [], session.clock.monotonic()
        for receipt in receipts:  # each run is published when it ends, not when all have ended
            count += 1
            found.append(receipt)
            if session.clock.monotonic() - since >= 1:
                tell(found)
                found, since = [], session.clock.monotonic()
        tell(found)
        return count

    def tell(found: list[Receipt]) -> None:
        if found:
            watching.busy = True
            outcome = execution.Outcome(found)
            execution.settle(session, outcome, tally)
            watching.busy = False
            if kept is not None:
                kept.receipts += outcome.receipts
                kept.effects += outcome.effects
        for receipt in found:
            tally.ended(receipt)
            _tell_receipt(screen, receipt)
        tally.errors.clear()
        screen.out.flush()

    return told


def _tell_receipt(screen: Screen, receipt: Receipt) -> None:
    """Print a line about a receipt."""
    if screen.json:
        screen.line(canonical(receipt).decode())
    else:
        name = receipt.dataset or receipt.job_type
        line = f"{receipt.finished_at}  {name}  {receipt.status}  {receipt.outcome}  {receipt.run_id}"
        screen.line(line)
