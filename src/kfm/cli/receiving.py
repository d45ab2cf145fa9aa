"""kfm serve, webhook, triggers: what comes from outside, and what waits because of it."""

from __future__ import annotations

import argparse
import ipaddress
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kfm import DISTRIBUTION
from kfm.cli import Stopped
from kfm.cli.opening import known_dataset, one_line, opened, settings
from kfm.cli.parser import Usage
from kfm.cli.render import Screen
from kfm.errors import BadInput, Denied, Refused
from kfm.model.canonical import canonical
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import ssl

    from kfm.app.core.session import Session
    from kfm.app.daemon.source_watch import Watch
    from kfm.app.runs.execution import Outcome
    from kfm.cli.running import Tally
    from kfm.config import Resolved
    from kfm.model.records import Receipt

MOST = 256 * 1024


def serve_webhooks(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    tls = secured(options, resolved, options.host)
    server = server_module()
    from kfm.app.core.session import open_session

    def ready(port: int) -> None:
        tell_listening(screen, resolved, options.host, port, tls=tls is not None)
        screen.say("accepted triggers wait in the inbox: `kfm watch` runs them, or `kfm resume` once")

    server.serve_webhooks(partial(open_session, resolved), options.host, options.port, tls, ready)
    screen.say("stopped; everything that was accepted is in the inbox")
    return 0


def secured(options: argparse.Namespace, resolved: Resolved, host: str) -> ssl.SSLContext | None:
    """With what it listens there. Refused where others could hear what is said."""
    if not resolved.config.webhooks:
        raise BadInput("the configuration names no webhook", hint="add one under `webhooks:`")
    if (options.tls_cert is None) != (options.tls_key is None):
        raise BadInput("--tls-cert and --tls-key belong together", hint="give both, or none")
    tls = _tls(options.tls_cert, options.tls_key) if options.tls_cert is not None else None
    if not tls and not options.behind_proxy and not _is_loopback(host):
        raise Refused(
            f"{printable(host)} is open to others and there is no TLS",
            hint="give --tls-cert and --tls-key, or --behind-proxy if a proxy ends TLS before us",
        )
    return tls


def server_module() -> ModuleType:
    """What serves, if it is installed."""
    try:
        from kfm.api import server
    except ImportError:
        raise Refused("serving needs uvicorn and httptools", hint=f"pip install '{DISTRIBUTION}[serve]'") from None
    return server


def tell_listening(screen: Screen, resolved: Resolved, host: str, port: int, *, tls: bool) -> None:
    scheme, names = "https" if tls else "http", sorted(resolved.config.webhooks)
    host = f"[{host}]" if ":" in host else host
    if screen.json:  # one line, at once: whoever started us waits for it
        screen.line(canonical({"listening": f"{scheme}://{host}:{port}", "webhooks": names}).decode())
        screen.out.flush()
    screen.say(f"listening on {scheme}://{host}:{port}/webhooks/…  ({', '.join(names)})")


def _tls(cert: str, key: str) -> ssl.SSLContext:
    """Certificate and key, loaded; whichever of the two flags is at fault is named."""
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


def watch(options: argparse.Namespace, screen: Screen) -> int:
    """Until SIGTERM or Ctrl-C. What it is told meanwhile is durable before it says so."""
    from kfm.app.daemon.source_watch import Watch
    from kfm.cli.running import Tally

    resolved = settings(options)
    names = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    names = names or sorted(resolved.config.datasets)
    with opened(options, screen, "write", resolved) as session:
        tally = Tally(screen)
        watching = Watch(session, names, tally.failed)
        screen.say(f"watching {', '.join(names)}")

        try:
            return _watch(watching, teller(session, watching, screen, tally), options.once, tally)
        except (KeyboardInterrupt, Stopped):
            if watching.busy or options.once:
                raise
            screen.say("stopped; nothing was at work")  # to look and to wait begins nothing: so a watch ends
            return 0


def teller(
    session: Session, watching: Watch, screen: Screen, tally: Tally, kept: Outcome | None = None
) -> Callable[[Iterator[Receipt]], int]:
    """Takes receipts as they come: durable and published first, then said, a line each. Answers how many there were.
    `kept` collects them, where they end."""
    from kfm.app.runs import execution

    def told(receipts: Iterator[Receipt]) -> int:
        count, found, since = 0, [], session.clock.monotonic()
        for receipt in receipts:  # what is done is not kept back until all is
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


def _watch(watching: Watch, told: Callable[[Iterator[Receipt]], int], once: bool, tally: Tally) -> int:
    import time

    told(watching.take_up())
    while True:
        seen = watching.poll()
        if not once:
            told(watching.drain())
        elif not watching.more():
            told(watching.drain(patient=False))
            return tally.code
        if not seen:
            time.sleep(watching.pause_ms() / 1000)


def _tell_receipt(screen: Screen, receipt: Receipt) -> None:
    """A line each, as they come."""
    if screen.json:
        screen.line(canonical(receipt).decode())
    else:
        line = f"{receipt.finished_at}  {receipt.dataset}  {receipt.status}  {receipt.outcome}  {receipt.run_id}"
        screen.line(line)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _body(path: str) -> bytes:
    if path == "-":
        body = sys.stdin.buffer.read(MOST + 1)
    else:
        try:
            with open(path, "rb") as file:
                body = file.read(MOST + 1)
        except (OSError, ValueError) as problem:
            reason = (getattr(problem, "strerror", None) or "not a file name").lower()
            raise BadInput(f"{printable(path)} cannot be read: {reason}", hint="name a file, or - for stdin") from None
    if len(body) > MOST:
        raise BadInput("the body is larger than 256 KiB", hint="no webhook takes more")
    return body


def _headers(given: list[str]) -> list[tuple[bytes, bytes]]:
    """A header each, or several in one: a line each, as `webhook sign` writes them."""
    found = []
    for text in (line for each in given for line in each.replace("\r", "\n").split("\n") if line.strip()):
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise BadInput("--header is not a header", hint="write it as 'Name: value'")
        found.append((name.strip().lower().encode(), value.strip().encode("utf-8", "surrogateescape")))
    return found


def _known(resolved: Resolved, source: str) -> str:
    if source not in resolved.config.webhooks:
        known = ", ".join(sorted(resolved.config.webhooks)) or "none"
        raise BadInput(f"no webhook is called {printable(source)}", hint=f"the configuration names: {known}")
    return source


def sign(options: argparse.Namespace, screen: Screen) -> int:
    """The headers a sender would give with this body, made with the first secret."""
    from kfm.app.runs.trigger_inbox import signed_headers

    resolved = settings(options)
    source = _known(resolved, options.source)
    hook = resolved.config.webhooks[source]
    secret = resolved.secret(hook.secrets[0], os.environ)
    headers = signed_headers(hook.accept, secret, _body(options.body), one_line("--id", options.id))
    if screen.json:
        screen.data({"headers": headers})
    else:
        for name, value in headers.items():
            screen.line(f"{name}: {value}")
    return 0


def verify(options: argparse.Namespace, screen: Screen) -> int:
    """Whether the door would take this request now, and why not. Changes nothing, not even the log of refusals."""
    from kfm.app.runs.trigger_inbox import judge

    resolved = settings(options)
    source = _known(resolved, options.source)
    verdict: dict[str, Any] = judge(resolved, source, _headers(options.header), _body(options.body))
    if screen.json:
        screen.data(verdict)
    else:
        screen.fields([(name, value) for name, value in verdict.items() if value not in ("", None)])
    return 0 if verdict["accepted"] else Denied.exit_code


def replay(options: argparse.Namespace, screen: Screen) -> int:
    """Take a request that came while nobody listened: its signature must hold, and it be no older than keep_days."""
    resolved = settings(options)
    source = _known(resolved, options.source)
    headers, body = _headers(options.header), _body(options.body)
    from kfm.app.runs.trigger_inbox import replay as take_again

    with opened(options, screen, "write", resolved) as session:
        kept = take_again(session, source, headers, body)
        if screen.json:
            screen.data({"known": kept is None, "triggers": kept or []})
        elif kept is None:
            screen.line("it was taken before: nothing changed")
        else:
            screen.line(f"taken: {', '.join(kept) or 'it asks for nothing'}")
    return 0


# -- triggers


def triggers_list(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.queries import triggers

    with opened(options, screen, "read") as session:
        rows = list(triggers(session, ended=options.all, limit=options.limit or -1))
    if screen.json:
        screen.data(rows)
        return 0
    if rows:
        columns = ("trigger_id", "dataset", "kind", "state", "received_at", "actor", "run_id")
        screen.table(
            tuple(name.removesuffix("_id") for name in columns),
            [tuple(r["asks"] or r[n] if n == "kind" else r[n] for n in columns) for r in rows],
        )
    else:
        screen.say("no trigger waits" + ("" if options.all else "; --all shows those that ended"))
    return 0


def triggers_show(options: argparse.Namespace, screen: Screen) -> int:
    from kfm.app.runs.queries import trigger

    with opened(options, screen, "read") as session:
        row = trigger(session, options.trigger)
    if screen.json:
        screen.data(row)
    else:
        screen.fields([(name, value) for name, value in row.items() if value])
    return 0


def triggers_retry(options: argparse.Namespace, screen: Screen) -> int:
    """Run a trigger now: one that waits as it is, one that ended as a new one like it."""
    from kfm.app.runs.execution import retrying, work
    from kfm.cli.running import Tally, show_runs

    with opened(options, screen, "write") as session:
        tally = Tally(screen)
        outcome = work(session, [retrying(options.trigger)], tally)
        show_runs(session, screen, tally, outcome)
        return tally.code
