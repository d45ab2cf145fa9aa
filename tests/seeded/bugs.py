"""Bugs put in on purpose: each must turn the suite red, or the suite proves nothing.

python -m tests.seeded.bugs            apply them one by one and show which tests notice
python -m tests.seeded.bugs NAME …     only these
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.seeded import planting
from tests.seeded.act_bugs import ACT_BUGS
from tests.seeded.added import ADDED
from tests.seeded.backup_bugs import BACKUPS
from tests.seeded.browser_bugs import SIGNED_IN_BROWSER
from tests.seeded.bucket_bugs import BUCKETS
from tests.seeded.completed import COMPLETED
from tests.seeded.energy_bugs import ENERGY_BUGS
from tests.seeded.format_bugs import FORMATS
from tests.seeded.gc_bugs import COLLECTIONS
from tests.seeded.intervention_bugs import INTERVENTIONS
from tests.seeded.job_bugs import JOB_BUGS
from tests.seeded.lineage_bugs import LINEAGE
from tests.seeded.map_bugs import MAP_BUGS
from tests.seeded.mended import MENDED
from tests.seeded.move_bugs import MOVES
from tests.seeded.notice_bugs import NOTICE_BUGS
from tests.seeded.objective_bugs import OBJECTIVE_BUGS
from tests.seeded.partitions import PARTITIONS
from tests.seeded.planting import Bug
from tests.seeded.promised import PROMISED
from tests.seeded.public_pages import PUBLIC_PAGES
from tests.seeded.queue_bugs import QUEUED
from tests.seeded.readers import READERS
from tests.seeded.recorded import RECORDED
from tests.seeded.retry_bugs import RETRIES
from tests.seeded.server_bugs import SERVERS
from tests.seeded.sign_in_bugs import SIGN_IN_BUGS
from tests.seeded.slips import STEWARD_SLIPS
from tests.seeded.steward_claims import STEWARDS
from tests.seeded.surface_bugs import SURFACE
from tests.seeded.worker_bugs import WORKERS

SIMULATED = "tests/power/test_simulated.py"
PUBLISHED = "tests/power/test_published.py"

BUGS: dict[str, Bug] = {
    **FORMATS,
    **LINEAGE,
    **MAP_BUGS,
    **MENDED,
    **MOVES,
    **BACKUPS,
    **RETRIES,
    **INTERVENTIONS,
    **COLLECTIONS,
    **ADDED,
    **JOB_BUGS,
    **NOTICE_BUGS,
    **ACT_BUGS,
    **SIGN_IN_BUGS,
    **OBJECTIVE_BUGS,
    **ENERGY_BUGS,
    **QUEUED,
    **BUCKETS,
    **PUBLIC_PAGES,
    **PARTITIONS,
    **SURFACE,
    **STEWARD_SLIPS,
    **PROMISED,
    **READERS,
    **RECORDED,
    **COMPLETED,
    **STEWARDS,
    **WORKERS,
    **SERVERS,
    **SIGNED_IN_BROWSER,
    "a reader of somebody else's reaches other files": Bug(
        "kfm.engine.isolation.sandbox_child:main",
        "if not confine(readable(), (0,)) and task.confined:",
        "if False:",
        "tests/validation/formats/test_apart.py::test_a_reader_reaches_nothing_but_its_file",
    ),
    "what a foreign reader announces is believed": Bug(
        "kfm.engine.isolation.sandbox:_frame",
        "size > (FRAME if kind in",
        "0 > (FRAME if kind in",
        "tests/validation/formats/test_apart.py::test_a_reader_that_fails_holds_its_source",
    ),
    "the values of a grid are not read": Bug(
        "kfm.validation.grids:_scan",
        "for values in variable.values():",
        "for values in ():",
        "tests/validation/formats/test_grids.py::test_what_is_expected_is_so",
    ),
    "a grid is as large as it says": Bug(
        "kfm.validation.grid_reader:MOST_VALUES",
        "MOST_VALUES = 1 << 31",
        "MOST_VALUES = 1 << 80",
        "tests/validation/formats/test_hostile_grids.py::test_what_cannot_be_read_is_held_for_a_reason",
    ),
    "a Zarr store chooses what decodes it": Bug(
        "kfm.validation.zarr:_check_metadata",
        "    _check_codecs(said)\n",
        "    pass\n",
        "tests/validation/formats/test_hostile_grids.py::test_what_cannot_be_read_is_held_for_a_reason",
    ),
    "names in a Zarr store lead out of it": Bug(
        "kfm.validation.zarr:zarr",
        "_check_names(packed)",
        "pass",
        "tests/validation/formats/test_hostile_grids.py::test_what_cannot_be_read_is_held_for_a_reason",
    ),
    "the page of a dataset stays when nothing of it is public": Bug(
        "kfm.delivery.pages_follower:PageLetters.letters",
        "key=path, body=None)",
        'key=path, body=b"")',
        "tests/delivery/test_public_pages.py::test_a_page_goes_back_with_its_version_and_goes_with_the_last",
    ),
    "what a person took back is published by itself": Bug(
        "kfm.app.runs.auto_promotion:promote",
        "        if who is not None:\n",
        "        if False:\n",
        "tests/app/previews/test_automatic.py::test_what_a_person_took_back_stays_back_until_there_is_something_new",
    ),
    "an older version is published by itself": Bug(
        "kfm.app.runs.auto_promotion:_is_newer",
        "return entry.run_id == moved.run_id",
        "return True",
        "tests/app/previews/test_automatic.py::test_a_person_who_goes_back_between_the_kill_and_the_next_run_wins",
    ),
    "what people sign is published by itself": Bug(
        "kfm.app.runs.auto_promotion:check_plainly_public",
        'if in_force(session) is not None and review_in_force(session, dataset) != "none":',
        "if False:",
        "tests/app/previews/test_automatic.py::test_where_people_sign_nothing_is_published_by_itself",
    ),
    "no file sync: objects": Bug(
        "kfm.store.objects:FileStaging.commit", "            self._fs.sync(self._fd)\n", "            pass\n", SIMULATED
    ),
    "a tail that was cut off is written behind before that is durable": Bug(
        "kfm.store.jsonl:JsonlTables._catch_up",
        "elif repair and read_mark(self._fs, self._ack):",
        "elif False:",
        SIMULATED,
    ),
    "no file sync: journal": Bug(
        "kfm.store.jsonl:JsonlTables._sync",
        "        self._fs.sync(self._fd)\n        self._acked",
        "        self._acked",
        SIMULATED,
    ),
    "no directory sync": Bug(
        "kfm.store.objects:FileObjects.adopt", "        self._fs.sync_dir(folder)\n", "        pass\n", SIMULATED
    ),
    "the publisher does not sync a file": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher._write",
        "temporary, whole, mode=",
        "temporary, whole, synced=False, mode=",
        PUBLISHED,
    ),
    "the publisher does not sync a folder": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher._keep_name",
        "            self._fs.sync_dir(os.path.dirname(path))\n",
        "            pass\n",
        PUBLISHED,
    ),
    "the publisher does not sync where it makes a folder": Bug(
        "kfm.fsio:Fs.make_dirs",
        '            self.mkdir(folder, mode)\n            self.sync_dir(os.path.dirname(folder) or ".")\n',
        "            self.mkdir(folder, mode)\n",
        PUBLISHED,
    ),
    "the publisher takes a name that it finds for durable": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher.write_file",
        "        if digest_at(self._fs, target) != digest:\n            with self._turn():\n",
        "        if digest_at(self._fs, target) == digest:\n"
        '            return self._note("write_file", path, digest, size, key)\n'
        "        if True:\n            with self._turn():\n",
        PUBLISHED,
    ),
    "a dataset is noted as told before the publisher has it": Bug(
        "kfm.delivery.public_files:deliver",
        "            try:\n                telling.all()\n",
        "            state.outbox.acknowledge(PUBLIC, {dataset: Told(moves=len(moves), keep=ALL)})\n"
        "            try:\n                telling.all()\n",
        PUBLISHED,
    ),
    "a failed sync is ignored": Bug(
        "kfm.store.jsonl:JsonlTables._sync",
        "    def _sync(self) -> None:\n        self._fs.sync(self._fd)\n",
        "    def _sync(self) -> None:\n        import contextlib\n"
        "        with contextlib.suppress(OSError):\n            self._fs.sync(self._fd)\n",
        "tests/store/test_turns.py",
    ),
    "HMAC made from a plain hash": Bug(
        "kfm.scheduling.webhook_requests:_hexadecimal",
        'expected = b"sha256=" + hmac.new(secret.reveal(), body, hashlib.sha256).hexdigest().encode()',
        'expected = b"sha256=" + hashlib.sha256(secret.reveal() + body).hexdigest().encode()',
        "tests/api/test_verify.py",
    ),
    "signatures compared with ==": Bug(
        "kfm.scheduling.webhook_requests:_hexadecimal",
        "genuine |= hmac.compare_digest(expected, sealed)",
        "genuine |= expected == sealed",
        "tests/api/test_verify.py",
    ),
    "a delivery is taken although it came before": Bug(
        "kfm.scheduling.triggers:take",
        "if is_past(state, message) or any(delivery is not None for delivery in known):",
        "if False:",
        "tests/api/test_door.py",
    ),
    "a run that was only claimed counts as done": Bug(
        "kfm.engine.admit:done_before",
        'latest.status != "COMMITTED"',
        'latest.status not in ("COMMITTED", "RUNNING")',
        "tests/crash/test_kills.py -k smallest tests/engine/test_rollback.py",
    ),
    "what was rolled back still counts as done": Bug(
        "kfm.engine.admit:done_before",
        "or not is_live(context, latest)",
        "",
        "tests/engine/test_rollback.py",
    ),
    "the receipt is written before the effect, in a commit of its own": Bug(
        "kfm.engine.run:run",
        "    executed = execute(context, planned)\n",
        "    from kfm.engine.stage_results import NOTHING_MADE\n"
        "    with context.world.state.transaction(planned.lease) as tx:\n"
        "        record(context, planned.run_id, NOTHING_MADE, tx)\n"
        "    executed = execute(context, planned)\n",
        "tests/engine/test_walk.py tests/crash/test_kills.py",
    ),
    "the receipt is written after the effect, in a commit of its own": Bug(
        "kfm.engine.upsert:commit",
        "                return stages(_with_served(made, tx), tx)\n",
        "                pass\n"
        "            with context.world.state.transaction() as tx:\n"
        "                return stages(_with_served(made, tx), tx)\n",
        "tests/crash/test_kills.py",
    ),
    "the token is not checked": Bug(
        "kfm.store.state:StoredState.check",
        "            self._check_fence(lease)\n",
        "",
        "tests/store/test_state.py",
    ),
    "the token is checked outside the transaction": Bug(
        "kfm.store.state:Transaction.__enter__",
        "        state.tables.begin(self._durable)\n        try:\n"
        "            if state.judge_place is not None:\n                state.check_place()\n"
        "            if self._lease is not None or self._switches:\n"
        "                state.check(self._lease, self._switches)\n",
        "        if self._lease is not None or self._switches:\n"
        "            state.check(self._lease, self._switches)\n"
        "        state.tables.begin(self._durable)\n        try:\n            pass\n",
        "tests/crash/test_stops.py tests/store/test_turns.py",
    ),
    "a lease is freed by anyone": Bug(
        "kfm.store.leases:LeasesTx.release",
        '        if current is not None and current.token == lease.token:\n            self._tables.put("leases"',
        '        if current is not None:\n            self._tables.put("leases"',
        "tests/store/test_state.py",
    ),
    "plan() may read the clock": Bug(
        "kfm.engine.isolation.purity:pure",
        "sys.setprofile(_profile)",
        "sys.setprofile(None)",
        "tests/engine/test_purity.py",
    ),
    "keys are hashed in the order they come": Bug(
        "kfm.model.canonical:_encode_sorted", 'order="sorted"', "order=None", "tests/model/test_canonical.py"
    ),
    "the gate says yes where nothing is known": Bug(
        "kfm/policy/rego/minimum.rego",
        'holds contains "provenance.run" if trim_space(input.made.run_id) != ""',
        'holds contains "provenance.run"',
        "tests/engine/test_gate.py",
    ),
    "the gate's error is a yes": Bug(
        "kfm.policy.promotion_gate:promotion_gate",
        "gate=GATE, allow=False, subject=move.after",
        "gate=GATE, allow=True, subject=move.after",
        "tests/engine/test_gate.py",
    ),
    "one digest is checked and another moved": Bug(
        "kfm.engine.zone_gates:is_yes",
        "return decision.allow is True and decision.subject == move.after",
        "return bool(decision.allow)",
        "tests/engine/test_gate.py",
    ),
    "a dry run opens the database for writing": Bug(
        "kfm.app.session.backends:open_tables_at",
        "    return OverlayTables(SnapshotTables(path))",
        "    from kfm.store.sqlite import SqliteTables as Writing\n\n    return OverlayTables(Writing(path))",
        "tests/engine/test_dry_run.py",
    ),
    "intents are not written": Bug(
        "kfm.engine.execute:write",
        '["PLAN", "EXECUTE"], intent, then)',
        '["PLAN", "EXECUTE"])',
        "tests/engine/test_wal.py",
    ),
    "the intent of an author's step is not durable": Bug(
        "kfm.engine.execute:write",
        "durable=not shared",
        "durable=False",
        "tests/engine/test_shared_syncs.py",
    ),
    "the commit is not announced": Bug(
        "kfm.engine.execute:write",
        "CLOSING if last else []",
        "[]",
        "tests/engine/test_wal.py::test_the_intent_to_commit_is_durable_before_the_commit",
    ),
    "what a run read does not go into the graph": Bug(
        "kfm.engine.lineage_stage:trace",
        "    tx.lineage.keep(",
        "    str(",
        "tests/app/provenance/test_graph.py::test_a_run_is_found_by_what_it_read_and_a_promotion_by_the_version",
    ),
    "an older state gets no graph": Bug(
        "kfm.store.state_formats:STEPS",
        ", 6: _draw_the_graph}",
        "}",
        "tests/app/provenance/test_graph.py::test_an_older_state_gets_the_graph_of_all_its_runs",
    ),
    "the address of a protected source is told": Bug(
        "kfm.masking.lineage_redaction:_input",
        "if not sealed and item.id not in known.closed and",
        "if not sealed and",
        "tests/app/provenance/test_told.py::test_a_source_that_became_protected_is_not_named_any_more",
    ),
    "a frozen switch is not looked at": Bug(
        "kfm.store.state:StoredState._check_open",
        "if refs.is_frozen(value):",
        'if value == "never":',
        "tests/store/test_state.py",
    ),
    "absence is deletion": Bug(
        "kfm.engine.upsert:assemble",
        "sealed = plan.complete and",
        "sealed = True or plan.complete and",
        "tests/engine/test_walk.py",
    ),
    "a large output is not read back": Bug(
        "kfm.engine.execute:Crew._store",
        "        with objects.open(digest) as file:\n            while piece := file.read(MOST_READ):\n"
        "                if keeps:\n                    kept = [*kept[-1:], piece]\n",
        "",
        "tests/damage/test_read_back.py",
    ),
    "a part of a manifest is cut by its values": Bug(
        "kfm.engine.manifest.manifest_tree:Cutter.add",
        "closes(line[0], self.level)",
        "closes((line[1],), self.level)",
        "tests/engine/test_manifests.py",
    ),
    "a recut ends before the cuts meet again": Bug(
        "kfm.engine.manifest.manifest_tree:_recut",
        "        elif cutter.held or sealed:\n",
        "        elif sealed:\n",
        "tests/engine/test_manifests.py",
    ),
    "a ref moves from wherever it is": Bug(
        "kfm.store.ref_history:RefsTx.move",
        "        if current != move.before:\n",
        "        if False:\n",
        "tests/store/test_state.py",
    ),
}
# Of the sixteen bugs every such system should catch, these wait for what they would be put into.
NOT_YET = ("masking after the catalogue is written",)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kfm-seeded-") as folder:
        sys.exit(planting.main(BUGS, sys.argv[1:], Path(folder)))
