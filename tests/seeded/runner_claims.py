"""Claims about runners elsewhere; see claims.py."""

from __future__ import annotations

from tests.seeded.planting import Bug

WRITTEN = "tests/app/runners/test_written.py"

RUNNERS: dict[str, Bug] = {
    "O11 the same command": Bug(
        "kfm.projections.runners.runner_files:argo",
        '_container(place, ["up", "--once"])',
        '_container(place, ["run"])',
        f"{WRITTEN}::test_each_wakes_the_same_command_at_the_instants_of_the_schedules",
    ),
    "O11 what is current": Bug(
        "kfm.app.backfills.external_runners:check",
        "elif body != text.encode():",
        "elif False:",
        f"{WRITTEN}::test_a_changed_schedule_makes_the_files_stale_until_they_are_written_again",
    ),
    "O11 the same results": Bug(
        "kfm.projections.runners.runner_files:tekton",
        '"default": ["up", "--once"]',
        '"default": ["run"]',
        "tests/app/runners/test_same.py::test_each_runner_gives_the_same_versions_and_receipts",
    ),
    "O11 no instant is missed": Bug(
        "kfm.scheduling.wake_times:_offsets",
        "for week in range(530)",
        "for week in range(1)",
        "tests/app/runners/test_wakes.py::test_every_instant_of_a_schedule_is_one_of_theirs",
    ),
    "O15 a secret is a reference": Bug(
        "kfm.projections.runners.runner_files:_container",
        '{"name": name, "valueFrom": {"secretKeyRef": {"name": place.secret, "key": name}}}',
        '{"name": name, "value": __import__("os").environ.get(name, "")}',
        f"{WRITTEN}::test_a_secret_is_a_reference_in_every_file_and_in_no_form_a_value",
    ),
    "W9 no pod gets what it may not have": Bug(
        "deploy/manifests/up.yaml",
        "enableServiceLinks: false",
        "hostNetwork: true",
        "tests/deploy/test_manifest_policy.py::test_the_manifests_keep_every_rule",
    ),
    "W9 values that would not work": Bug(
        "deploy/chart/templates/checks.yaml",
        "and .Values.networkPolicy.enabled $config.queue (not .Values.networkPolicy.redis.peers)",
        "false",
        "tests/deploy/test_chart.py::test_a_mistake_is_refused_with_its_place_and_without_a_secret",
    ),
    "W9 cron jobs are the schedules": Bug(
        "kfm.projections.runners.runner_files:_cron_job",
        '"timeZone": "Etc/UTC"',
        '"timeZone": "America/Chicago"',
        "tests/deploy/test_clock.py::test_every_instant_of_a_month_wakes_a_cron_job_of_the_chart",
    ),
    "W9 nothing is written beside": Bug(
        "kfm.workers.main:main",
        "return _answer(argv)",
        'return open("beside", "w").close() or _answer(argv)',
        "tests/deploy/test_read_only.py::test_the_workers_and_kfm_up_run_an_installation_there",
    ),
    "W9 a missing package is named": Bug(
        "tools/local/servers.py",
        ": apt-get install {PACKAGES[server]}",
        "",
        "tests/deploy/test_local.py::test_a_package_that_is_missing_is_named_with_the_line_that_installs_it",
    ),
}
