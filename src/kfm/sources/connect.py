"""Connect to a host after judging its addresses: resolve the name once, judge every address, judge the peer again."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kfm.errors import Denied, Refused, Unavailable
from kfm.sources.addresses import refusal
from kfm.sources.http1 import Budget, broken_off, error_name
from kfm.sources.urls import ParsedUrl

if TYPE_CHECKING:
    import ssl

Resolve = Callable[[str, int], list[str]]  # host and port to numeric addresses; may raise OSError
Dial = Callable[[str, int, float], socket.socket]  # numeric address, port, seconds; may raise OSError

_MAX_ADDRESSES = 8


def system_resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Every spelling the system accepts (127.1, 0x7f000001) becomes a plain address."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def dial_tcp(address: str, port: int, seconds: float) -> socket.socket:
    return socket.create_connection((address, port), seconds)


def verifying_tls() -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    # Python 3.11.0-3.11.2 report a cut TLS connection as a normal end; a body that was cut must not count as complete.
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    return context


def connect(
    here: ParsedUrl,
    allow: tuple[str, ...],
    budget: Budget,
    *,
    resolve: Resolve,
    dial: Dial,
    tls: Callable[[], ssl.SSLContext],
) -> socket.socket:
    """Return a socket to `here`, after the TLS handshake if the scheme is https.

    The name is resolved once, and the socket goes to the address that was judged, so a second and different answer of
    the name server has no effect. One refused address refuses the whole name.
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
            name, number = error_name(error)
            failure = Unavailable(f"{budget.shown} cannot be reached ({name})", hint="try again later", errno=number)
        else:
            return _secure(sock, here, allow, budget, tls)
    raise failure or Unavailable(f"{budget.shown} has no address", hint="check the host name")


def _secure(
    sock: socket.socket, here: ParsedUrl, allow: tuple[str, ...], budget: Budget, tls: Callable[[], ssl.SSLContext]
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


def _handshake(
    sock: socket.socket, here: ParsedUrl, budget: Budget, tls: Callable[[], ssl.SSLContext]
) -> socket.socket:
    import ssl

    sock.settimeout(budget.patience())
    try:
        # A cut must not look like an end: an end of the stream without a TLS close is an error.
        return tls().wrap_socket(sock, server_hostname=here.host, suppress_ragged_eofs=False)
    except ssl.SSLCertVerificationError:
        # The message does not say why: TLS libraries name different reasons for the same certificate.
        raise Refused(
            f"{budget.shown} has a certificate that does not prove its name",
            hint="check it with `openssl s_client`, ask the server's operator, or name the authority in SSL_CERT_FILE",
        ) from None
    except TimeoutError:
        raise budget.silence() from None
    except ssl.SSLError:
        raise Unavailable(
            f"{budget.shown} failed the TLS handshake", hint="check scheme and port, then try again later"
        ) from None


def _judge(here: ParsedUrl, address: str, port: int, allow: tuple[str, ...]) -> None:
    why = refusal(here.host, address, port, allow)
    if why:
        raise Denied(
            f"{here.shown()} may not be reached: {why}",
            hint=f"if you want this, add '{here.host}:{here.port}' to network.allow in kfm.yml",
        )


def _resolve_in_time(here: ParsedUrl, budget: Budget, resolve: Resolve) -> list[str]:
    """Resolve the host in a thread that is abandoned after the time limit. Resolvers have longer limits."""
    from threading import Thread

    answer: list[list[str]] = []
    failure: list[Exception] = []

    def ask() -> None:
        try:
            answer.append(resolve(here.host, here.port))
        except Exception as error:  # the caller's thread raises it, below
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
