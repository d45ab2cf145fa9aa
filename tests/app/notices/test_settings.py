"""The section `notify`: what has no meaning is refused with its place, the cure and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.config import load
from kfm.config.notify_settings import fits
from kfm.errors import BadInput
from tests.app.notices.receivers import SAID

URL = "https://hooks.example.org/kfm"
LINE = "  ops: {{url: '{url}', secrets: {secrets}, on: {on}{more}}}\n"


def line(url: str = URL, secrets: str = "[env:HOOK]", on: str = "[failed]", more: str = "") -> str:
    return LINE.format(url=url, secrets=secrets, on=on, more=more)


@pytest.mark.parametrize(
    ("receivers", "said"),
    [
        (line(on="[failde]"), "notify.ops.on[0]"),
        (line(on="[]"), "notify.ops.on"),
        (line(on="[failed, late, failed]"), "notify.ops.on names an event twice"),
        (line(more=", datasets: [rian]"), "fits no dataset of this file: 'rian'; did you mean rain?"),
        (line(more=", datasets: ['hail-*']"), "fits no dataset of this file: 'hail-*'"),
        (line(more=", dataset: [rain]"), "did you mean datasets?"),
        (line(url="http://hooks.example.org/kfm"), "notify.ops.url is not encrypted; use https"),
        (line(url="https://u:p@hooks.example.org/"), "notify.ops.url is not an address"),
        (line(url="hooks.example.org"), "notify.ops.url is not an address"),
        (line(url="https://hooks.example.org:84443/kfm"), "notify.ops.url is not an address"),
        (line(url="https://[::1::2]/kfm"), "notify.ops.url is not an address"),
        (line(secrets="[whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]"), "notify.ops.secrets[0] is not a reference"),
        (line(secrets="[]"), "notify.ops.secrets"),
        (line(secrets="[env:A, env:B, env:C]"), "notify.ops.secrets"),
        (line(more=", timeout_s: 0"), "notify.ops.timeout_s"),
        (line(more=", timeout_s: 61"), "notify.ops.timeout_s"),
        (line().replace("ops", "Ops"), "receiver 'Ops' is not a valid name"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_the_cure(tmp_path: Path, receivers: str, said: str) -> None:
    (tmp_path / "kfm.yml").write_text(SAID.format(receivers=receivers))
    with pytest.raises(BadInput) as found:
        load(str(tmp_path / "kfm.yml"), {})
    assert said in str(found.value) and "kfm.yml:" in str(found.value) and found.value.hint
    assert "whsec_" not in str(found.value)


def test_a_misspelt_event_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "kfm.yml").write_text(SAID.format(receivers=line(on="[publishd]")))
    with pytest.raises(BadInput, match="published"):
        load(str(tmp_path / "kfm.yml"), {})


@pytest.mark.parametrize("url", [URL, "http://127.0.0.1:8762/kfm", "http://localhost/", "env:HOOK_URL"])
def test_an_encrypted_address_or_this_machine_is_taken(tmp_path: Path, url: str) -> None:
    (tmp_path / "kfm.yml").write_text(SAID.format(receivers=line(url=url, more=", datasets: [rain, 's*']")))
    assert load(str(tmp_path / "kfm.yml"), {}).config.notify["ops"].url == url


def test_a_host_of_the_own_network_is_taken_where_it_is_allowed(tmp_path: Path) -> None:
    text = SAID.format(receivers=line(url="http://hooks.intern:8080/kfm"))
    (tmp_path / "kfm.yml").write_text("network: {allow: ['hooks.intern:8080']}\n" + text)
    assert load(str(tmp_path / "kfm.yml"), {}).config.notify


@pytest.mark.parametrize(
    ("pattern", "name", "is_fit"),
    [
        ("rain", "rain", True), ("rain", "rain-2", False), ("*", "rain", True), ("rain-*", "rain-", True),
        ("rain-*", "rain", False), ("*-gauges", "rain-gauges", True), ("r*n*s", "rain-gauges", True),
        ("a*a", "a", False), ("a*b*c", "acb", False), ("a**b", "ab", True), ("*b*b*", "ab", False),
        ("r.in", "rain", False), ("[r]ain", "rain", False),
    ],
)  # fmt: skip
def test_a_star_stands_for_any_characters_and_everything_else_for_itself(pattern: str, name: str, is_fit: bool) -> None:
    assert fits(pattern, name) is is_fit
