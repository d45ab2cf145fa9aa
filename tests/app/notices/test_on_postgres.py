"""Two machines that share a state in Postgres send each notice, in the order of the ledger."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.app.notices.receivers import SECRET, Receiver, receiver_lines, receiving, status
from tests.app.servers.sites import ROWS, Site

pytestmark = pytest.mark.long


def test_two_machines_at_once_lose_no_notice_and_keep_the_order(tmp_path: Path, receiver: Receiver) -> None:
    with receiving() as shaky:
        shaky.answers = [status(503), status(422)]
        site = Site(tmp_path / "one", promote="auto")
        site.environment["KFM_SECRET_HOOK"] = SECRET
        lines = receiver_lines(receiver.url) + receiver_lines(shaky.url, "shaky")
        site.config += f"notify:\n{lines}"
        site.write()
        other = site.copied(tmp_path / "two")
        machines = (site, other)

        done: list[int] = []

        def works(at: int) -> None:
            for n in range(3):
                machines[at].write(rows=ROWS + f"KS-9{at},{n}\n")
                for _ in range(100):
                    try:
                        machines[at].typed("run", "rain")
                    except AssertionError as problem:  # the other one is at work on it
                        assert "another worker" in str(problem)
                        continue
                    done.append(at)
                    break

        threads = [threading.Thread(target=works, args=(at,)) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == [0, 0, 0, 1, 1, 1]
        site.typed("resume")
        site.typed("sinks", "retry", "notify.shaky")
        listed = json.loads(site.typed("runs", "list", "--json"))
        assert len(listed) > 6
        promoted = {each["run"] for each in listed if each["op"] == "promote" and each["outcome"] == "done"}
        told = {each.event["data"]["run_id"] for each in receiver.got if each.kind == "version.published"}
        assert promoted and promoted == told
        assert len({each.id for each in receiver.got}) == len(receiver.got)
        times = [each.event["time"] for each in receiver.got]
        assert times == sorted(times)
        assert {each.id for each in receiver.got} == {each.id for each in shaky.got}
        assert len(shaky.got) >= len(receiver.got) + 2
