"""kfm serve: the governed API, the STAC API and the console over HTTP."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kfm.app.session.session import open_session
from kfm.cli.listener import index_file, reopened, secured, server_module, tell_listening
from kfm.cli.render import Screen
from kfm.cli.session import opened, settings

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser

MORE = """\
It serves what the published refs and the labels allow at the moment of each request: pages for people at /, JSON at
/v1, a STAC API at /stac, the public files at /datasets, and webhooks at /webhooks. It runs nothing: `kfm up --listen`
does both. Without TLS it listens on loopback only, unless a proxy in front of it ends TLS (--behind-proxy)."""


def arguments(parser: Parser) -> None:
    from kfm.cli.parser import port

    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=port, default=8750, metavar="N", help="default: 8750; 0: any free one")
    parser.add_argument("--metrics", action="store_true", help="answer /metrics for Prometheus, too")
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front of KFM ends TLS")
    parser.set_defaults(handler=serve)


def serve(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    tls = secured(options, options.host)
    server = server_module()
    with opened(options, screen, "write", resolved):
        """The state exists, and what was closed since it was published is withdrawn."""

    def ready(port: int) -> None:
        tell_listening(screen, resolved, options.host, port, tls=tls is not None, metrics=options.metrics, pages=True)

    served = server.Served(partial(reopened, resolved), resolved.path, index_file(resolved))
    server.serve_http(
        partial(open_session, resolved), options.host, options.port, tls, ready, served=served, metrics=options.metrics
    )
    screen.say("stopped")
    return 0
