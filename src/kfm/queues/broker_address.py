"""The address of a broker in parts, so that no URL with a password is ever put together."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from kfm.model.secret import Secret


class BrokerAddress(NamedTuple):
    """Where a Redis or Valkey server is, and how it is asked."""

    host: str
    port: int
    database: int
    user: str = ""
    password: Secret | None = None
    tls: bool = False

    @property
    def shown(self) -> str:
        """The host and port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def secret(self) -> str | None:
        return None if self.password is None else self.password.reveal().decode("utf-8", "surrogateescape")


def broker_address(scheme: str, rest: str, password: Secret | None) -> BrokerAddress:
    """Return the parts of an address such as `user@host:6379/0`, whose form was checked before."""
    before, _, database = rest.partition("/")
    user, _, place = before.rpartition("@")
    if place.startswith("["):
        host, _, port = place[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = place.partition(":")
    return BrokerAddress(host, int(port or 6379), int(database or 0), unquote(user), password, scheme == "rediss")
