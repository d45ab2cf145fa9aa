"""What was refuted once and mended, each put back as it was: the test that was written for it must turn red."""

from __future__ import annotations

from tests.seeded.planting import Bug

SMALL = "tests/cli/test_small_promises.py"
ROWS = "tests/node/test_rows_that_pass.py"
FINDINGS = "kfm.validation.findings"
SERVING = "kfm.api.server"
WIRE = "tests/api/test_wire.py"
COPIES = "tests/engine/protected/test_denied_copies.py"

LISTS = "tests/cli/test_signed_lists.py"
WITHDRAWN = "tests/cli/test_withdrawn.py"
RENAMED = "tests/engine/protected/test_mask_renamed.py"

REQUIRED = "tests/policy/test_required.py"
REVIEWS = "tests/cli/test_review_rules.py"

BOTH = "tests/policy/test_both_gates.py"

MENDED: dict[str, Bug] = {
    "a yes about Processed opens Work": Bug(
        "kfm.policy.decision:Decider.allows_both",
        "if not about_work.is_yes(*work.subjects) or not",
        "if not",
        f"{BOTH}::test_an_answer_that_is_not_two_clean_yeses_opens_neither_gate",
    ),
    "a decision is reused for another digest": Bug(
        "kfm.policy.decision:Decider._weighed",
        "if verdict.question != echo or verdict.subjects != asked.subjects:",
        "if False:",
        f"{BOTH}::test_a_decision_is_never_reused_for_another_digest",
    ),
    "each gate of public data costs an evaluation": Bug(
        "kfm.engine.zone_gates:_is_plain",
        "return told and",
        "return False and told and",
        "tests/engine/test_run_cost.py::test_a_run_of_public_data_asks_both_gates_in_one_evaluation",
    ),
    "without keys.json there is no brake": Bug(
        "kfm.app.session.key_list_file:key_list_in_force",
        "if resolved.only_closes else None",
        "if False else None",
        "tests/app/governance/test_key_list_gone.py"
        "::test_without_the_key_list_a_signer_freezes_and_withdraws_and_opens_nothing",
    ),
    "without the label file nothing can be tightened": Bug(
        "kfm.app.stewards.label_edit:_file",
        "    if signed and not file.is_there:\n",
        "    if False:\n",
        "tests/engine/protected/test_label_file_lost.py"
        "::test_a_label_becomes_stricter_and_the_other_signed_labels_stay",
    ),
    "any word is a licence": Bug(
        "kfm.policy.question_builder:licence_problem",
        "    return problem_of(",
        "    return None and problem_of(",
        f"{REQUIRED}::test_a_licence_that_spdx_does_not_know_is_denied_with_the_nearest_right_one",
    ),
    "a format is a whole contract": Bug(
        "kfm.model.format_rules:gap_of",
        'return "contract.columns"',
        'return ""',
        f"{REQUIRED}::test_a_contract_that_says_only_the_format_of_a_table_denies",
    ),
    "any share of rows may be quarantined": Bug(
        "kfm.policy.question_builder:_quality",
        "at_least=0, at_most=0.1",
        "at_least=0, at_most=1.0",
        f"{REQUIRED}::test_a_share_of_quarantined_rows_above_the_ceiling_denies",
    ),
    "the default review lowers protected data": Bug(
        "kfm.app.authority.review_rules:review_of",
        'return "two" if is_guarded(session, dataset, move) else in_force(session, dataset)',
        "return in_force(session, dataset)",
        f"{REVIEWS}::test_the_default_of_an_installation_does_not_lower_protected_data",
    ),
    "a renamed source loosens its mask unsigned": Bug(
        "kfm.app.authority.mask_names:unsigned_masks",
        "for other in _loosened(session, one):",
        "for other in ():",
        f"{RENAMED}::test_a_source_with_a_new_name_and_a_looser_mask_is_denied",
    ),
    "an old name brings back what was tightened under a new one": Bug(
        "kfm.app.authority.rule_adoption:adopt_rules",
        "    _end_replaced(session, dataset)\n",
        "",
        f"{RENAMED}::test_the_way_back_to_an_old_name_is_no_way_around_a_stricter_mask",
    ),
    "attesting again breaks the chain of lists": Bug(
        "kfm.app.provenance.attestation:_concerned",
        "if receipt.run_id in listed or _concerns",
        "if _concerns",
        f"{LISTS}::test_signing_again_keeps_the_chain_of_lists_when_several_runs_made_the_same_version",
    ),
    "a removed statement is not missed": Bug(
        "kfm.app.stewards.evidence:_differences",
        "    for statement in one.statements:\n",
        "    for statement in ():\n",
        f"{LISTS}::test_evidence_that_was_removed_or_swapped_in_the_state_is_noticed",
    ),
    "signing again hides that a list was removed": Bug(
        "kfm.app.session.attester:_check_listed",
        "if not lists and marks(receipt, version):",
        "if False:",
        f"{LISTS}::test_signing_again_does_not_hide_that_a_list_was_removed",
    ),
    "a missing key list is all is well": Bug(
        "kfm.app.maintenance.doctor:key_verdicts",
        "        key_list_of_file(session.resolved, session.state)\n",
        "        pass\n",
        "tests/app/governance/test_key_list_gone.py"
        "::test_a_key_list_that_is_not_the_one_in_force_is_an_alarm_with_the_cure",
    ),
    "a server with further rules is believed": Bug(
        "kfm.policy.rego_engines:_touches",
        "return one[: len(other)] == other[: len(one)]",
        "return False",
        "tests/policy/test_engines_agree.py::test_policies_are_compared_by_their_rules_and_not_by_names_or_comments",
    ),
    "a withdrawn version is published again without a word": Bug(
        "kfm.operations.promotion:Promote.aim",
        "if taken_back is not None and not",
        "if False and not",
        f"{WITHDRAWN}::test_a_withdrawn_version_is_published_again_only_by_name_and_with_a_reason",
    ),
    "a withdrawn version is recommended for publication": Bug(
        "kfm.app.maintenance.status:_StatusReader.at",
        "is_behind=is_other and taken_back is None,",
        "is_behind=is_other,",
        f"{WITHDRAWN}::test_every_report_says_that_a_version_was_withdrawn_by_whom_and_why",
    ),
    "a rollback leaves public what it leaves": Bug(
        "kfm.projections.live_versions:_Public.apply",
        "if since >= at and version != move.after",
        "if since >= at and version != move.after and move.after in self.since",
        f"{WITHDRAWN}::test_a_rollback_takes_the_version_back_that_it_leaves_also_between_withdrawn_ones",
    ),
    "what was only requested is called done": Bug(
        "kfm.cli.run_report:_show_receipts",
        '"requested" if r.job_type == "operation.request" and r.outcome == "done" else r.outcome',
        "r.outcome",
        "tests/app/governance/test_two_persons.py::test_a_request_says_that_nothing_moved_who_signs_next_and_how",
    ),
    "an automatic promotion that another process did first fails": Bug(
        "kfm.app.runs.auto_promotion:promote",
        "updater=AutomaticPromotion(),",
        "updater=None,",
        "tests/app/previews/test_automatic.py"
        "::test_processes_that_promote_the_same_version_at_once_leave_no_failed_receipt",
    ),
    "a damaged object is a NOOP": Bug(
        "kfm.engine.changes.object_damage:is_whole",
        "and not objects.is_damaged(entry.digest, since_ms)",
        "",
        "tests/cli/test_damaged_outputs.py::test_a_damaged_output_is_made_again_from_a_source_that_is_whole",
    ),
    "the age of data is never blamed on a withdrawal": Bug(
        "kfm.scheduling.freshness_rules:spells",
        "            if run.is_withdrawn:\n",
        "            if False:\n",
        "tests/cli/test_true_sentences.py::test_every_sentence_agrees_with_the_model_after_each_step",
    ),
    "a merged branch brings back what was withdrawn": Bug(
        "kfm.app.previews.merged_promotion:_of",
        "if (taken_back := withdrawal(session, name, each.version)) is not None:",
        'if (taken_back := withdrawal(session, name, "")) is not None:',
        "tests/app/previews/test_refused_by_digest.py::test_a_version_that_a_person_withdrew_comes_back_by_no_merge",
    ),
    "what may not be public is recommended for publication": Bug(
        "kfm.app.provenance.why_not:_unpublished",
        "present_labels(session, dataset, made).may_be_public if made else True",
        "True",
        "tests/engine/protected/test_labels_then_and_now.py"
        "::test_every_sentence_is_true_after_any_history_of_tightening_withdrawing_and_loosening",
    ),
    "what is frozen is delivered": Bug(
        "kfm.delivery.public_files:Telling._check",
        "if refs.is_frozen(self._state.refs.at(switch)):",
        "if False:",
        "tests/node/test_frozen_deliveries.py::test_what_was_committed_before_a_freeze_waits_for_the_thaw",
    ),
    "a freeze stops a withdrawal": Bug(
        "kfm.operations.rollback:Rollback.takes_away",
        'trigger.params.get("to") == NOTHING',
        "False",
        "tests/node/test_frozen_deliveries.py::test_no_freeze_stops_a_withdrawal",
    ),
    "the files of what is withdrawn stay": Bug(
        "kfm.delivery.public_files:Telling._tell",
        "        self._remove_all([version for version in gone if version not in stay], stay, key)\n",
        "",
        "tests/node/test_withdrawn_files.py::test_a_withdrawal_removes_every_file_of_the_dataset_and_of_no_other",
    ),
    "a source without a row is a success": Bug(
        f"{FINDINGS}:Outcome._count",
        "if not passed and not contract.allow_empty:",
        "if False:",
        f"{ROWS}::test_a_source_without_a_row_is_held",
    ),
    "any share of the rows may be held": Bug(
        f"{FINDINGS}:Outcome._count",
        "self.held_rows / self.rows > contract.max_held_share",
        "self.held_rows / self.rows > 1",
        f"{ROWS}::test_more_than_a_fifth_of_the_rows_held_holds_the_source",
    ),
    "a source may shrink to any size": Bug(
        f"{FINDINGS}:Outcome._count",
        "(before - passed) / before >= contract.shrink_limit",
        "(before - passed) / before > 1",
        f"{ROWS}::test_a_fifth_fewer_rows_than_the_version_before_hold_the_source",
    ),
    "an output may lose all its rows": Bug(
        "kfm.engine.empty_outputs:check_emptied",
        "    if before is None:\n",
        "    if True:\n",
        f"{ROWS}::test_an_output_that_had_rows_and_is_only_a_header_now_is_held",
    ),
    "force waives the deletion budget": Bug(
        "kfm.model.run_overrides:deletions_allowed",
        "EVERY_DELETION if _forces_everything(trigger) else",
        "EVERY_DELETION if trigger.force else",
        "tests/cli/test_overrides.py::test_force_runs_again_and_waives_no_deletion_budget",
    ),
    "a segment is accepted with other bytes": Bug(
        "kfm.store.journal:JournalTx.append",
        ' and self._tables.get("segments", key) != body:',
        " and False:",
        "tests/store/test_state.py::test_a_segment_is_written_once_and_other_bytes_under_its_number_are_corruption",
    ),
    "retries are not counted": Bug(
        "kfm.engine.telemetry_stage:measure",
        "retries=executed.results.retries if executed is not None else 0,",
        "retries=0,",
        "tests/engine/test_told_truly.py::test_retries_are_counted_and_a_slow_run_misses_its_target",
    ),
    "a run that another one ended has no telemetry": Bug(
        "kfm.engine.admit:close_superseded",
        "        measure_superseded(context, tx, old, note)\n",
        "",
        "tests/engine/test_told_truly.py::test_a_run_that_another_one_ended",
    ),
    "a promotion does not name its version": Bug(
        "kfm.engine.receipt_stage:receipt_of",
        'outputs=output_items(context, made) if status == "SUCCESS" else [],',
        "outputs=[],",
        "tests/engine/test_told_truly.py::test_a_promotion_and_a_rollback_name_the_version_they_moved_to",
    ),
    "a window does nothing": Bug(
        "kfm.updaters.transforms.transform_updater:DeclaredUpdater._steps",
        "            if source.partition:\n",
        "            if False:\n",
        "tests/node/test_windows.py::test_what_lies_outside_is_carried_over_although_it_changed_or_went",
    ),
    "an exception throws finished steps away": Bug(
        "kfm.engine.execute:carry_over",
        "    results.add(carried)\n",
        "",
        "tests/cli/test_continued.py::test_the_run_after_one_that_raised_does_only_what_is_left",
    ),
    "nothing is put back into the public folder": Bug(
        "kfm.delivery.public_files:Telling.mend",
        "        for version in live_versions(self._moves, self._keep):\n",
        "        for version in ():\n",
        "tests/engine/test_repairs.py::test_what_is_missing_altered_or_foreign_is_named_and_put_right",
    ),
    "what an exception said is lost": Bug(
        "kfm.engine.run_context:words_of",
        "        text = str(problem)\n",
        '        text = ""\n',
        "tests/cli/test_restricted.py::test_a_public_dataset_keeps_what_an_exception_said_on_one_bounded_line",
    ),
    "what an exception said of restricted data is kept": Bug(
        "kfm.engine.run_context:words_of",
        '    if not is_public(context):\n        return ""\n    try:\n',
        "    try:\n",
        "tests/cli/test_restricted.py::test_of_anything_else_only_the_type_is_kept",
    ),
    "the workflow keeps its state only after a success": Bug(
        "kfm.projections.runners.github_workflow:_steps",
        '"Keep the state", "if": "always()"',
        '"Keep the state", "if": "success()"',
        "tests/sinks/github/test_workflow.py"
        "::test_there_is_one_job_over_one_state_and_it_is_kept_whatever_becomes_of_the_run",
    ),
    "changed code is a silent noop": Bug(
        "kfm.engine.changes.code_changes:code_changed",
        "    return last is not None and (last.updater_id,",
        "    return False and (last.updater_id,",
        "tests/engine/test_changed_code.py::test_a_helper_edited_under_the_same_version_is_a_noop_that_says_so",
    ),
    "deliveries are kept for ever": Bug(
        "kfm.scheduling.triggers:prunable",
        "if 0 < each.expires_ms < before_ms",
        "if 0 < each.expires_ms < 0",
        "tests/api/test_forgotten.py::test_what_is_past_its_time_is_dropped_and_no_replay_of_it_begins_a_run",
    ),
    "a rollback that is repeated undoes itself": Bug(
        "kfm.operations.rollback:Rollback.aim",
        "        if not target and entries[-1].op == self.op:\n",
        "        if False:\n",
        "tests/engine/test_rollback_repeated.py"
        "::test_an_order_killed_past_its_commit_and_given_again_does_not_undo_itself",
    ),
    "a whole read counts as the head of a request": Bug(
        f"{SERVING}:BoundedProtocol.data_received",
        "if (waited and self._in_head and self._head >= MAX_HEAD) or",
        "if (waited and self._head >= MAX_HEAD) or",
        f"{WIRE}::test_a_signed_body_of_any_size_up_to_the_limit_is_answered_however_it_is_cut",
    ),
    "a signature in a trailer counts": Bug(
        f"{SERVING}:BoundedProtocol.on_header",
        "        if self._in_head:\n            super().on_header(name, value)\n",
        "        super().on_header(name, value)\n",
        f"{WIRE}::test_a_signature_in_a_trailer_is_none",
    ),
    "bytes are not read before they are published": Bug(
        "kfm.policy.checksums:wrong_bytes",
        "(_read if read else _size)(objects",
        "_size(objects",
        "tests/node/test_damaged_objects.py"
        "::test_what_is_not_whole_is_named_before_the_commit_and_made_again_by_a_forced_run",
    ),
    "a run over a missing object is a noop": Bug(
        "kfm.engine.admit:is_live",
        "        return not context.damaged\n",
        "        return True\n",
        "tests/node/test_damaged_objects.py::test_a_run_over_a_missing_object_is_no_noop",
    ),
    "a key in clear is taken": Bug(
        "kfm.model.secret_refs:check_secrets",
        "    if key := key_in_clear(uri):\n",
        "    if False:\n",
        "tests/sources/test_secrets.py::test_a_key_in_clear_is_refused_by_its_place",
    ),
    "a version keeps its first validation": Bug(
        "kfm.engine.admit:is_live",
        "if other is None or _contracts(other) != _contracts(run):",
        "if other is None:",
        "tests/node/test_held_against_today.py",
    ),
    "a lease from before the clock was set back holds": Bug(
        "kfm.store.process_identity:is_held",
        "return bool(alive) if too_long else alive is not False",
        "return alive is not False",
        f"{SMALL}::test_a_lease_from_before_the_clock_was_set_back_is_over_if_its_holder_is_not_seen",
    ),
    "a worker in another namespace counts as dead": Bug(
        "kfm.store.process_identity:_is_alive",
        "    if namespace and namespace != _namespace():\n        return None\n",
        "",
        f"{SMALL}::test_who_holds_a_lease_in_another_world_of_processes_is_not_called_dead",
    ),
    "the configuration of somebody else is taken": Bug(
        "kfm.config.config_loader:_check_owner",
        "    if not {os.lstat(folder).st_uid, os.lstat(path).st_uid, os.stat(path).st_uid} <= ours:\n",
        "    if False:\n",
        f"{SMALL}::test_a_configuration_above_of_another_owner_is_not_used",
    ),
    "an unknown extension passes without a word": Bug(
        "kfm.app.metadata.catalog_validation:Checked.verdict",
        '"unchecked" if self.unchecked else "valid"',
        '"valid"',
        "tests/projections/test_validating.py::test_an_unknown_extension_is_unchecked_and_never_valid",
    ),
    "what is frozen is delivered by Node": Bug(
        "node/engine/public_files.mjs",
        'if (!["", "open"].includes(this.state.ref(name))) {',
        "if (false) {",
        "tests/node/test_frozen_deliveries.py",
    ),
    "any share of the rows may be held by Node": Bug(
        "node/engine/inspect_findings.mjs",
        "heldRows / rows > contract.max_held_share",
        "heldRows / rows > 1",
        f"{ROWS}::test_more_than_a_fifth_of_the_rows_held_holds_the_source",
    ),
    "Node writes a segment over another": Bug(
        "node/store/state.mjs",
        "else if (!body.equals(before)) throw otherBytes(runId, segment.n);",
        "",
        "tests/node/test_store_model.py",
    ),
    "every frozen run keeps a trigger of its own": Bug(
        "kfm.engine.receipt_stage:skip",
        "if kept.trigger_id or not any(is_same_request(kept, each) for each in waiting):",
        "if True:",
        f"{SMALL}::test_three_frozen_runs_keep_one_trigger_and_resume_does_it_once",
    ),
    "resume says that nothing was left though it delivered": Bug(
        "kfm.cli.work.resume:resume",
        '"no run was left to resume" if outcome.effects else "nothing was left to resume"',
        '"nothing was left to resume"',
        f"{SMALL}::test_resume_says_what_it_delivered",
    ),
    "a foretold rollback would write what is there": Bug(
        "kfm.cli.run_report:show_effects",
        "there = already_published(session, effects)",
        "there: list[Effect] = []",
        f"{SMALL}::test_a_predicted_rollback_separates_files_that_are_there_from_files_it_would_write",
    ),
    "a source that recovered stays quarantined": Bug(
        "kfm.engine.admit:is_live",
        "if run.version_digest and _is_quarantined_since(context):",
        "if False:",
        "tests/cli/test_recovered_source.py"
        "::test_a_source_that_returns_to_its_last_good_bytes_is_not_quarantined[python]",
    ),
    "an idle watch ends by its signal": Bug(
        "kfm.cli.schedule.triggers:watch",
        "            if watching.busy or options.once:\n",
        "            if True:\n",
        f"{SMALL}::test_an_idle_watch_ends_with_zero_when_it_is_stopped",
    ),
    "the format of a source is shown as its default": Bug(
        "kfm.cli.start.config:config_show",
        "values[key], origins[key] = values[said], origins[said]",
        "pass",
        f"{SMALL}::test_the_format_of_a_source_is_shown_as_it_is_used",
    ),
    "folders are open to be written by others": Bug(
        "kfm.sinks.folder_publisher:FilesPublisher._write",
        "0o700 if private else 0o755",
        "0o777",
        f"{SMALL}::test_with_an_open_umask_nothing_is_open_to_be_written_by_others",
    ),
    "garbage is a line on stderr each": Bug(
        f"{SERVING}:ThrottledLog.say",
        "now - self._since[kind] < SECONDS_BETWEEN_LINES",
        "False",
        f"{WIRE}::test_garbage_is_summed_up_on_stderr_instead_of_a_line_each",
    ),
    "a secret without whsec_ is no base64": Bug(
        "kfm.scheduling.webhook_requests:standard_key",
        'return base64.b64decode(secret.reveal().removeprefix(b"whsec_"), validate=True)',
        'return base64.b64decode(secret.reveal()[6:]) if secret.reveal()[:6] == b"whsec_" else secret.reveal()',
        "tests/api/test_verify.py",
    ),
    "damaged bytes are written out": Bug(
        "kfm.cli.look.cat:_write_object",
        "    for _ in chunks():\n        pass\n",
        "",
        "tests/node/test_damaged_objects.py::test_not_a_byte_of_a_damaged_object_is_written_out",
    ),
    "large rows are sorted by their keys": Bug(
        "kfm/store/sql/0008_large_rows.sql",
        "CREATE TABLE segments (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);",
        "CREATE TABLE segments (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;",
        "tests/store/test_large_rows.py",
    ),
    "several headers in one text are one header": Bug(
        "kfm.cli.schedule.webhooks:_headers",
        'each.replace("\\r", "\\n").split("\\n") if line.strip()',
        "[each] if line.strip()",
        f"{SMALL}::test_a_request_with_three_headers_is_verified_however_they_are_given",
    ),
    "a failure log that cannot be opened fails the request": Bug(
        "kfm.telemetry.rejected_requests:FailureLog.note",
        "        except OSError as problem:\n",
        "        except ZeroDivisionError as problem:\n",
        f"{WIRE}::test_a_refusal_stays_a_refusal_though_its_log_cannot_be_opened",
    ),
    "a damaged object is not made again": Bug(
        "kfm.store.objects:FileObjects.adopt",
        "        if not self._fs.link(temporary, target) and not self.is_whole(digest):\n",
        "        if not self._fs.link(temporary, target) and False:\n",
        "tests/node/test_damaged_objects.py"
        "::test_what_is_not_whole_is_named_before_the_commit_and_made_again_by_a_forced_run",
    ),
    "of two keys that are written alike the first is meant": Bug(
        "kfm.app.runs.queries:find_entry",
        "    if len(found) > 1:\n        forms",
        "    if False:\n        forms",
        "tests/cli/test_cat.py::test_a_key_that_could_be_two_is_refused_and_both_are_named",
    ),
    "STAC before its release is accepted": Bug(
        "kfm.validation.stac_rules:_breaks",
        "    elif known[1]:\n",
        "    elif False:\n",
        "tests/validation/test_inspect_stac.py::test_a_prerelease_version_is_distinguished_from_an_unknown_one",
    ),
    "of a timetable only the characters are checked": Bug(
        "kfm.projections.runners.github_workflow:_chosen",
        'if not least <= low <= high <= most or step in ("0", "00"):',
        "if False:",
        "tests/sinks/github/test_workflow.py::test_a_timetable_that_cannot_be_is_refused",
    ),
    "what authors wrote is loaded inside the write transaction": Bug(
        "kfm.scheduling.polling:note",
        "            asked.append(asking(name))\n",
        "            with state.transaction(durable=False):\n                asked.append(asking(name))\n",
        f"{SMALL}::test_what_authors_wrote_is_loaded_outside_the_write_transaction",
    ),
    "a handshake that never comes is waited for": Bug(
        f"{SERVING}:_Server.startup",
        "patience = SECONDS_FOR_HANDSHAKE if self.config.ssl else None",
        "patience = None",
        f"{WIRE}::test_a_handshake_that_never_comes_is_given_up",
    ),
    "Node without its packages says that it has a bug": Bug(
        "node/cli.mjs",
        "if (isMissing(problem)) {",
        "if (false) {",
        f"{SMALL}::test_node_without_its_packages_says_what_to_install",
    ),
    "a replayed message loads what authors wrote inside the write transaction": Bug(
        "kfm.scheduling.triggers:take",
        "    asked_for = [\n        told(message) if message.wanted else [] for message in messages\n    ]",
        "    asked_for = (\n        told(message) if message.wanted else [] for message in messages\n    )",
        f"{SMALL}::test_what_authors_wrote_is_loaded_outside_the_write_transaction",
    ),
    "a mask without a label is taken for nothing": Bug(
        "kfm.app.authority.label_match:_mistakes",
        "        if not _is_labelled(session, each, holding):\n",
        "        if False:\n",
        "tests/engine/protected/test_mask_without_label.py::test_nothing_is_fetched_run_or_published",
    ),
    "a label on nothing is taken for nothing": Bug(
        "kfm.app.authority.label_match:_mistakes",
        "    for index in _on_nothing(session, written):\n",
        "    for index in ():\n",
        "tests/engine/protected/test_mask_without_label.py::test_nothing_is_fetched_run_or_published",
    ),
    "a label is on one spelling of an address": Bug(
        "kfm.engine.protected.source_classification:meant",
        "    if said != name and not is_part_of(uri, said, base):\n",
        "    if said != uri:\n",
        "tests/engine/protected/test_label_spellings.py::test_a_labelled_file_is_protected_in_every_spelling",
    ),
    "a redirect may lead to a labelled address": Bug(
        "kfm.sources.http:_next_hop",
        "    if request.protected:\n",
        "    if False:\n",
        "tests/engine/protected/test_label_spellings.py::test_a_redirect_to_a_labelled_address_is_denied",
    ),
    "a broken configuration publishes what waits": Bug(
        "kfm.app.runs.settlement:_waits",
        "    if session.resolved.mistakes:\n",
        "    if False:\n",
        "tests/cli/test_brakes.py::test_a_pending_publication_waits_until_the_mistake_is_corrected",
    ),
    "a mistake elsewhere stops the brakes": Bug(
        "kfm.cli.session:settings",
        'if getattr(options, "closes", False):',
        "if False:",
        "tests/cli/test_brakes.py::test_a_broken_configuration_can_be_frozen_and_withdrawn",
    ),
    "a run stores in clear what no one has judged": Bug(
        "kfm.engine.protected.unjudged_objects:UnjudgedObjects.keep_rows",
        "if self.judged or self._key is None:",
        "if True:",
        f"{COPIES}::test_nothing_can_be_read_after_a_kill_and_a_resume_that_is_denied",
    ),
    "a source is stored in clear before the run is judged": Bug(
        "kfm.engine.protected.unjudged_objects:UnjudgedObjects.stage",
        "self._objects.stage() if self.judged else _Staging(self)",
        "self._objects.stage()",
        f"{COPIES}::test_the_source_of_a_denied_output_cannot_be_read_either",
    ),
    "encrypted copies of what passed stay": Bug(
        "kfm.engine.protected.unjudged_objects:UnjudgedObjects.release",
        "tx.protected.forget_unjudged(name, under)",
        "pass",
        f"{COPIES}::test_a_run_that_passes_leaves_no_encrypted_copy_behind",
    ),
    "a plan that names a site is stored": Bug(
        "kfm.engine.protected.leak_check:check_planned",
        "if marks := known(context.world.state, context.guards.protection):",
        "if False:",
        f"{COPIES}::test_a_plan_that_names_protected_sites_is_denied_before_it_is_stored",
    ),
    "a reason about a site lies in clear": Bug(
        "kfm.app.authority.private_reasons:private_reason",
        "    if is_encrypted_text(reason):\n",
        "    if True:\n",
        "tests/engine/protected/test_private_reasons.py::test_no_file_shows_a_reason_about_protected_data",
    ),
    "a coarser cell is computed from the place again": Bug(
        "kfm.masking.first_cells:remembered",
        "text_of(parent_of(int(first, 16), allowed))",
        "cell",
        "tests/attacker/test_histories.py",
    ),
    "pages stay where they are off": Bug(
        "kfm.app.metadata.ledger_sinks:report_to_sinks",
        "if not session.resolved.config.pages and",
        "if False and",
        "tests/delivery/test_shown_by_default.py::test_no_page_of_a_withdrawn_version_stays_where_pages_are_off",
    ),
}
