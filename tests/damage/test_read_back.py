"""A disk that stores other bytes than it received: a large output is read back before it counts as done."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.errors import Corrupt
from kfm.fsio import Fs
from kfm.store.objects import FileObjects
from tests.engine.site_under_test import folder_site, opened

LARGE = """
from kfm import Output, Plan, Step, Updater

class U(Updater):
    id = "large"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("source")]

    def plan(self, inputs):
        return Plan([Step(id="small", key=("small",)), Step(id="large", key=("large",), needs=("small",))])

    def perform(self, step, read):
        if step.id == "small":
            return Output(b"small")
        return Output(BODY)
"""


class Altering(Fs):
    """Writes one bit otherwise, in the file of an object, and says nothing."""

    altered = 0

    def write(self, fd: int, body: bytes | memoryview) -> None:
        body = bytearray(body)
        if len(body) > 60_000:
            body[len(body) // 2] ^= 4
            self.altered += 1
        super().write(fd, body)


@pytest.mark.parametrize("body", ["b'x' * 200_000", "iter([b'x' * 100_000] * 40)"], ids=["bytes", "stream"])
def test_a_large_output_that_the_disk_altered_is_never_done(tmp_path: Path, body: str) -> None:
    config = folder_site(tmp_path / "site", LARGE.replace("BODY", body), b"a,b\n1,2\n")
    with opened(config) as session:
        fs = Altering()
        session.objects = FileObjects(str(tmp_path / "site/.kfm/objects"), session.state, fs)
        with pytest.raises(Corrupt, match="damaged"):
            run_trigger(session, new_trigger(session, "demo"))
        assert fs.altered
        assert session.state.refs.at("processed/demo") == ""
        (run,) = session.state.runs.unfinished()
        done = [entry[0] for segment, _ in session.state.journal.segments(run.run_id) for entry in segment.done]
        assert done == [0], "only the small one"
