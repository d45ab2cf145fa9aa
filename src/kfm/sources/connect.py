"""From a host name to a connected socket whose other end was judged: names once, addresses all, peer again."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kfm.errors import Denied, Refused, Unavailable
from kfm.sources.addresses import refusal
from kfm.sources.http1 import Budget, broken_off, named
from kfm.sources.urls import Location

if TYPE_CHECKING:
    import ssl

Resolve = Callable[[str, int], list[str]]  # host and port to numeric addresses; may raise OSError
Dial = Callable[[str, int, float], socket.socket]  # numeric address, port, seconds; may raise OSError

_MAX_ADDRESSES = 8


def system_resolve(host: str, port: int) -> list[str]:
    """Every spelling the system takes (127.1, 0x7f000001, 2130706433) comes out as the plain address."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def dial_tcp(address: str, port: int, seconds: float) -> socket.socket:
    return socket.create_connection((address, port), seconds)


def verifying_tls() -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    # Python 3.11.0-3.11.2 take a connection that was cut for one that was closed; a body cut short is not whole.
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    return context


def connect(
    here: Location,
    allow: tuple[str, ...],
    budget: Budget,
    *,
    resolve: Resolve,
    dial: Dial,
    tls: Callable[[], ssl.SSLContext],
) -> socket.socket:
    """A socket to `here`, after TLS if its scheme asks for it.

    The name is resolved once and the very address that was judged is dialled, so that a second,
    different answer of the name server is never asked for. One bad address condemns the name.
    """
    addresses = _resolve_in_time(here, budget, resolve)
    for address in addresses:
        _judge(here, address, here.port, allow)
    failure: Unavailable | None = None
    for address in addresses[:_MAX_ADDRESSES]:
        try:
            sock = dial(address, here.port, budget.patience())
        except TimeoutError:
            failure = budget.silence()
        except OSError as error:
            name, number = named(error)
            failure = Unavailable(f"{budget.shown} cannot be reached ({name})", hint="try again later", errno=number)
        else:
            return _secure(sock, here, allow, budget, tls)
    raise failure or Unavailable(f"{budget.shown} has no address", hint="check the host name")


def _secure(
    sock: socket.socket, here: Location, allow: tuple[str, ...], budget: Budget, tls: Callable[[], ssl.SSLContext]
) -> socket.socket:
    try:
        peer = sock.getpeername()
        _judge(here, str(peer[0]), int(peer[1]), allow)
        return _handshake(sock, here, budget, tls) if here.scheme == "https" else sock
    except OSError as error:
        sock.close()
        raise broken_off(budget.shown, error) from None
    except BaseException:
        sock.close()
        raise


def _handshake(sock: socket.socket, here: Location, budget: Budget, tls: Callable[[], ssl.SSLContext]) -> socket.socket:
    import ssl

    sock.settimeout(budget.patience())
    try:
        # A cut must not look like an end, so an end without TLS's own goodbye is an error.
        return tls().wrap_socket(sock, server_hostname=here.host, suppress_ragged_eofs=False)
    except ssl.SSLCertVerificationError:
        # Not why: of several reasons every implementation names another.
        raise Refused(
            f"{budget.shown} has a certificate that does not prove its name",
            hint="look at it with `openssl s_client`, ask whoever serves it, or give the authority in SSL_CERT_FILE",
        ) from None
    except TimeoutError:
        raise budget.silence() from None
    except ssl.SSLError:
        raise Unavailable(
            f"{budget.shown} does not speak TLS as it should", hint="check scheme and port, then try again later"
        ) from None


def _judge(here: Location, address: str, port: int, allow: tuple[str, ...]) -> None:
    why = refusal(here.host, address, port, allow)
    if why:
        raise Denied(
            f"{here.shown()} may not be reached: {why}",
            hint=f"if this is meant, add '{here.host}:{here.port}' to network.allow in kfm.yml",
        )


def _resolve_in_time(here: Location, budget: Budget, resolve: Resolve) -> list[str]:
    """Name servers have time limits of their own, longer than ours: the question is asked in a thread
    that is left behind if it does not come back."""
    from threading import Thread

    answer: list[list[str]] = []
    failure: list[Exception] = []

    def ask() -> None:
        try:
            answer.append(resolve(here.host, here.port))
        except Exception as error:  # handed to the asker, below
            failure.append(error)

    seconds = budget.patience()
    asking = Thread(target=ask, name="kfm-resolve", daemon=True)
    asking.start()
    asking.join(seconds)
    if answer:
        return answer[0]
    if not failure:
        raise budget.silence()
    if not isinstance(failure[0], OSError | UnicodeError):
        raise failure[0]
    raise Unavailable(
        f"the host of {budget.shown} has no address", hint="check the host name and the network, then try again"
    )
