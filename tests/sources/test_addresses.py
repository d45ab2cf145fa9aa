"""The table of addresses: what is not plainly a public web server is not reached."""

from __future__ import annotations

import ipaddress
import random

import pytest

from kfm.sources.addresses import is_allowed, not_global, refusal

DENIED = {
    "0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "10.255.255.255": "private", "100.64.0.0": "carrier",
    "100.127.255.255": "carrier", "127.0.0.1": "this machine", "127.255.255.255": "this machine",
    "169.254.169.254": "link-local", "172.16.0.0": "private", "172.31.255.255": "private", "192.0.0.8": "protocols",
    "192.0.2.255": "documentation", "192.88.99.1": "6to4", "192.168.1.1": "private", "198.18.0.0": "benchmarks",
    "198.19.255.255": "benchmarks", "198.51.100.7": "documentation", "203.0.113.7": "documentation",
    "224.0.0.1": "multicast", "239.255.255.255": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "reserved",
    "168.63.129.16": "cloud",
    "::": "unspecified", "::1": "this machine", "::7f00:1": "compatible", "::8.8.8.8": "compatible",
    "::ffff:127.0.0.1": "this machine", "::ffff:169.254.169.254": "link-local", "::ffff:0.0.0.0": "unspecified",
    "::ffff:0:127.0.0.1": "outside", "64:ff9b::8.8.8.8": "NAT64", "64:ff9b::169.254.169.254": "NAT64",
    "64:ff9b:1::1": "NAT64", "64:ff9b:1:ffff::1": "NAT64", "100::1": "discard", "2001::1": "Teredo",
    "2001:0:7f00:1::": "Teredo", "2001:2::1": "protocols", "2001:10::1": "protocols", "2001:20::1": "protocols",
    "2001:1ff::1": "protocols", "2001:db8::1": "documentation", "2001:db8:ffff::1": "documentation",
    "2002::1": "6to4", "2002:7f00:1::": "6to4", "2002:808:808::1": "6to4", "3fff::1": "documentation",
    "3fff:fff::1": "documentation", "5f00::1": "outside", "fc00::1": "private", "fd00:ec2::254": "private",
    "fdff::1": "private", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "febf::1": "link-local",
    "fec0::1": "site-local", "feff::1": "site-local", "ff02::1": "multicast", "ff0e::1": "multicast",
    "4000::1": "outside", "1fff::1": "outside", "200::1": "outside",
    "": "unreadable", "localhost": "unreadable", "127.1": "unreadable", "0x7f000001": "unreadable",
    "1.2.3.4.5": "unreadable", ":::": "unreadable", "8.8.8.8\0": "unreadable", "\uff18.8.8.8": "unreadable",
}  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0",
    "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "168.63.129.15",
    "2001:200::1", "2001:4860:4860::8888", "2001:db7::1", "2001:db9::1", "2003::1", "2606:4700::1111", "2a00::1",
    "3ffe::1", "3fff:1000::1", "::ffff:8.8.8.8", "::ffff:93.184.216.34",
]  # fmt: skip


@pytest.mark.parametrize(("address", "why"), DENIED.items())
@pytest.mark.parametrize("port", [80, 443, 22])
def test_an_address_that_is_not_globally_routed_is_denied_with_its_kind(address: str, why: str, port: int) -> None:
    assert why in not_global(address)
    assert why in refusal("data.example.org", address, port)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_reached_on_the_two_web_ports_only(address: str) -> None:
    for port in (80, 443):
        assert refusal("data.example.org", address, port) == ""
    for port in (1, 22, 25, 79, 81, 442, 444, 3306, 6379, 8080, 8443, 65535):
        assert str(port) in refusal("data.example.org", address, port)


def test_nothing_is_allowed_that_the_standard_library_does_not_call_global() -> None:
    rng = random.Random(20260101)
    prefixes = (0x2001, 0x2002, 0x64, 0xFE80, 0x2600, 0x3FFF)
    allowed = 0
    for _ in range(60_000):
        v4 = ipaddress.IPv4Address(rng.getrandbits(32))
        v6 = ipaddress.IPv6Address(rng.choice(prefixes) << 112 | rng.getrandbits(112))
        for address in (v4, v6):
            if not not_global(str(address)):
                allowed += 1
                assert address.is_global, address
    assert allowed > 60_000  # the test sees both answers


def test_the_standard_library_alone_would_let_these_through() -> None:
    for address in ("64:ff9b::169.254.169.254", "2002:7f00:1::", "fec0::1", "224.0.0.1"):
        assert not_global(address)


@pytest.mark.parametrize(
    ("host", "port", "allow", "expected"),
    [
        ("127.0.0.1", 8931, ("127.0.0.1:8931",), True),
        ("127.0.0.1", 8932, ("127.0.0.1:8931",), False),
        ("127.0.0.1", 8932, ("127.0.0.1",), True),
        ("127.1", 8931, ("127.0.0.1:8931", "127.0.0.1"), False),
        ("localhost", 80, ("localhost",), True),
        ("LOCALHOST", 80, ("LocalHost",), True),
        ("localhost.example.org", 80, ("localhost",), False),
        ("example.org", 80, ("org", "le.org", "*", "", "*.org", "example.org:", "example.org:8"), False),
        ("example.org", 8080, ("example.org:80",), False),
        ("::1", 8080, ("[::1]:8080",), True),
        ("::1", 8080, ("::1",), True),
        ("::1", 8080, ("[::1]",), True),
        ("::1", 8080, ("[::1]:80",), False),
        ("::1", 8080, ("::1:8080",), False),
        ("localhost", 80, (), False),
    ],
)
def test_only_the_host_as_the_url_names_it_can_be_allowed(
    host: str, port: int, allow: tuple[str, ...], expected: bool
) -> None:
    assert is_allowed(host, port, allow) is expected
    assert (refusal(host, "127.0.0.1", port, allow) == "") is expected
