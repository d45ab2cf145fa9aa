"""Slips of a steward that were once taken for nothing, and openings that one person alone could write."""

from __future__ import annotations

from tests.seeded.planting import Bug

SLIPS = "tests/cli/test_twenty_slips.py::test_a_slip_is_refused_with_its_cure_and_nothing_is_published"
TIGHTENING = "tests/cli/test_tightening.py"
JUMP = "tests/engine/protected/test_level_jump.py"
MISTAKES = "kfm.app.authority.label_mistakes"
COLUMNS = "kfm.engine.protected.mask_columns"
LEVELS = "kfm.app.authority.effective_levels"

STEWARD_SLIPS: dict[str, Bug] = {
    "an unknown word of a label is no mistake": Bug(
        f"{MISTAKES}:_words",
        "        if said not in words:\n",
        "        if False:\n",
        f"{SLIPS}[written-sensitivity-in-capitals]",
    ),
    "a label without its cell is no mistake": Bug(
        f"{MISTAKES}:_incomplete",
        'if label.sensitivity != "generalised":',
        "if True:",
        f"{SLIPS}[written-no-cell-in-a-label]",
    ),
    "two labels may disagree": Bug(
        f"{MISTAKES}:_contradictions", "if first != label:", "if False:", f"{SLIPS}[written-two-labels-that-disagree]"
    ),
    "a custodian may be unknown": Bug(
        f"{MISTAKES}:_custodians",
        "        if name not in named:\n",
        "        if False:\n",
        f"{SLIPS}[written-a-custodian-that-kfm.yml-does-not-name]",
    ),
    "a custodian may have no steward": Bug(
        f"{MISTAKES}:without_stewards",
        "if not _has_steward(session, name):",
        "if False:",
        f"{SLIPS}[written-a-custodian-that-the-key-list-does-not-name]",
    ),
    "a custodian may protect nothing": Bug(
        f"{MISTAKES}:_idle", "set(names) - guarded", "set()", f"{SLIPS}[written-no-mask-and-no-label]"
    ),
    "a label that was signed may be taken out by hand": Bug(
        "kfm.app.authority.label_match:_mistakes",
        "    if is_file and not session.resolved.is_proposal:\n",
        "    if False:\n",
        f"{SLIPS}[published-no-labels-in-the-file]",
    ),
    "a masked source may be called public": Bug(
        "kfm.app.authority.label_match:_is_public",
        'return found.level == "public"',
        "return False",
        f"{SLIPS}[written-a-label-that-says-public-next-to-a-mask]",
    ),
    "a mask may name a column that is not there": Bug(
        f"{COLUMNS}:check_columns",
        "if column not in table:",
        "if False:",
        f"{SLIPS}[written-a-misspelt-column-of-latitudes]",
    ),
    "a mask may place no record": Bug(
        f"{COLUMNS}:check_places",
        "    if not records or any(record.cell for record in records):\n",
        "    if True:\n",
        f"{SLIPS}[written-latitude-and-longitude-exchanged]",
    ),
    "one alone writes the open word while another holds the level": Bug(
        "kfm.app.authority.label_change:_opens",
        " or opens(was, will, today)",
        "",
        f"{JUMP}::test_the_open_word_takes_two_while_another_word_holds_the_level",
    ),
    "a request names no level of what is derived": Bug(
        f"{LEVELS}:_with_derived",
        "    while more := {",
        "    while more := set() and {",
        f"{JUMP}::test_a_request_its_review_and_its_signature_name_every_level_touched",
    ),
    "a signature covers no level": Bug(
        f"{LEVELS}:as_param",
        "return {LEVELS_PARAM: lines} if lines else {}",
        "return {}",
        f"{JUMP}::test_signatures_do_not_count_for_levels_that_they_do_not_name",
    ),
    "a command that publishes withdraws nothing": Bug(
        "kfm.cli.session:opened",
        'if mode != "read" and withdraws and can_close(resolved, session.state):',
        "if False:",
        f"{TIGHTENING}::test_the_next_command_that_writes_withdraws",
    ),
    "a closed dataset is called public and right": Bug(
        "kfm.app.maintenance.doctor:closed_verdicts",
        "closed = list(closed_datasets(session))",
        "closed = list(closed_datasets(session))[:0]",
        f"{TIGHTENING}::test_status_and_doctor_say_it_and_resume_withdraws",
    ),
    "a coarser mask closes nothing": Bug(
        "kfm.app.authority.mask_policies:shows_less",
        "return is_coarser(before, after) and not is_coarser(after, before)",
        "return False",
        f"{TIGHTENING}::test_a_version_that_a_coarser_mask_closed_is_not_published_again",
    ),
    "what was tightened in the file is opened there again": Bug(
        "kfm.app.authority.rule_adoption:adopt_tightened",
        "        _adopt_labels(session)\n",
        "        pass\n",
        f"{TIGHTENING}::test_what_a_person_tightened_in_the_file_is_not_opened_there",
    ),
}
