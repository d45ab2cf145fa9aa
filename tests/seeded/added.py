"""Bugs of `kfm add` and `kfm remove`."""

from __future__ import annotations

from tests.seeded.planting import Bug

ADD = "tests/cli/test_add.py"
PROPOSAL = "kfm.app.declarations.dataset_proposal"

ADDED: dict[str, Bug] = {
    "an added table of sites is public": Bug(
        f"{PROPOSAL}:propose",
        "closed = bool(found) and not wish.public",
        "closed = False",
        f"{ADD}::test_places_of_sites_are_closed_until_a_person_decides",
    ),
    "the extent of a closed dataset says where it is": Bug(
        f"{PROPOSAL}:_block",
        "extent = {} if closed else _extent(looks)",
        "extent = _extent(looks)",
        f"{ADD}::test_places_of_sites_are_closed_until_a_person_decides",
    ),
    "bounds are as narrow as today's values": Bug(
        "kfm.validation.column_profile:bound_of",
        "number = largest * 10",
        "number = largest",
        f"{ADD}::test_the_contract_has_types_a_key_units_and_bounds_that_are_true_and_wide",
    ),
    "an add overwrites what another one added": Bug(
        "kfm.cli.start.add:_add",
        "now = _base(options)",
        "now = base",
        f"{ADD}::test_a_dataset_that_another_command_adds_meanwhile_is_kept",
    ),
    "a dataset is removed while it is public": Bug(
        "kfm.app.declarations.dataset_removal:removal_of",
        "if session.state.refs.at(refs.published(dataset)):",
        "if False:",
        f"{ADD}::test_remove_refuses_what_is_public_and_names_the_command",
    ),
    "a read-only kfm.yml is replaced": Bug(
        "kfm.app.declarations.config_change:replace_config",
        "if not os.access(path, os.W_OK) or not os.stat(path).st_mode & 0o200:",
        "if False:",
        f"{ADD}::test_other_slips_of_the_user_name_their_cure",
    ),
    "an error page is added as a table": Bug(
        "kfm.validation.format_recognition:format_of",
        "if _TAG.match(head):",
        "if False:",
        f"{ADD}::test_what_cannot_be_read_is_refused_in_one_line_and_nothing_is_written[error.csv]",
    ),
    "only points are places": Bug(
        "kfm.app.declarations.source_look:_features",
        "has_shapes=bool(shapes)",
        'has_shapes=any(one.get("type") == "Point" for one in shapes)',
        f"{ADD}::test_areas_with_a_name_of_sites_are_closed",
    ),
    "a place in a text is none": Bug(
        "kfm.app.declarations.sensitivity_signs:_holds_places",
        "            return True\n",
        "            pass\n",
        f"{ADD}::test_graves_with_places_in_any_notation_and_column_are_closed",
    ),
}
