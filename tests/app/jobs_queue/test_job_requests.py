"""What is asked for wrongly is refused with one line and a cure, and nothing is stored."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kfm.app.jobs.job_requests import enqueue, new_envelope
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.errors import BadInput, Denied, KfmError, Refused
from kfm.model.canonical import canonical
from kfm.model.jobs.job_envelope import MAX_BYTES, decode_envelope, identified, read_envelope
from tests.app.jobs_queue.queue_site import lay_out, opened

UNKNOWN = "sha256:" + "0" * 64
VERSION = {"kind": "dataset", "id": "kfm://dataset/one", "checksum": UNKNOWN}
ADDRESS = {"kind": "uri", "id": "https://example.org/a", "checksum": UNKNOWN}


def envelope(session: Session, **changes: Any) -> dict[str, Any]:
    made = new_envelope(session, "ingest.pull_source", "one", requested_by="user:ann")
    found = json.loads(canonical(made))
    del found["job_id"]
    for path, value in changes.items():
        *above, last = path.split("__")
        inner = found
        for name in above:
            inner = inner[int(name) if name.isdigit() else name]
        inner[last] = value
    return dict(found)


def given(session: Session, body: bytes | dict[str, Any]) -> None:
    enqueue(session, decode_envelope(body if isinstance(body, bytes) else json.dumps(body).encode()))


Change = dict[str, Any]
BAD: dict[str, tuple[Change, type[KfmError], str]] = {
    "unknown type": ({"job_type": "ingest.pull"}, BadInput, "no job type is called"),
    "no type": ({"job_type": "Ingest!"}, BadInput, "job_type is not the name of a job type"),
    "unknown zone": ({"parameters__target_zone": "Gold"}, BadInput, "target_zone is not a zone"),
    "zone below": ({"parameters__target_zone": "Raw"}, BadInput, "does not write to Raw"),
    "published by hand": ({"parameters__target_zone": "Published"}, Refused, "a person decides that"),
    "unknown parameter": ({"parameters__zoom": 3}, BadInput, "unknown key zoom"),
    "wrong parameter": ({"parameters__window": 3}, BadInput, "window"),
    "wrong window": ({"parameters__window": "soon"}, BadInput, "window is neither"),
    "forced without a reason": ({"parameters__force": True}, BadInput, "needs a reason"),
    "unknown label": ({"parameters__policy_label": "secret"}, BadInput, "policy_label"),
    "unknown dataset": ({"parameters__dataset": "kfm://dataset/none"}, BadInput, "no dataset is called none"),
    "local path": ({"inputs__0__id": "/data/one.csv"}, BadInput, "is a path of this machine"),
    "file address": ({"inputs__0__id": "file:///data/one.csv"}, BadInput, "is a path of this machine"),
    "no checksum": ({"inputs__0__checksum": "md5:1"}, BadInput, "is not a checksum"),
    "other declaration": ({"inputs__0__checksum": UNKNOWN}, Refused, "is not the one that the job was made for"),
    "unknown version": ({"inputs__0": VERSION}, Refused, "is no version of one"),
    "foreign address": ({"inputs__0": ADDRESS}, Refused, "no source of one"),
    "nobody": ({"requested_by": "user:"}, BadInput, "requested_by names nobody"),
    "no instant": ({"requested_at": "yesterday"}, BadInput, "requested_at is not an instant"),
    "no uuid": ({"trace__parent_run_id": "last"}, BadInput, "is not a UUID"),
    "other id": ({"job_id": "11111111-1111-8111-8111-111111111111"}, BadInput, "does not follow"),
    "unknown field": ({"secret": "x"}, BadInput, "unknown key secret"),
    "a list of parameters": ({"parameters": []}, BadInput, "parameters"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_envelope_is_refused_in_one_line_with_a_cure(tmp_path: Path, name: str) -> None:
    change, kind, said = BAD[name]
    with opened(lay_out(tmp_path, "one")) as session:
        body = envelope(session, **{key: value for key, value in change.items() if key != "inputs__0"})
        if "inputs__0" in change:
            body["inputs"][0] = change["inputs__0"]
        with pytest.raises(kind) as refused:
            given(session, body)
        assert said in refused.value.message and "\n" not in str(refused.value)
        assert refused.value.hint
        assert not list(session.state.inbox.waiting()) and not list(session.state.jobs.open())


BYTES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "no json": (b"{", "is not JSON at line 1"),
    "a list": (b"[]", "expected a mapping"),
    "twice": (b'{"job_type": "a.b", "job_type": "a.b"}', "names a key twice"),
    "not text": (b"\xff\xfe{", "UTF-16"),
    "deep": (b"[" * 5000, "nested"),
    "large": (b"x" * (MAX_BYTES + 1), "larger than 256 KiB"),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_envelope_are_refused(name: str) -> None:
    body, said = BYTES[name]
    with pytest.raises(BadInput, match=said):
        decode_envelope(body)


class Endless(io.RawIOBase):
    """A file of 100 MB that counts what is read of it."""

    taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "all of it was asked for"
        found = min(size, 100_000_000 - self.taken, 65_536)
        self.taken += found
        return b"x" * found


def test_an_envelope_of_100_megabytes_is_refused_without_reading_it_whole() -> None:
    file = Endless()
    with pytest.raises(BadInput, match="larger than 256 KiB"):
        read_envelope(file, "stdin")  # type: ignore[arg-type]
    assert MAX_BYTES < file.taken <= MAX_BYTES + 65_536


def test_a_label_more_open_than_the_dataset_is_denied(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    path = tmp_path / "kfm.yml"
    path.write_text(path.read_text().replace("sensitivity: public", "sensitivity: restricted"))
    with opened(tmp_path) as session:
        with pytest.raises(Denied, match="policy_label: public is more open than one, which is restricted"):
            given(session, envelope(session, parameters__policy_label="public"))
        given(session, envelope(session, parameters__policy_label="restricted"))
        (job,) = session.state.jobs.open()
        assert job.pools == ("protected",)


@pytest.mark.parametrize("is_forged", [True, False])
def test_the_id_of_a_job_follows_from_its_envelope(tmp_path: Path, is_forged: bool) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        made = new_envelope(session, "ingest.pull_source", "one", requested_by="user:ann")
        body = json.loads(canonical(made))
        if is_forged:
            body["requested_by"] = "user:eve"
            with pytest.raises(BadInput, match="does not follow"):
                decode_envelope(json.dumps(body).encode())
        else:
            assert decode_envelope(json.dumps(body, indent=3).encode()) == made == identified(made)


def test_a_version_that_is_known_may_be_an_input(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        run_trigger(session, new_trigger(session, "one"))
        version = session.state.refs.at("processed/one")
        body = envelope(session)
        body["inputs"] = [{"kind": "dataset", "id": "kfm://dataset/one", "checksum": version}]
        given(session, body)
        assert len(list(session.state.jobs.open())) == 1


def test_what_is_published_by_itself_may_be_asked_for(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    path = tmp_path / "kfm.yml"
    path.write_text(path.read_text().replace("    sensitivity:", "    promote: auto\n    sensitivity:"))
    with opened(tmp_path) as session:
        from kfm.app.jobs.job_worker import JobWorker

        given(session, envelope(session, parameters__target_zone="Published"))
        worker = JobWorker(session)
        assert worker.turn() is not None and worker.last is not None
        assert [receipt.job_type for receipt in worker.last.receipts][-1] == "operation.promote"
        assert session.state.refs.at("published/one") == session.state.refs.at("processed/one") != ""


def test_a_reason_for_a_forced_job_goes_into_its_receipt(tmp_path: Path) -> None:
    with opened(lay_out(tmp_path, "one")) as session:
        made = new_envelope(session, "ingest.pull_source", "one", {"force": True}, requested_by="user:ann")
        stored = enqueue(session, made, reason="again, please")
        assert stored.job.trigger.force and stored.job.trigger.reason == "again, please"
