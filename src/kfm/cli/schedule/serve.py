"""kfm serve: the governed API, the STAC API and the console over HTTP."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from kfm.app.session.session import open_session
from kfm.cli.listener import index_file, reopened, rules_of, secured, server_module, tell_listening
from kfm.cli.parser import Usage
from kfm.cli.render import Screen
from kfm.cli.session import opened, settings

if TYPE_CHECKING:
    from kfm.cli.parser import Parser
    from kfm.model.ports import Log

MORE = """\
It serves what the published refs and the labels allow at the moment of each request: pages for people at /, JSON at
/v1, a STAC API at /stac, the public files at /datasets, and webhooks at /webhooks. It runs nothing: `kfm up --listen`
does both. Without TLS it listens on loopback only, unless a proxy in front of it ends TLS (--behind-proxy).
A person who sends a token (`kfm token new`), or signs in at /sign-in, reads as the key list says. Everybody else is
the public; without a key list the one user of this machine reads over loopback."""


def arguments(parser: Parser) -> None:
    from kfm.cli.parser import port

    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=8750, metavar="N", help="default: 8750; 0: any free one")
    parser.add_argument("--metrics", action="store_true", help="answer /metrics for Prometheus, too")
    parser.add_argument(
        "--open",
        action="store_true",
        help="read-only, for the open internet: everybody is the public; no tokens, webhooks or /metrics",
    )
    parser.add_argument(
        "--rate",
        type=_rate,
        metavar="N",
        help="requests a minute of each token, or of each address without one; 0: no limit (default: 600, and none "
        "for this machine)",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front of KFM ends TLS")
    parser.set_defaults(handler=serve)


def serve(options: argparse.Namespace, screen: Screen) -> int:
    if options.open and options.metrics:
        raise Usage("--metrics is not for the open internet", hint="leave out --open or --metrics")
    resolved = settings(options)
    tls = secured(options, options.host)
    server = server_module()
    with opened(options, screen, "write", resolved):
        """The state exists, and what was closed since it was published is withdrawn."""

    def ready(port: int) -> None:
        tell_listening(
            screen,
            resolved,
            options.host,
            port,
            tls=tls is not None,
            metrics=options.metrics,
            pages=True,
            webhooks=not options.open,
        )

    served = server.Served(
        partial(reopened, resolved),
        resolved.path,
        index_file(resolved),
        rules_of(server, options.host, behind_proxy=options.behind_proxy, is_open=options.open, rate=options.rate),
        _log(options),
    )
    server.serve_http(
        partial(open_session, resolved), options.host, options.port, tls, ready, served=served, metrics=options.metrics
    )
    screen.say("stopped")
    return 0


def _log(options: argparse.Namespace) -> Log | None:
    """Return the log that has a line for each request; None unless --verbose asks for it."""
    if not options.verbose or options.quiet:
        return None
    from kfm.app.session.backends import open_log

    return open_log(sys.stderr, lines="jsonl" if os.environ.get("KFM_LOG") == "jsonl" else "human")


def _rate(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise argparse.ArgumentTypeError("must be a number of requests a minute, or 0")
    return int(text)
