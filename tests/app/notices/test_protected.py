"""Of protected data a notice says what its public receipt says: what happened to which dataset, and no more."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.app.governance.people import by_order
from tests.app.notices.receivers import SECRET, Receiver, receiver_lines, receiving, status
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.engine.protected.conftest import (
    SAFE,
    SECRETS,
    dataset,
    hits,
    installation,
    label,
    labels,
    site,  # noqa: F401
)


def test_no_canary_is_in_a_notice_a_header_or_a_dead_letter(
    site: Kfm,  # noqa: F811
    receiver: Receiver,
) -> None:
    installation(
        dataset("sites", "sites.csv", mask=True, sensitivity="public", updater="ByKind"),
        dataset("vault", "copy.csv", more="    freshness: {max_age: 1m}\n"),
    )
    raw = Path("sites.csv").read_bytes()
    Path("copy.csv").write_bytes(raw)
    labels(
        label("dataset: sites"),
        label("source: sites.csv"),
        label("dataset: vault", "restricted"),
        label("source: copy.csv", "restricted"),
    )

    def echoes(handler, _got):  # type: ignore[no-untyped-def]
        handler.send_response(400, "no: " + raw[:200].decode().replace("\n", " "))
        handler.end_headers()
        handler.wfile.write(raw)

    with receiving() as refusing:
        refusing.always = echoes
        lines = receiver_lines(receiver.url) + receiver_lines(refusing.url, "refusing")
        Path("kfm.yml").write_text(f"notify:\n{lines}" + Path("kfm.yml").read_text())
        said = [site("run", "sites"), by_order(site, SAFE, "promote", "sites"), site("run", "vault")]
        assert [answer.code for answer in said] == [0, 0, 0], said
        said.append(site("promote", "vault", "--reason", f"near {SECRETS[0]}"))
        Path("sites.csv").write_bytes(raw.replace(b"trinomial", b"trinominal", 1))
        said.append(site("run", "sites"))
        labels(
            label("dataset: sites", "restricted"),
            label("source: sites.csv", "restricted"),
            label("dataset: vault", "restricted"),
            label("source: copy.csv", "restricted"),
        )
        said.append(site("status"))
        said.append(site("run", "vault", "--force", "--reason", f"near {SECRETS[0]}"))
        said.append(site("sinks"))
        assert "refused" in said[-1].out.lower() and len(refusing.got) == len(receiver.got) > 4
    kinds = receiver.kinds
    assert {"review.wanted", "version.published", "run.failed", "version.withdrawn"} <= set(kinds), kinds
    told = json.dumps([[each.headers, each.body.decode()] for each in receiver.got])
    out = "".join(answer.out + answer.err for answer in said)
    for secret in (*SECRETS, hashlib.sha256(raw).hexdigest(), "copy.csv", "sites.csv", SECRET):
        assert secret.lower() not in told.lower(), secret
    for secret in (*SECRETS[1:], SECRET):
        assert secret.lower() not in out.lower(), secret
    assert hits([*SECRETS, SECRET]) == []
    of_vault = [each.event["data"] for each in receiver.got if each.event.get("subject") == "vault"]
    assert of_vault
    for data in of_vault:
        assert set(data) <= {"dataset", "run_id", "op", "status", "outcome", "receipt", "next"}


def test_a_spent_budget_of_a_protected_dataset_is_told_without_its_objective(
    tmp_path: Path, receiver: Receiver
) -> None:
    from tests.app.notices.receivers import SAID, Site
    from tests.app.objectives.site import promise

    closed = SAID.replace("sensitivity: public", "sensitivity: restricted", 1)
    there = Site(tmp_path, receiver_lines(receiver.url), closed)
    promise(there.folder, "burial-ground", target=0.6)
    there.run()
    (there.folder / "rain.csv").unlink()
    there.run()
    there.advance(hours=27)
    there.settle()
    assert receiver.kinds == ["version.pending", "run.failed", "budget.burnt", "dataset.late"]
    assert [each.event["data"] for each in receiver.got[2:]] == [
        {"dataset": "rain", "next": "kfm slo"},
        {"dataset": "rain", "next": "kfm why-not rain"},
    ]
    assert b"burial-ground" not in b"".join(each.body for each in receiver.got)
    for each in receiver.got[:2]:
        assert not {"version", "rows", "held_rows", "error"} & set(each.event["data"])


def test_what_is_closed_before_it_could_be_sent_is_sent_without_its_facts(tmp_path: Path, receiver: Receiver) -> None:
    from tests.app.notices.receivers import SAID, Site

    there = Site(tmp_path, receiver_lines(receiver.url, on="[late]"))
    there.run()
    receiver.always = status(503)
    there.advance(hours=27)
    there.settle()
    assert "version" in receiver.got[0].event["data"]
    receiver.take()
    receiver.always = status(204)
    there.configure(
        receiver_lines(receiver.url, on="[late]"), SAID.replace("sensitivity: public", "sensitivity: closed")
    )
    there.advance(hours=1)
    there.settle()
    assert [each.event["data"] for each in receiver.got] == [{"dataset": "rain", "next": "kfm why-not rain"}]
