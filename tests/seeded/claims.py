"""Each claim of docs/conformance.md, broken in one place, with the test its row names.

    python -m tests.seeded.claims            break them one by one and show which tests notice
    python -m tests.seeded.claims U4 …       only the claims of these rows

A key is the id of its row, and where a row has several claims, which of them. Texts to replace are as short as can be.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.seeded import energy_bugs, explained, planting, recorded, serving_claims
from tests.seeded.kinds import KINDS
from tests.seeded.planting import Bug
from tests.seeded.scheduling_claims import SCHEDULING
from tests.seeded.source_claims import SOURCES
from tests.seeded.told import TOLD

FIELDS = "tests/engine/test_recorded_fields.py"
GATE = "tests/engine/test_gate.py"
KEYS = "tests/model/test_keys.py"
PATTERNS = "tests/project/test_patterns.py"
PARTITIONS = "tests/engine/test_partitions.py"
STATE = "tests/store/test_state.py"
TWO = "tests/app/governance/test_two_persons.py"
COMMUNITY = "tests/app/governance/test_community_key.py"
TYPED = "tests/cli/test_commands.py"
VERIFY = "tests/api/test_verify.py"
WALK = "tests/engine/test_walk.py"
OVERRIDDEN = "tests/app/provenance/test_overriding.py::test_the_example_does_what_it_says"
WORKFLOW = "tests/sinks/github/test_workflow.py"

CLAIMS: dict[str, Bug] = {
    **TOLD,
    **SCHEDULING,
    **SOURCES,
    **KINDS,
    "U1 the same words": Bug(
        "kfm.cli.work.run:arguments",
        '"--dry-run", action',
        '"--dryrun", action',
        "tests/node/test_seed_words.py::test_both_runners_take_the_word_and_end_with_the_same_code",
    ),
    "U1 the same codes": Bug(
        "kfm.errors:Refused",
        'class Refused(KfmError):\n    code = "refused"\n    exit_code = 3',
        'class Refused(KfmError):\n    code = "refused"\n    exit_code = 8',
        "tests/node/test_door.py::test_both_runners_answer_alike",
    ),
    "U2 canonical in Python": Bug(
        "kfm.model.canonical:_encode_sorted", 'order="sorted"', "order=None", "tests/conformance/test_vectors.py"
    ),
    "U2 the same story": Bug(
        "kfm.projections.artifacts:run_lines",
        "enumerate(runs, 1)",
        "enumerate(runs, 2)",
        "tests/node/test_twins.py::test_both_runners_leave_the_same_records",
    ),
    "U3": Bug(
        "kfm.model.keys:run_key",
        '.replace("|", "\\\\|")',
        "",
        f"{KEYS}::test_all_short_tuples_of_joining_characters_have_keys_of_their_own",
    ),
    "U3 the formula": Bug(
        "kfm.model.keys:run_key",
        'joined = "|".join(fields)',
        'joined = "/".join(fields)',
        f"{KEYS}::test_ordinary_values_hash_exactly_as_the_formula_reads",
    ),
    "U4 still live": Bug(
        "kfm.engine.admit:done_before",
        "or not is_live(context, latest)",
        "",
        "tests/engine/test_rollback.py::test_ingest_rollback_ingest_is_ingest",
    ),
    "U4 the row": Bug(
        "kfm.projections.artifacts:idempotency",
        '"dataset_id": receipt.dataset',
        '"dataset_id": receipt.updater_id',
        f"{FIELDS}::test_the_ledger_row_of_a_run_says_what_was_read_by_which_pipeline_under_which_key",
    ),
    "U5": Bug(
        "kfm.sources.revalidation:may_revalidate",
        "and 0 <= age < request.revalidate_ms",
        "",
        "tests/sources/test_validator_lies.py::test_the_content_hash_decides_whatever_the_validators_say",
    ),
    "U6": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher.write_file",
        'self._note("write_file"',
        'self._note("noop_guard"',
        "tests/engine/test_dry_run.py::test_on_every_state_the_predicted_effects_are_the_effects_made",
    ),
    "U7": Bug(
        "kfm.app.session.backends:open_tables_at",
        "return OverlayTables(SnapshotTables(path))",
        "from kfm.store.sqlite import SqliteTables as Writing\n\n    return OverlayTables(Writing(path))",
        "tests/engine/test_dry_run.py::test_no_call_to_the_system_changes_anything",
    ),
    "U8": Bug(
        "kfm.projections.artifacts:event_lines",
        "enumerate(events, 1)",
        "enumerate(events, 0)",
        "tests/engine/test_artifacts.py::test_the_four_artifacts_are_canonical_valid_and_in_order",
    ),
    "U9": Bug(
        "kfm.scheduling.webhook_requests:_hexadecimal",
        'b"sha256=" + hmac.new(secret.reveal(), body, hashlib.sha256)',
        'b"sha256=" + hashlib.sha256(secret.reveal() + body)',
        f"{VERIFY}::test_every_vector_is_answered",
    ),
    "U10": Bug(
        "kfm.scheduling.webhook_requests:_unified",
        'integrity.get("version") != "v1"',
        "False",
        f"{VERIFY}::test_every_vector_is_answered",
    ),
    "U11": Bug(
        "kfm.store.state:StoredState.check",
        "            self._check_fence(lease)\n",
        "",
        f"{STATE}::test_a_stale_token_writes_nothing_renews_nothing_and_frees_nothing",
    ),
    "U12": Bug(
        "kfm.projections.runners.github_workflow:_workflow",
        '"schedule": [{"cron": cron} for cron in crons],',
        "",
        f"{WORKFLOW}::test_the_example_is_what_is_written_for_it",
    ),
    "U13": Bug(
        "kfm.engine.run:run",
        "    inspected = quarantine(context, acquired, admitted.run)\n",
        "    from kfm.engine.stage_results import Inspected\n\n    inspected = Inspected(acquired.inputs)\n",
        f"{WALK}::test_the_quarantine_ref_goes_when_the_source_is_mended_and_its_history_stays",
    ),
    "U14": Bug(
        "kfm.engine.telemetry_stage:measure",
        "artifact_count=results.done if results else 0",
        "artifact_count=len(inputs)",
        f"{FIELDS}::test_the_telemetry_of_a_run_says_what_it_did_and_how_long_it_took",
    ),
    "U14 the bundle": Bug(
        "kfm.engine.receipt_stage:skip",
        'measure(context, tx, "SKIPPED", run_id)',
        "",
        "tests/cli/test_telemetry.py::test_every_run_is_in_the_bundle_and_the_bundle_is_what_its_schema_says",
    ),
    "U15": Bug(
        "kfm.errors:Denied",
        'class Denied(KfmError):\n    code = "denied"\n    exit_code = 4',
        'class Denied(KfmError):\n    code = "denied"\n    exit_code = 3',
        f"{TYPED}::test_promotion_without_a_licence_is_denied_until_it_is_declared",
    ),
    "U16": Bug(
        "kfm.engine.receipt_stage:skip",
        "tx.inbox.keep(kept)",
        "str(kept)",
        f"{TYPED}::test_what_is_frozen_waits_for_the_thaw",
    ),
    "U18": Bug(
        "examples/config.example.yml",
        "datasets:",
        "dataset:",
        "tests/node/test_examples.py::test_an_example_is_done_alike_by_both_runners",
    ),
    "U18 cron.yml": Bug(
        "examples/cron.yml",
        "workflow_dispatch",
        "workflow_call",
        f"{WORKFLOW}::test_the_example_is_what_is_written_for_it",
    ),
    "D1": Bug(
        "kfm.engine.execute:Crew._attempt",
        "self._perform(step, self._reader)",
        "self._perform(self._reader, step)",
        f"{TYPED}::test_a_run_publishes_then_has_nothing_to_do",
    ),
    "D1 overridden": Bug(
        "kfm.engine.execute:Crew.__init__", "= context.updater.execute", "= context.updater.perform", OVERRIDDEN
    ),
    "D1 a semantic version": Bug(
        "kfm.model.updater:check_version",
        "if not is_semantic(updater.version):",
        "if not updater.version:",
        "tests/node/test_semantic_versions.py::test_every_way_to_ask_for_a_run_of_python_code_says_so_and_doctor_too",
    ),
    "D3 pure": Bug(
        "kfm.engine.isolation.purity:pure",
        "sys.setprofile(_profile)",
        "sys.setprofile(None)",
        "tests/engine/test_purity.py::test_an_impure_plan_is_refused_and_its_call_is_named",
    ),
    "D3 locked": Bug(
        "kfm.store.journal:JournalTx.lock_plan",
        'self._tables.put("plan_locks", lock_key, plan_hash.encode())',
        "pass",
        f"{WALK}::test_a_changed_plan_under_one_version_is_refused_with_a_diff",
    ),
    "D4": Bug(
        "kfm.engine.plan:Checker.check",
        "self._check_needs(step, position)",
        "pass",
        f"{WALK}::test_a_bad_plan_is_refused_and_nothing_is_performed",
    ),
    "D5": Bug(
        "kfm.projections.wal_records:wal_records.fact",
        "updater_version=run.updater_version",
        "updater_version=run.updater_id",
        f"{FIELDS}::test_the_journal_records_of_a_run_say_whose_they_are",
    ),
    "D5 in Avro and Parquet": Bug(
        "kfm.projections.wal_records:_row",
        "canonical(record.payload).decode()",
        '""',
        "tests/engine/test_wal.py::test_an_export_holds_the_same_records",
    ),
    "D6 intent before effect": Bug(
        "kfm.engine.execute:write",
        '["PLAN", "EXECUTE"], intent, then)',
        '["PLAN", "EXECUTE"])',
        "tests/engine/test_wal.py::test_every_step_has_its_intent_before_its_done",
    ),
    "D6 other bytes": Bug(
        "kfm.store.journal:JournalTx.append",
        'self._tables.get("segments", key) != body:',
        "not body:",
        f"{STATE}::test_a_segment_is_written_once_and_other_bytes_under_its_number_are_corruption",
    ),
    "D7": Bug(
        "kfm.engine.admit:claim",
        'latest.status == "RUNNING" and not',
        'latest.status == "RESUMED" and not',
        "tests/crash/test_kills.py::test_a_kill_at_any_place_changes_nothing_in_the_end[jsonl-smallest-0]",
    ),
    "D8": Bug(
        "kfm.store.readers.archive:Archive.rows",
        "if place.offset <= at < end:",
        "if place.offset < at < end:",
        "tests/engine/test_wal.py::test_compaction_answers_the_same_questions",
    ),
    "D9": Bug(
        "kfm.model.keys:output_key",
        "list(business_key), content_hash]",
        "list(business_key)]",
        f"{KEYS}::test_every_part_of_an_output_key_counts",
    ),
    "D9 a new version": Bug(
        "kfm.engine.upsert:assemble",
        "supersedes=before if",
        'supersedes="" if before else before if',
        f"{WALK}::test_changed_content_makes_a_new_version_that_supersedes_the_old",
    ),
    "D9 a deleted key": Bug(
        "kfm.model.manifests:changes",
        'assert a is not None\n            yield Change(a.key, "removed", a, None)\n',
        "assert a is not None\n",
        "tests/cli/test_diff.py::test_a_deleted_key_can_still_be_read_where_it_was",
    ),
    "D10": Bug(
        "kfm.store.leases:LeasesTx.acquire",
        "if is_held(current, now)",
        "if not is_held(current, now)",
        f"{STATE}::test_a_lease_is_held_by_one_until_it_expires",
    ),
    "D10 a partition": Bug(
        "kfm.engine.admit:scope_of",
        'context.trigger.partition if narrow else ""',
        '""',
        f"{PARTITIONS}::test_a_commit_that_came_in_between_is_kept_and_the_second_is_assembled_again",
    ),
    "D10 turns at the ref": Bug(
        "kfm.engine.upsert:commit",
        "repeats = bool(context.trigger.partition) and",
        "repeats = not context.trigger.partition and",
        f"{PARTITIONS}::test_a_commit_that_came_in_between_is_kept_and_the_second_is_assembled_again",
    ),
    "D13": Bug(
        "kfm.engine.telemetry_stage:measure",
        "        **_energy(context),\n",
        "",
        f"{FIELDS}::test_the_telemetry_of_a_run_says_what_it_did_and_how_long_it_took",
    ),
    "D13 on failure": Bug(
        "kfm.engine.receipt_stage:fail",
        'measure(context, tx, "FAILED", run_id, [problem.code])',
        "",
        f"{FIELDS}::test_the_telemetry_of_a_run_that_failed_or_had_nothing_to_do_says_so",
    ),
    "D14": Bug(
        "kfm.engine.run:run",
        "        trace(context, planned.journal, executed, made, tx)\n",
        "",
        f"{TYPED}::test_the_log_of_a_run_is_the_same_before_and_after_compaction",
    ),
    "D17 patterns": Bug(
        "docs/patterns/wal-replay.md",
        "`test_a_second_kill_during_the_recovery_changes_nothing_either`",
        "`test_a_second_kill`",
        f"{PATTERNS}::test_a_pattern_says_its_promise_how_it_is_kept_and_which_test_shows_each_fault",
    ),
    "D17 specs": Bug(
        "kfm.model.records:WalRecord.phase",
        "  # the phase of the run",
        "  # something",
        f"{PATTERNS}::test_what_a_spec_says_of_records_is_made_of_them",
    ),
    "D17 checklists": Bug(
        "kfm.operations.freeze:Freeze.target",
        'target = "frozen"',
        'target = "open"',
        "tests/project/test_guides.py::test_a_guide_works_as_written[canary]",
    ),
    "O2": Bug(
        "kfm.scheduling.polling:note",
        "mark.content_hash != seen",
        "mark.content_hash == seen",
        "tests/app/daemon/test_watching.py::test_a_change_makes_one_run_and_no_change_makes_none",
    ),
    "O4": Bug(
        "kfm.store.ledger:LedgerTx.keep_version",
        "if (first := self.version(version.dataset, version.digest)) is not None:",
        "if (first := version) is None:",
        f"{STATE}::test_a_version_keeps_its_first_maker",
    ),
    "O10 an error is a no": Bug(
        "kfm.policy.promotion_gate:promotion_gate",
        "gate=GATE, allow=False, subject=move.after",
        "gate=GATE, allow=True, subject=move.after",
        f"{GATE}::test_a_check_that_fails_is_a_no",
    ),
    "O10 exactly these digests": Bug(
        "kfm.engine.zone_gates:is_yes",
        " and decision.subject == move.after",
        "",
        f"{GATE}::test_a_yes_about_other_bytes_does_not_open",
    ),
    "O11": Bug(
        "kfm.projections.runners.github_workflow:_workflow",
        '"cancel-in-progress": False',
        '"cancel-in-progress": True',
        f"{WORKFLOW}::test_the_example_is_what_is_written_for_it",
    ),
    "O13": Bug(
        "kfm.app.runs.queries:held_sources",
        "whole = session.state.refs.at(ref)",
        'whole = session.state.refs.at("held/" + dataset)',
        f"{TYPED}::test_held_shows_what_is_held_back_and_why",
    ),
    "O13 what is not signed is not done": Bug(
        "kfm.engine.upsert:assemble",
        "context.guards.authority(context.updater, context.trigger, moves) if moves else Warrant()",
        "Warrant()",
        f"{TWO}::test_a_name_proves_nothing",
    ),
    "O13 used once": Bug(
        "kfm.app.authority.authorization:_using",
        'order.became("used")',
        'order.became("open")',
        f"{TWO}::test_an_order_is_used_once",
    ),
    "O13 asked again in the commit": Bug(
        "kfm.engine.upsert:upsert",
        "if tx.refs.at(ref) != at:",
        "if not at:",
        f"{TWO}::test_the_list_that_changes_while_it_is_decided_stops_the_commit",
    ),
    "O13 not by who asked": Bug(
        "kfm.crypto.approvals:not_counted",
        'if act.kind == "approve" and key.person == request.requester:',
        'if act.kind == "approve" and not key.person:',
        f"{TWO}::test_nobody_signs_for_what_he_asked_for",
    ),
    "O13 exactly what was asked for": Bug(
        "kfm.app.authority.authorization:MATTER",
        '"subject", "records", "before", "after",',
        '"records", "before",',
        f"{TWO}::test_what_was_approved_is_exactly_what_is_done",
    ),
    "O13 the community": Bug(
        "kfm.crypto.approvals:_missing",
        "len(signed.community) < custodian.threshold",
        "custodian.threshold < 0",
        f"{COMMUNITY}::test_it_takes_the_threshold_of_the_community_and_two_stewards",
    ),
    "O13 the list stays": Bug(
        "kfm.crypto.key_list:known_list",
        "if keys.digest != known:",
        "if not known:",
        "tests/app/governance/test_keys.py::test_a_list_cannot_be_switched_off_or_put_back",
    ),
    "O15 nowhere": Bug(
        "kfm.config.custodian_settings:check_custodian",
        '"is not a reference"',
        'f"is not a reference: {custodian.key}"',
        "tests/app/governance/test_secrets.py::test_no_secret_is_found_anywhere",
    ),
    "O15": Bug(
        "kfm.model.redaction:redacted_url",
        '"***@" + authority.rpartition("@")[2]',
        "authority",
        "tests/config/test_config.py::test_what_is_shown_holds_no_secret",
    ),
    "W5": Bug(
        "kfm.engine.zone_gates:is_yes",
        "return decision.allow is True and decision.subject == move.after",
        "return True",
        f"{WALK}::test_promotion_without_one_line_of_the_checklist_is_denied",
    ),
    "W5 Processed is asked for": Bug(
        "kfm.engine.zone_gates:_taken",
        "if decision.allow is not True or decision.subject != step.subject:",
        "if decision.allow is None:",
        "tests/engine/test_zones.py::test_what_is_unsafe_does_not_go_up_and_the_ledger_says_so",
    ),
    "U15 an escalation has its own code": Bug(
        "kfm.errors:Sovereignty",
        'code = "denied.sovereignty"\n    exit_code = 7',
        'code = "denied.sovereignty"',
        "tests/engine/test_zones.py::test_what_is_unsafe_does_not_go_up_and_the_ledger_says_so",
    ),
    "O10 compared again in the commit": Bug(
        "kfm.engine.zone_gates:still_holds",
        "if decision.policy_digest != policy_digest or decision.label_epoch != epoch:",
        "if decision.policy_digest != policy_digest and decision.label_epoch != epoch:",
        "tests/engine/test_zones.py::test_what_changed_while_it_was_decided_is_not_committed",
    ),
    "O10 obligations": Bug(
        "kfm.engine.zone_gates:unmet_by",
        'elif duty.do == "withhold":',
        'elif duty.do == "nothing":',
        "tests/engine/test_zones.py::test_an_obligation_that_cannot_be_obeyed_denies",
    ),
    "O10 own policies only close": Bug(
        "kfm.policy.decision:Decider.decide",
        "if own.allow is not True:",
        "if own.allow is None:",
        "tests/policy/test_commands.py::test_policies_of_an_installation_close_and_never_open",
    ),
    "O10 a stopped server denies": Bug(
        "kfm.policy.decision:Decider._asked",
        'return self._no(asked, "engine.unanswered", f"engine: {problem.reason}")',
        'return self._no(None, "engine.unanswered", "")',
        "tests/policy/test_commands.py::test_a_server_stopped_in_the_middle_of_a_promotion_denies_it_and_another_run_returns",
    ),
    "U15 every rule is explained": Bug(
        "kfm.policy.rule_report:PARTS",
        '"published": ("zone", "promotion", "faircare", "telemetry"),',
        '"published": ("zone", "promotion"),',
        "tests/policy/test_commands.py::test_every_rule_of_the_step_is_explained",
    ),
    "W6": Bug(
        "kfm.engine.run_context:RunContext.bind",
        "job_id=claim_key[:32]",
        "job_id=self.dataset",
        f"{FIELDS}::test_the_log_lines_of_a_run_say_whose_they_are",
    ),
    "O14": Bug(
        "kfm.engine.receipt_stage:record",
        "if context.guards.attest is not None:",
        "if context.guards.attest is not None and context.unfinished is not None:",
        "tests/cli/test_attest.py::test_a_commit_attests_and_the_version_verifies_offline",
    ),
    "O14 a bad signature is none": Bug(
        "kfm.app.provenance.attestation:_statement",
        'return Check(what=what, state="unsigned", found=problem.message)',
        'return Check(what=what, state="ok", found=problem.message)',
        "tests/cli/test_attest.py::test_whatever_was_changed_is_named",
    ),
    "O14 others read them": Bug(
        "kfm.crypto.envelopes:pae",
        'b"DSSEv1 %d %b %d %b"',
        'b"DSSEv2 %d %b %d %b"',
        "tests/crypto/test_attestations.py::test_what_we_sign_the_libraries_of_in_toto_verify_and_read",
    ),
    "P1": Bug(
        "kfm.operations.move_updater:MoveUpdater.moves_only",
        "    moves_only = True\n",
        "    moves_only = False\n",
        f"{TYPED}::test_rollback_and_rollback_forward_bring_back_the_same_bytes",
    ),
    "P1 the search alias and the cache epoch": Bug(
        "kfm.app.authority.served_refs:_epochs",
        "name == dataset or",
        "False and",
        "tests/app/derived_jobs/test_search.py::test_the_alias_and_the_epoch_move_with_publication_and_rollback",
    ),
    "P2": Bug(
        "kfm.operations.rollback:Rollback.aim",
        "entries[-1].before",
        "entries[-1].after",
        f"{TYPED}::test_rollback_and_rollback_forward_bring_back_the_same_bytes",
    ),
    "P3": Bug(
        "kfm.policy.promotion_gate:made_of",
        "version.metadata if declared is None else declared",
        "version.metadata",
        f"{GATE}::test_what_is_declared_today_decides_whatever_the_version_was_made_under",
    ),
    "P4": Bug(
        "kfm.model.interventions.hotfix_set:corrected",
        "if fix.holds(found, version):",
        "if not fix.holds(found, version):",
        "tests/app/interventions/test_hotfix.py::test_every_reader_sees_a_correction_and_its_end_byte_for_byte",
    ),
    "P5": Bug(
        "kfm.retries.shared_guards:SharedBudget.take",
        "tx.budgets.keep(budget)",
        "pass",
        "tests/retries/test_shared_retries.py::test_in_a_storm_the_attempts_are_at_most_the_calls_and_the_budget",
    ),
    "P6": Bug(
        "kfm.engine.lineage_stage:trace",
        '["EXECUTE", "UPSERT", "LINEAGE"]',
        '["EXECUTE", "UPSERT"]',
        "tests/engine/test_wal.py::test_every_step_has_its_intent_before_its_done",
    ),
    "P7 without a key list": Bug(
        "kfm.engine.protected.protection:Protection.key_of",
        "        self.may_be_handled()\n",
        "",
        "tests/engine/protected/test_way_in.py::test_without_a_key_list_only_public_data_are_handled",
    ),
    "P7": Bug(
        "kfm/policy/rego/minimum.rego",
        'holds contains "metadata.kept" if input.made.made_as in {"public", "unsaid"}',
        'holds contains "metadata.kept"',
        f"{GATE}::test_a_version_that_was_made_as_restricted_stays_so",
    ),
    "P8": Bug(
        "kfm.store.state:StoredState._check_open",
        "if refs.is_frozen(value):",
        'if value == "frozen":',
        f"{STATE}::test_whatever_is_not_plainly_open_is_frozen",
    ),
    "P10": Bug(
        "kfm.store.ledger:LedgerTx.append",
        'prev=self._state.meta("ledger_head") or GENESIS',
        "prev=GENESIS",
        f"{STATE}::test_the_ledger_is_one_unbroken_chain_over_the_receipts",
    ),
    "P10 heads are signed when they are due": Bug(
        "kfm.store.ledger:LedgerTx._grow",
        "index - self.covered() >= notary.every",
        "index - self.covered() > notary.every",
        "tests/cli/test_audit.py::test_signed_heads_are_made_when_due_written_outside_and_verified",
    ),
    "P10 the export is the rows": Bug(
        "kfm.crypto.ledger_verify:export_lines",
        "yield comma + leaf",
        "yield comma + leaf.replace(b':\"noop\"', b':\"done\"')",
        "tests/cli/test_audit.py::test_the_export_is_the_rows_and_verifies_by_both",
    ),
    "P10 receipts are compared": Bug(
        "kfm.app.provenance.audit:_name_the_first",
        "if receipt is None or digest(receipt) != row.receipt_digest:",
        "if receipt is None:",
        "tests/crypto/test_tampered_state.py::test_receipts_rows_and_notes_that_do_not_fit_are_seen",
    ),
    "P10 what people wrote is not shown": Bug(
        "kfm.engine.protected.ledger_redaction:append",
        '["reason"] if known.care == "open" else ["operator", "reason"]',
        "[]",
        "tests/engine/protected/test_private_entries.py"
        "::test_what_was_written_is_committed_to_sealed_and_opened_by_the_custodian_alone",
    ),
    "P11": Bug(
        "kfm.app.authority.named_versions:digest_meant",
        "if len(found) != 1:",
        "if len(found) < 9:",
        f"{TYPED}::test_a_version_to_roll_back_to_may_be_named_by_its_start",
    ),
    "P12": Bug(
        ".ci/run",
        "exec make test",
        "exec make lint",
        "tests/project/test_import_contract.py::test_ci_goes_on_to_make_test_when_there_is_no_apt",
    ),
    **energy_bugs.CLAIMS,
    **explained.CLAIMS,
    **recorded.CLAIMS,
    **serving_claims.CLAIMS,
}


def row_of(claim: str) -> str:
    return claim.partition(" ")[0]


def main(rows: list[str]) -> int:
    wanted = [claim for claim in CLAIMS if not rows or row_of(claim) in rows]
    with tempfile.TemporaryDirectory(prefix="kfm-claims-") as folder:
        return planting.main(CLAIMS, wanted, Path(folder)) if wanted else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
