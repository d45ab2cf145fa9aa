"""Who asks: tokens, roles, limits, and what the log says of a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.api import access, application
from kfm.api.access import MOST_KNOWN, Rules
from kfm.api.application import GovernedApp
from kfm.api.endpoints import data_routes
from kfm.api.rate_limit import RateLimit, network_of
from kfm.api.route_table import ROUTES
from kfm.app.runs.requested_operations import RequestedSignature
from kfm.app.serving.serve_gate import ServeGate
from kfm.clock import FixedClock
from kfm.crypto.access_tokens import digest_of
from kfm.model.records import Obligation
from kfm.telemetry.log import MemoryLog
from tests.api.listed import Listed

DAY_MS = 86_400_000
ME, GAUGES = "/v1/me", "/v1/datasets/rain-gauges"
# Every route that takes a POST.
POSTS = {"/stac/search", "/v1/session", "/sign-in", "/sign-out", "/v1/operations"}
POSTS |= {"/v1/quarantine/{name}/review"}
# Those that take an approval or a rejection: a signature that was made elsewhere, never a login.
SIGNED = {"/v1/requests/{request}/approve", "/v1/requests/{request}/reject"}


def test_a_token_reads_as_the_person_of_the_key_list(listed: Listed) -> None:
    served = listed.served()
    for person, role in (("ada", "admin"), ("vic", "viewer"), ("olli", "operator")):
        found = served.get(ME, listed.tokens[person]).data
        assert (found["person"], found["role"], found["until"][:10]) == (person, role, "2026-01-31")
    plain = served.get(ME)
    assert (plain.data["person"], plain.data["role"], plain.data["until"]) == ("", "public", "")
    assert plain.headers["cache-control"] == "no-cache"
    assert served.get(ME, listed.tokens["vic"]).headers["cache-control"] == "private, no-cache"


def test_every_token_that_is_not_valid_gets_the_same_401(listed: Listed) -> None:
    ended, revoked = listed.new_token("vic", days=1).secret, listed.new_token("olli").secret
    assert listed.revoke_token(revoked).receipt.status == "SUCCESS"
    served = listed.served()
    assert served.get(ME, ended).status == 200
    listed.clock.advance(DAY_MS)
    vic = listed.tokens["vic"]
    bad = [
        {"authorization": f"Bearer {text}"}
        for text in (ended, revoked, "", "x", vic[:-1], vic + "x", vic.upper(), "kfm_" + "a" * 43, "a" * 9000)
    ]
    bad += [{"authorization": text} for text in (vic, f"Basic {vic}", f"Token {vic}", "Bearer", f"Bearer {vic} {vic}")]
    answers = [served.get(path, headers=headers) for headers in bad for path in (ME, GAUGES)]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    own = ("x-correlation-id", "traceparent")
    assert len({json.dumps({n: v for n, v in answer.headers.items() if n not in own}) for answer in answers}) == 1
    assert answers[0].headers["www-authenticate"].startswith("Bearer")
    assert served.get(ME, vic).status == 200


def test_a_revoked_token_ends_with_the_next_request_of_every_server(listed: Listed) -> None:
    one, other, token = listed.served(), listed.served(), listed.tokens["vic"]
    assert one.get(ME, token).status == other.get(ME, token).status == 200
    assert listed.revoke_token(token).receipt.outcome == "done"
    assert one.get(ME, token).status == other.get(ME, token).status == 401
    assert one.get(ME, listed.tokens["olli"]).status == 200


def test_a_person_whose_key_is_revoked_has_no_token_any_more(listed: Listed) -> None:
    served, token = listed.served(), listed.tokens["vic"]
    assert served.get(ME, token).status == 200
    listed.revoke_key("vic")
    assert served.get(ME, token).status == 401
    assert served.get(ME, listed.tokens["ada"]).status == 200


def test_a_key_list_that_cannot_be_read_gives_nobody_a_role(listed: Listed) -> None:
    served, place = listed.served(), listed.folder / "keys.json"
    whole = place.read_bytes()
    assert {served.get(ME, listed.tokens["ada"]).status for _ in range(4)} == {200}, "the list is known by now"
    for damaged in (b"{", whole.replace(b"admin", b"owner"), b""):
        place.write_bytes(damaged)
        assert served.get(ME, listed.tokens["ada"]).status == 401
        assert served.get(ME).data["role"] == "public", "and nobody becomes the one user"
    place.unlink()
    assert served.get(ME, listed.tokens["ada"]).status == 401
    assert served.get(ME).data["role"] == "public"
    place.write_bytes(whole)
    assert served.get(ME, listed.tokens["ada"]).status == 200


def test_a_damaged_record_of_a_token_gives_no_rights(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    served, token = listed.served(), listed.tokens["ada"]
    assert served.get(ME, token).status == 200
    from kfm.app.authority import token_holders
    from kfm.errors import BadInput

    damaged: list[bytes] = []

    def unreadable(body: bytes) -> Any:
        damaged.append(body)
        raise BadInput("damaged")

    monkeypatch.setattr(token_holders, "read_token", unreadable)
    assert served.get(ME, token).status == 401 and damaged


def test_the_state_holds_no_token(listed: Listed) -> None:
    token = listed.tokens["ada"].encode()
    files = [path for path in listed.folder.rglob("*") if path.is_file() and path.name != "tokens.json"]
    assert len(files) > 5
    held = [path for path in files if token in path.read_bytes() or token[4:] in path.read_bytes()]
    assert not held
    assert any(digest_of(token.decode()).encode() in path.read_bytes() for path in files), "its digest is there"


def test_without_a_key_list_the_one_user_asks_over_loopback_alone(listed: Listed, tmp_path: Path) -> None:
    import kfm
    from kfm.cli.start.init import FILES

    folder = tmp_path / "alone"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    with kfm.open(folder) as installation:
        installation.run("rain-gauges")
    alone = Listed(folder)
    try:
        local = alone.served()
        assert local.get(ME).data["role"] == "single"
        assert local.get(ME, host="[::1]:8750").data["role"] == local.get(ME, host="localhost").data["role"] == "single"
        assert local.get(ME, host="pages.example.org:8750").data["role"] == "public", "a page that resolves to loopback"
        assert local.get(ME, "kfm_x").status == 401
        for rules in (Rules("shared"), Rules("open"), Rules("shared", behind_proxy=True)):
            assert alone.served(rules).get(ME).data["role"] == "public"
    finally:
        alone.close()


def test_the_open_mode_knows_only_the_public(listed: Listed) -> None:
    reached: list[str] = []

    async def beyond(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    served = listed.served(Rules("open", behind_proxy=True), beyond=beyond)
    assert served.get(GAUGES).status == 200 and served.get(ME).data["role"] == "public"
    assert served.get(ME, listed.tokens["ada"]).status == 401
    assert served.get(ME, headers={"authorization": "Basic b3BlbjpvcGVu"}).status == 200, "that of the proxy"
    assert [served.get(path).status for path in ("/webhooks/hub", "/metrics", "/livez")] == [404, 404, 200]
    assert reached == ["/livez"]
    assert [listed.served(beyond=beyond).get(path).status for path in ("/webhooks/hub", "/metrics")] == [200, 200]


def test_no_route_takes_an_approval_without_its_signature() -> None:
    changing = [route for route in ROUTES if route.method not in ("GET", "HEAD")]
    assert {route.path for route in changing if route.method == "POST"} == POSTS | SIGNED
    assert {route.path for route in changing if route.method != "POST"} == {"/v1/session"}
    for route in ROUTES:
        if any(word in route.path for word in ("approve", "reject", "signature", "override")):
            assert route.path in SIGNED and route.takes is RequestedSignature
    required = {each.name for each in msgspec.structs.fields(RequestedSignature) if each.required}
    assert required == {"key", "at", "signature"}


# -- limits


def test_a_limit_counts_each_token_and_each_address(listed: Listed) -> None:
    served = listed.served(Rules("shared", per_minute=3))
    vic, olli = listed.tokens["vic"], listed.tokens["olli"]
    assert [served.get(ME, client="192.0.2.1").status for _ in range(4)] == [200, 200, 200, 429]
    assert [served.get(ME, client="192.0.2.2").status for _ in range(3)] == [200, 200, 200]
    # The first request with a token is counted for the address: nobody knows yet whether it is valid.
    assert [served.get(ME, vic, client="192.0.2.3").status for _ in range(5)] == [200, 200, 200, 200, 429]
    assert served.get(ME, olli, client="192.0.2.3").status == 200
    told = served.get(ME, client="192.0.2.1")
    assert (told.status, told.headers["retry-after"], told.data["code"]) == (429, "20", "rate.limited")
    listed.clock.advance(20_000)
    assert [served.get(ME, client="192.0.2.1").status for _ in range(2)] == [200, 429]


def test_a_limit_is_the_same_for_what_is_absent_and_what_is_forbidden(listed: Listed) -> None:
    found = []
    for path in (GAUGES, "/v1/datasets/no-such-dataset", "/nowhere", "/v1/datasets?after="):
        served = listed.served(Rules("shared", per_minute=2))
        answers = [served.get(path, client="192.0.2.9") for _ in range(3)]
        assert answers[0].status in (200, 404) and answers[2].status == 429
        found.append((answers[2].body, answers[2].headers["retry-after"], [one.status == 429 for one in answers]))
    assert len({str(one) for one in found}) == 1


def test_tokens_that_are_guessed_share_the_limit_of_their_address(listed: Listed) -> None:
    served = listed.served(Rules("shared", per_minute=3))
    answers = [served.get(ME, f"kfm_{n:043}", client="192.0.2.4").status for n in range(5)]
    assert answers == [401, 401, 401, 429, 429]
    token = listed.tokens["vic"]
    assert served.get(ME, token, client="192.0.2.5").status == 200
    listed.revoke_token(token)
    assert served.get(ME, token, client="192.0.2.5").status == 401
    assert served.get(ME, token, client="192.0.2.4").status == 429, "a revoked token is a guess like any other"


def test_this_machine_has_no_limit_unless_one_is_named(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "PER_MINUTE", 3)
    served, token = listed.served(Rules("local")), listed.tokens["vic"]
    assert {served.get("/nowhere").status for _ in range(9)} == {404} and not served.limit.counted
    assert [served.get(ME, token).status for _ in range(5)] == [200, 200, 200, 200, 429], "but tokens are counted"
    assert [served.get("/nowhere", client="192.0.2.1").status for _ in range(4)] == [404, 404, 404, 429]
    strict = listed.served(Rules("local", per_minute=1))
    assert [strict.get("/nowhere").status for _ in range(2)] == [404, 429]
    none = listed.served(Rules("shared", per_minute=0))
    assert {none.get("/nowhere", client="192.0.2.1").status for _ in range(3)} == {404}


def test_behind_a_proxy_the_address_that_it_wrote_last_is_counted(listed: Listed) -> None:
    served = listed.served(Rules("shared", behind_proxy=True, per_minute=1))

    def asked(forwarded: str) -> int:
        return served.get("/nowhere", headers={"x-forwarded-for": forwarded}).status

    assert [asked("192.0.2.1"), asked("198.51.100.7, 192.0.2.1"), asked("192.0.2.1, 198.51.100.7")] == [404, 429, 404]
    plain = listed.served(Rules("shared", per_minute=1))
    said = [plain.get("/nowhere", headers={"x-forwarded-for": f"192.0.2.{n}"}, client="192.0.2.9") for n in range(2)]
    assert [one.status for one in said] == [404, 429], "without a proxy the header says nothing"


def test_a_dataset_that_is_to_be_throttled_is(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    known, obliged = ServeGate.decision, []

    def decision(self: Any, dataset: str, version: str, status: str, audience: str) -> Any:
        class Decided:
            obligations = (Obligation(do="throttle", per_minute=2),)
            is_yes = staticmethod(known(self, dataset, version, status, audience).is_yes)

        obliged.append(dataset)
        return Decided()

    monkeypatch.setattr(ServeGate, "decision", decision)
    served = listed.served()
    assert [served.get(GAUGES).status for _ in range(3)] == [200, 200, 429] and obliged
    assert served.get(GAUGES, listed.tokens["vic"]).status == 200, "another caller"
    assert served.get("/v1/datasets/no-such-dataset").status == 404


def test_a_limit_needs_little_memory_whoever_asks() -> None:
    clock = FixedClock()
    limit = RateLimit(monotonic=clock.monotonic, most=100)
    assert all(limit.wait(f"address {n}", 1) == 0 for n in range(5000)) and limit.counted == 100
    assert limit.wait("address 4999", 1) == 60
    assert network_of("2001:db8:1:2::5") == network_of("2001:db8:1:2:ffff::1") != network_of("2001:db8:1:3::5")
    assert network_of("::ffff:192.0.2.1") == "192.0.2.1" and network_of("no address") == "unknown"
    assert MOST_KNOWN < 10_000


# -- correlation


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_trace_and_a_correlation_id_are_taken_over_and_answered(listed: Listed) -> None:
    served = listed.served()
    found = served.get(ME, headers={"traceparent": TRACE}).headers
    assert found["traceparent"][:36] == TRACE[:36] and found["traceparent"][-3:] == "-01"
    assert found["traceparent"] != TRACE, "the span is the server's own"
    assert found["x-correlation-id"] == "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"
    own = "0b7e2a52-0d1f-8a36-9b7e-0f0a0b0c0d0e"
    assert served.get("/nowhere", headers={"x-correlation-id": own}).headers["x-correlation-id"] == own
    ids = set()
    for bad in ("", "x", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", TRACE + "-more", "ff" + TRACE[2:], TRACE.upper()):
        headers = served.get("/nowhere", headers={"traceparent": bad, "x-correlation-id": f"{own}\tx"}).headers
        assert headers["traceparent"][3:35] != TRACE[3:35] and headers["x-correlation-id"] != own
        ids.add(headers["traceparent"][3:35])
    assert len(ids) == 6
    assert served.get("/nowhere", headers={"traceparent": "01" + TRACE[2:] + "-x"}).headers["traceparent"][:2] == "00"


def test_the_log_has_a_line_for_each_request_and_no_name_in_it(listed: Listed) -> None:
    log, token = MemoryLog(FixedClock()), listed.tokens["vic"]
    served = listed.served(log=log)
    served.get(GAUGES, token)
    served.get("/v1/datasets/canary-of-a-path?after=canary", method="HEAD")
    served.get("/canary-of-a-path?canary=canary", method="CANARY")
    served.get(ME, "canary-of-a-token")
    said = [(one["method"], one["route"], one["http_status"], one["audience"]) for one in log.events]
    assert said == [
        ("GET", "/v1/datasets/{name}", 200, "viewer"),
        ("HEAD", "/v1/datasets/{name}", 400, None),
        ("other", None, 404, None),
        ("GET", ME, 401, None),
    ]
    assert {one["event"] for one in log.events} == {"request.answered"}
    assert all(one["duration_ms"] is not None and one["correlation_id"] and one["trace_id"] for one in log.events)
    text = json.dumps(log.events)
    assert not [word for word in ("canary", token, '"vic"', "rain-gauges", "127.0.0.1") if word.lower() in text.lower()]


def test_a_token_that_is_revoked_during_a_download_ends_it(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    served, token = listed.served(), listed.tokens["vic"]
    (first,) = [one for one in served.get(GAUGES, token).data["files"] if one["key"] == ["ford"]]
    assert served.get(first["href"], token).status == 200
    asked: list[str] = []
    known = GovernedApp._while_valid

    def revoking(self: Any, stream: Any, credential: str, caller: Any) -> Any:
        if credential and not asked:
            asked.append(caller.person)
            listed.revoke_token(token)
        return known(self, stream, credential, caller)

    monkeypatch.setattr(data_routes, "AT_ONCE", -1)  # as a large file is sent
    monkeypatch.setattr(GovernedApp, "_while_valid", revoking)
    with pytest.raises(application._Withdrawn):
        served.get(first["href"], token)
    assert asked == ["vic"]
    assert served.get(first["href"]).status == 200


def test_a_small_file_is_answered_whole_as_of_the_entry_that_it_names(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version that is withdrawn, or a token that is revoked, between the answer and its bytes does not tear it."""
    served, token = listed.served(), listed.tokens["vic"]
    (first,) = [one for one in served.get(GAUGES, token).data["files"] if one["key"] == ["ford"]]
    whole = served.get(first["href"], token)
    revoked: list[int] = []
    known = GovernedApp._response

    def revoking(self: Any, *answered: Any) -> Any:
        if not revoked:
            revoked.append(1)
            listed.revoke_token(token)
            place = listed.folder / "kfm.yml"
            place.write_text(place.read_text().replace("sensitivity: public", "sensitivity: restricted"))
        return known(self, *answered)

    monkeypatch.setattr(GovernedApp, "_response", revoking)
    answer = served.get(first["href"], token)
    assert revoked and (answer.status, answer.body) == (200, whole.body)
    assert answer.headers["kfm-ledger-entries"] == whole.headers["kfm-ledger-entries"]
    assert answer.headers["accept-ranges"] == "bytes" and answer.headers["content-length"] == str(len(whole.body))
    assert served.get(first["href"], token).status == 401 and served.get(first["href"]).status == 404
