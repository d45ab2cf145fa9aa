"""kfm webhooks: receive signed requests, sign one, check one, replay one."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from kfm.app.runs.trigger_inbox import judge, signed_headers
from kfm.app.runs.trigger_inbox import replay as take_again
from kfm.app.session.input_checks import one_line
from kfm.app.session.session import open_session
from kfm.cli.listener import needs_webhooks, secured, server_module, tell_listening
from kfm.cli.render import Screen
from kfm.cli.session import opened, settings
from kfm.errors import BadInput, Denied
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.config import Resolved


MOST = 256 * 1024


def arguments(parser: Parser) -> None:
    if parser.is_kfm:
        _serve_arguments(parser)
    for name, handler, summary in (
        ("verify", verify, "Check whether a request would be accepted now, and why not"),
        ("sign", sign, "Write the headers a sender would send with a body"),
        ("replay", replay, "Accept a request that came while nothing listened, up to keep_days ago"),
    ):
        if name != "verify" and not parser.is_kfm:
            continue
        one = parser.command(name, handler, summary)
        one.add_argument("source", metavar="SOURCE", help="its name under `webhooks:`")
        one.add_argument("--body", default="-", metavar="FILE", help="the raw body (default: stdin)")
        if name == "sign":
            one.add_argument("--id", default="", metavar="TEXT", help="standard: the id of the message")
        else:
            one.add_argument(
                "--header", action="append", default=[], metavar="H", help="'Name: value'; may be repeated"
            )


def _serve_arguments(parser: Parser) -> None:
    from kfm.cli.parser import port

    serve = parser.command(
        "serve",
        serve_webhooks,
        "Accept signed requests at /webhooks/SOURCE; each is durable before it is answered",
        "It runs nothing itself: `kfm up` runs what is pending, or `kfm resume` once.",
    )
    serve.add_argument("--host", default="127.0.0.1", metavar="HOST", help="where to listen (default: 127.0.0.1)")
    serve.add_argument("--port", type=port, default=8750, metavar="N", help="default: 8750; 0: any free one")
    serve.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM")
    serve.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    serve.add_argument("--behind-proxy", action="store_true", help="a proxy in front of KFM ends TLS")


def serve_webhooks(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    needs_webhooks(resolved)
    tls = secured(options, options.host)
    server = server_module()

    def ready(port: int) -> None:
        tell_listening(screen, resolved, options.host, port, tls=tls is not None)
        screen.say("accepted triggers wait in the inbox: `kfm triggers watch` runs them, or `kfm resume` once")

    server.serve_http(partial(open_session, resolved), options.host, options.port, tls, ready)
    screen.say("stopped; everything that was accepted is in the inbox")
    return 0


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
    """Return the headers. Each flag gives one header, or several lines as `webhook sign` writes them."""
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
    """Print the headers that a sender would add to this body, made with the first secret."""
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
    """Report whether the listener would accept this request now, and why not. Nothing changes, not even the log of
    refusals."""
    resolved = settings(options)
    source = _known(resolved, options.source)
    verdict: dict[str, Any] = judge(resolved, source, _headers(options.header), _body(options.body))
    if screen.json:
        screen.data(verdict)
    else:
        screen.fields([(name, value) for name, value in verdict.items() if value not in ("", None)])
    return 0 if verdict["accepted"] else Denied.exit_code


def replay(options: argparse.Namespace, screen: Screen) -> int:
    """Accept a request that came while no process listened. Its signature must be valid, and it may not be older than
    keep_days."""
    resolved = settings(options)
    source = _known(resolved, options.source)
    headers, body = _headers(options.header), _body(options.body)
    with opened(options, screen, "write", resolved) as session:
        kept = take_again(session, source, headers, body)
        if screen.json:
            screen.data({"known": kept is None, "triggers": kept or []})
        elif kept is None:
            screen.line("this request was accepted before: nothing changed")
        else:
            screen.line(f"accepted: {', '.join(kept) or 'it triggers nothing'}")
    return 0
