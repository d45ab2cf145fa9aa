"""Promises of docs/guarantees.md, each broken in one place: the test that its row names must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

ONCE = "tests/crash/test_what_went_wrong_once.py"
TAKEN_UP = "tests/engine/test_taken_up_once.py"
IGNORED = "        try:\n            os.fdatasync(fd)\n        except OSError:\n            pass\n"

PROMISED: dict[str, Bug] = {
    "a failed sync of the system goes unnoticed": Bug(
        "kfm.fsio:Fs.sync", "        os.fdatasync(fd)\n", IGNORED, "tests/crash/test_system_calls.py"
    ),
    "a disk that fails ends a command as any mistake does": Bug(
        "kfm.errors:StorageFailed", "exit_code = 74", "exit_code = 1", "tests/crash/test_disk_faults.py"
    ),
    "a dry run by Node opens the database for writing": Bug(
        "node/runtime.mjs",
        'const { SnapshotTables } = await import("./store/snapshot.mjs");',
        'const { SqliteTables: SnapshotTables } = await import("./store/sqlite.mjs");',
        "tests/node/test_dry_run.py::test_no_call_to_the_system_changes_anything",
    ),
    "a remembered yes outlives the labels that it came from": Bug(
        "kfm.app.serving.serve_gate:ServeGate._decided",
        "            epoch,\n            rules.stamp,",
        "            rules.stamp,",
        "tests/app/serving",
    ),
    "a label on one record is not looked at when its dataset is shown": Bug(
        "kfm.app.serving.closed_records:record_rules",
        "return (RULE,) if _is_stricter(session, made, labels, records, seen) else ()",
        "return ()",
        "tests/app/serving",
    ),
    "a cache of rows over HTTP does not tell formats apart": Bug(
        "kfm.app.serving.table_answers:_key",
        "[__version__, form, str(rows.is_plain), *names]",
        "[__version__, str(rows.is_plain), *names]",
        "tests/api/test_table_routes.py",
    ),
    "heights are lost on the way to Parquet": Bug(
        "kfm.app.data.table_forms:_wkb",
        "return of_geojson(place, heights=True)",
        "return of_geojson(place)",
        "tests/app/serving/test_table_forms.py",
    ),
    "the DCAT catalog over HTTP names files of the folder": Bug(
        "kfm.app.serving.item_catalog:_dcat_entry",
        '{**each, "accessURL": served}',
        "each",
        "tests/api/test_dcat.py",
    ),
    "a search over HTTP counts what its caller may not see": Bug(
        "kfm.app.data.text_search:_candidates",
        "not may_show(source.dataset, source.version)",
        "False",
        "tests/app/derived_jobs/test_search_over_http.py",
    ),
    "two publish at once": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher.update_metadata",
        "        with self._turn():\n            later =",
        "        if True:\n            later =",
        f"{ONCE}::test_a_pointer_does_not_go_back_when_two_publish_at_once",
    ),
    "a lease that was taken over is still ours": Bug(
        "kfm.store.leases:LeasesTx.acquire",
        '        self._state.recheck("leases")\n        token =',
        "        token =",
        "tests/store/test_guard.py",
    ),
    "two hold one lease": Bug(
        "kfm.store.leases:LeasesTx.acquire",
        "            if is_held(current, now):\n",
        "            if False:\n",
        "tests/engine/test_concurrency.py",
    ),
    "an unfinished run keeps a second trigger": Bug(
        "kfm.engine.receipt_stage:skip",
        "elif context.unfinished is None and not preview_of(context.trigger):",
        "elif not preview_of(context.trigger):",
        f"{TAKEN_UP}::test_looking_at_an_unfinished_run_under_a_freeze_keeps_no_second_trigger",
    ),
    "a lease is not renewed": Bug(
        "kfm.engine.heartbeat:_renew",
        "            tx.leases.renew(lease, ttl)\n",
        "            pass\n",
        "tests/engine/test_heartbeat.py::test_a_step_that_takes_longer_than_the_lease_does_not_lose_it",
    ),
    "a lease that was given back is renewed": Bug(
        "kfm.store.leases:LeasesTx.renew",
        "if current is not None and current.expires_ms:",
        "if current is not None:",
        "tests/engine/test_heartbeat.py::test_a_lease_that_was_given_back_is_not_renewed",
    ),
    "an operation that waits is decided when it is done": Bug(
        "kfm.operations.move_updater:MoveUpdater.kept",
        "        return msgspec.structs.replace(trigger, params={**trigger.params, **pinned})\n",
        "        return trigger\n",
        "tests/node/test_kept_operations.py",
    ),
    "what was not told counts as told": Bug(
        "kfm.delivery.public_files:deliver",
        "                done[dataset] = telling\n",
        "                done[dataset] = telling\n"
        "                telling.told = SinkPosition(moves=len(moves), keep=retention(dataset))\n",
        "tests/engine/test_delivery.py",
    ),
    "what could not be told counts as told": Bug(
        "kfm.delivery.public_files:deliver",
        "                done[dataset] = telling\n",
        "                done[dataset] = telling\n"
        "                telling.told = SinkPosition(moves=len(moves), keep=retention(dataset))\n",
        "tests/node/test_undelivered.py",
    ),
    "a pointer goes back": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher.update_metadata",
        'later = self._seq_at(place) < int(value.get("seq", 0))',
        "later = True",
        "tests/engine/test_delivery.py::test_one_who_was_slower_than_others_takes_no_pointer_back",
    ),
    "a place is finer than what the source knows": Bug(
        "kfm.masking.mask:_place",
        "_Place(min(resolution, allowed),",
        "_Place(resolution,",
        "tests/masking/test_mask.py::test_a_cell_is_never_finer_than_what_the_source_knows",
    ),
    "one column of a protected table is no leak": Bug(
        "kfm.masking.leak_scanner:_judged",
        'if own.column and beyond("column", max(_COLUMN, share)):',
        "if False:",
        "tests/masking/test_forms.py::test_four_values_of_a_column_do_not_deny_and_eight_do",
    ),
    "a file that cannot be read is clean": Bug(
        "kfm.masking.leak_scanner:scan_all",
        "    if contents.unreadable:\n",
        "    if False:\n",
        "tests/masking/test_gate.py::test_what_cannot_be_read_is_for_a_person_to_review",
    ),
    "a coordinate of a map tile is no place": Bug(
        "kfm.masking.tile_contents:TileContents._places",
        "points += [grid.point(x, y) for x, y in one.positions]",
        "pass",
        "tests/masking/test_tiles.py::test_one_exact_corner_is_denied_at_a_deep_zoom",
    ),
    "the outline of a cell in a map tile is a leak": Bug(
        "kfm.masking.tile_contents:TileContents._places",
        "                if cell:\n",
        "                if False:\n",
        "tests/masking/test_tiles.py::test_the_cells_of_masked_data_are_no_leak_at_any_zoom",
    ),
    "a town near a site is denied": Bug(
        "kfm.masking.leak_scanner:_judged",
        '"deny" if beyond("fine", few) else "review"',
        '"deny"',
        "tests/masking/test_forms.py::test_one_near_point_among_towns_is_reviewed_and_three_are_denied",
    ),
    "longitudes from 0 to 360 are no longitudes": Bug(
        "kfm.masking.leak_search:Search._readings",
        "if high > 180_0000 and low <= 360_0000:",
        "if False:",
        "tests/masking/test_forms.py::test_a_coordinate_in_any_notation_is_recognised",
    ),
    "the public sees finer cells": Bug(
        "kfm.masking.mask:_cells",
        "cells.cells_of(latitudes, longitudes, resolution)",
        "cells.cells_of(latitudes, longitudes, max(resolution, 9))",
        "tests/app/governance/test_canaries.py",
    ),
    "a journal is put away twice": Bug(
        "kfm.store.readers.archive:Archive._put_away",
        'if keys and self._state.tables.get("segments", keys[0]) is not None:',
        "if keys:",
        "tests/engine/test_compaction_races.py",
    ),
    "an older state keeps its rows as they were": Bug(
        "kfm.store.state_formats:STEPS", "{4: _to_format_4, 6: _draw_the_graph}", "{6: _draw_the_graph}", "tests/golden"
    ),
    "another version takes an unfinished run over": Bug(
        "kfm.engine.admit:close_superseded",
        "if old.updater_version != context.updater.version and not abandons(context, old):",
        "if False:",
        "tests/crash/test_upgrade_in_flight.py",
    ),
    "rows that others appended are missing in the tree": Bug(
        "kfm.store.ledger:LedgerTx._grow",
        "if body != self._grown[0] or tree.size != index - 1:",
        "if False:",
        "tests/store/test_ledger_tree.py",
    ),
    "a revoked key proves": Bug(
        "kfm.app.session.trust:Trust.believed",
        "for key in listed if not key.revoked_at]",
        "for key in listed]",
        "tests/app/governance/test_vouched.py",
    ),
    "a revoked steward counts": Bug(
        "kfm.crypto.key_list:Key.is_live",
        " and not (self.revoked_at and self.revoked_at <= now)",
        "",
        "tests/engine/protected/test_lowering.py::test_a_steward_who_is_revoked_between_does_not_count",
    ),
    "who asked may sign": Bug(
        "kfm.crypto.approvals:not_counted",
        'if act.kind == "approve" and key.person == request.requester:',
        "if False:",
        "tests/engine/protected/test_lowering.py::test_nobody_signs_for_what_he_asked_for",
    ),
    "who asked counts as one who approved": Bug(
        "kfm.crypto.approvals:_signed_by",
        "        elif key.person != request.requester:\n",
        "        else:\n",
        "tests/crypto/test_approvals.py",
    ),
    "the order of the sources is that of a set": Bug(
        "kfm.updaters.transforms.transform_updater:DeclaredUpdater.__init__",
        "self._sources = sorted(used)",
        "self._sources = list(used)",
        "tests/engine/test_determinism.py",
    ),
    "how much there is of protected data is shown": Bug(
        "kfm.client.pinned_version:VersionReading._title",
        "if self._public else title",
        "if True else title",
        "tests/client",
    ),
    "a partition takes back what another committed": Bug(
        "kfm.store.ref_history:RefsTx.move",
        "        if current != move.before:\n",
        "        if False:\n",
        "tests/engine/test_partition_kills.py",
    ),
    "what is made again is made from what the world holds now": Bug(
        "kfm.engine.reproduction:again",
        "msgspec.structs.replace(context.world, open_source=lambda _uri: recorded)",
        "context.world",
        "tests/engine/test_reproduced.py::test_the_examples_over_http_come_out_again_when_their_server_is_gone",
    ),
    "what a killed run made is not compared": Bug(
        "kfm.testing.trial:Trial.check_crashes",
        "            self._compare(tried, made, msgspec.convert(answer, RunResult), crashed=True)\n",
        "",
        "tests/testing/test_trials.py",
    ),
}
