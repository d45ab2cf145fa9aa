"""Claims about runners elsewhere; see claims.py."""

from __future__ import annotations

from tests.seeded.planting import Bug

WRITTEN = "tests/runners/test_written.py"

RUNNERS: dict[str, Bug] = {
    "O11 the same command": Bug(
        "kfm/projections/runners.py",
        '_container(place, ["up", "--once"])',
        '_container(place, ["run"])',
        f"{WRITTEN}::test_each_wakes_the_same_command_at_the_instants_of_the_schedules",
    ),
    "O11 what is current": Bug(
        "kfm/house/runners.py",
        "elif body != text.encode():",
        "elif False:",
        f"{WRITTEN}::test_a_schedule_that_changes_makes_the_files_stale_until_they_are_written_anew",
    ),
    "O15 a secret is a reference": Bug(
        "kfm/projections/runners.py",
        '{"name": name, "valueFrom": {"secretKeyRef": {"name": place.secret, "key": name}}}',
        '{"name": name, "value": __import__("os").environ.get(name, "")}',
        f"{WRITTEN}::test_a_secret_is_a_reference_in_every_file_and_in_no_form_a_value",
    ),
}
