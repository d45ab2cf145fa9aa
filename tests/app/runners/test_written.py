"""KFM writes the files of other runners; they are current until something changes, and hold no secret."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from tests.app.governance.test_secrets import encodings
from tests.app.runners.conftest import FILES, KINDS, declare
from tests.cli.conftest import Kfm


def files() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in sorted(FILES) if Path(name).exists()}


def test_each_kind_is_written_where_it_belongs_and_is_current(written: Kfm) -> None:
    assert set(files()) == FILES
    answer = written("runners", "check")
    assert answer.code == 0
    assert {line.split(": ")[0] for line in answer.out.splitlines()} == FILES
    assert all(line.endswith(": current") for line in answer.out.splitlines())


def test_each_wakes_the_same_command_at_the_instants_of_the_schedules(written: Kfm) -> None:
    """02:30 in Chicago is 07:30 or 08:30 in UTC."""
    github = yaml.safe_load(files()[".github/workflows/kfm.yml"])
    assert github["on"]["schedule"] == [{"cron": "30 7,8 * * *"}]
    (template, clock) = yaml.safe_load_all(files()["pipelines/runners/argo.yml"])
    assert clock["spec"]["schedules"] == ["30 7,8 * * *"]
    assert template["spec"]["templates"][0]["container"]["args"] == ["up", "--once"]
    for file in ("tekton", "kubernetes"):
        found = yaml.safe_load_all(files()[f"pipelines/runners/{file}.yml"])
        assert [each["spec"]["schedule"] for each in found if each["kind"] == "CronJob"] == ["30 7,8 * * *"]
    assert b"OnCalendar=*-*-* 07,08:30:00 UTC\n" in files()["pipelines/runners/kfm.timer"]
    assert b"30 * * * * kfm " in files()["pipelines/runners/kfm.cron"], "its clock may be in any zone"
    for name in ("kfm.service", "kfm.cron"):
        assert b" up --once\n" in files()[f"pipelines/runners/{name}"]


def test_to_write_again_changes_nothing_and_says_so(written: Kfm) -> None:
    before = {name: Path(name).stat().st_mtime_ns for name in FILES}
    for kind in KINDS:
        answer = written("runners", "write", kind, "--json")
        assert [each["state"] for each in answer.data] == ["current"] * len(answer.data)
    assert {name: Path(name).stat().st_mtime_ns for name in FILES} == before


def test_a_changed_schedule_makes_the_files_stale_until_they_are_written_again(written: Kfm) -> None:
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("02:30", "03:30"))
    answer = written("runners", "check")
    assert answer.code == 3
    states = dict(line.split(": ", 1) for line in answer.out.splitlines())
    assert states.pop("pipelines/runners/kfm.service") == "current", "it says nothing of times"
    assert states.pop("pipelines/runners/kfm.cron") == "current", "it is the same minute of every hour"
    assert all(state.startswith("stale; differs from line ") for state in states.values()) and len(states) == 5
    for kind in KINDS:
        assert written("runners", "write", kind).code == 0
    assert written("runners", "check").code == 0


def test_a_changed_or_removed_file_is_named(written: Kfm) -> None:
    with Path("pipelines/runners/argo.yml").open("a") as file:
        file.write("# mine\n")
    Path("pipelines/runners/kfm.timer").unlink()
    answer = written("runners", "check", "--json")
    assert answer.code == 3
    wrong = {each["file"]: each["state"] for each in answer.data if each["state"] != "current"}
    assert wrong == {"pipelines/runners/argo.yml": "stale", "pipelines/runners/kfm.timer": "absent"}
    assert written("runners", "check", "github", "cron").code == 0


def test_where_nothing_is_written_there_is_nothing_to_check_unless_it_is_asked_for(kfm: Kfm) -> None:
    declare()
    answer = kfm("runners", "check")
    assert (answer.code, answer.out) == (0, "") and "kfm runners write" in answer.err
    assert kfm("runners", "check", "github").code == 3


def test_stdout_shows_and_writes_nothing(kfm: Kfm) -> None:
    declare()
    answer = kfm("runners", "write", "systemd", "--stdout")
    assert "ExecStart=/usr/local/bin/kfm" in answer.out and "OnCalendar=" in answer.out
    assert files() == {}


def test_a_secret_is_a_reference_in_every_file_and_in_no_form_a_value(
    written: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        name: hashlib.sha256(name.encode()).hexdigest() for name in ("KFM_SECRET_SIGNING", "KFM_SECRET_COUNTIES")
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("02:30", "04:45"))
    said = "".join(written("runners", "write", kind).err for kind in KINDS)
    bodies = {**files(), "screen": said.encode()}
    for value in secrets.values():
        for form, found in encodings(value.encode()).items():
            assert not [name for name, body in bodies.items() if found in body], form
    for name in secrets:
        assert f"${{{{ secrets.{name} }}}}".encode() in bodies[".github/workflows/kfm.yml"]
        for file in ("argo", "kubernetes", "tekton"):
            body = bodies[f"pipelines/runners/{file}.yml"].decode()
            reference = f'key: "{name}"'
            assert (
                reference in body and "secretKeyRef" in body and body.count(f'name: "{name}"') == body.count(reference)
            )
    assert b"EnvironmentFile=/etc/kfm/environment\n" in bodies["pipelines/runners/kfm.service"]
    assert b". /etc/kfm/environment;" in bodies["pipelines/runners/kfm.cron"]


SLIPS = (
    "          TOKEN: ghp_0123456789abcdefghijklmnopqrstuvwxyz",
    "# AKIAIOSFODNN7EXAMPLE",
    "-----BEGIN PRIVATE KEY-----",
    "Environment=URL=https://ann:word@example.org/",
    "Environment=SIGNING=VALUE",
)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_secret_written_into_a_file_is_found_and_not_repeated(
    written: Kfm, monkeypatch: pytest.MonkeyPatch, slip: str
) -> None:
    value = "cnry" + "7" * 40
    monkeypatch.setenv("KFM_SECRET_SIGNING", value)
    for name in ("pipelines/runners/kfm.service", ".github/workflows/kfm.yml"):
        before = Path(name).read_text()
        Path(name).write_text(f"{before}{slip.replace('VALUE', value)}\n")
        answer = written("runners", "check", "--json")
        found = {each["file"]: each for each in answer.data if each["state"] != "current"}
        assert answer.code == 3 and {file: each["state"] for file, each in found.items()} == {name: "secret"}
        assert f"line {before.count(chr(10)) + 1} " in found[name]["about"]
        assert value not in answer.out and "ghp_" not in answer.out and "word" not in answer.out
        Path(name).write_text(before)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("image", "kfm", "not an image with a tag or a digest"),
        ("image", "example.org/kfm:1\\n- evil", "not an image"),
        ("folder", "kfm", "not a plain absolute path"),
        ("folder", "/srv/k fm", "not a plain absolute path"),
        ("folder", "/srv/../etc", "not a plain absolute path"),
        ("program", "/usr/bin/kfm; true", "not a plain absolute path"),
        ("environment_file", "/etc/%h", "not a plain absolute path"),
        ("namespace", "Kfm", "Kubernetes"),
        ("claim", "-", "Kubernetes"),
        ("user", "root kfm", "not a user name"),
        ("every", "60 * * * *", "has a minute that cannot be read"),
    ],
)
def test_what_would_become_something_else_in_a_file_is_refused_by_its_place(
    kfm: Kfm, setting: str, value: str, said: str
) -> None:
    declare()
    text = Path("kfm.yml").read_text().replace("  folder: /srv/kfm\n", "")
    Path("kfm.yml").write_text(
        text.replace("runners:\n", f'runners:\n  {setting}: "{value}"\n', 1).replace(
            f"  {setting}: example.org", "  # example.org"
        )
    )
    answer = kfm("runners", "write", "systemd")
    assert answer.code == 3 and said in answer.complaint and "kfm.yml:" in answer.complaint, answer
    assert files() == {}


@pytest.mark.parametrize(
    ("kind", "old", "new", "said"),
    [
        ("argo", "  image:", "  # image:", "runners.image is not set"),
        ("tekton", "  kubectl_image:", "  # kubectl_image:", "runners.kubectl_image is not set"),
        ("argo", "env:KFM_SECRET_SIGNING", "file:signing.key", "file:PATH"),
        ("github", "env:KFM_SECRET_SIGNING", "env:GITHUB_SIGNING", "GITHUB_SIGNING"),
        ("cron", "catalog: file:catalog", "state: memory", "memory"),
        ("systemd", "catalog: file:catalog", "state: sqlite:state.db", "a folder of its own"),
        ("argo", "catalog: file:catalog", "catalog: 'file:our catalog'", "not every runner"),
        ("github", "timezone: America/Chicago", "timezone: America/Chicgo", "time zone"),
    ],
)
def test_what_a_runner_cannot_do_is_refused_with_what_to_do(kfm: Kfm, kind: str, old: str, new: str, said: str) -> None:
    declare()
    text = Path("kfm.yml").read_text()
    assert old in text
    Path("kfm.yml").write_text(text.replace(old, new))
    answer = kfm("runners", "write", kind)
    assert answer.code == 3 and said in answer.complaint, answer
    assert files() == {}


def test_what_a_runner_does_less_well_is_said(kfm: Kfm) -> None:
    declare()
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(
        text.replace('cadence: daily, at: "02:30"', "cadence: real-time, every_min: 1, catch_up: none")
    )
    answer = kfm("runners", "write", "github")
    assert answer.code == 0 and "every 5 minutes at most" in answer.err and "catch_up: none" in answer.err
    assert b'- cron: "*/5 * * * *"' in files()[".github/workflows/kfm.yml"]
    assert kfm("runners", "write", "argo").code == 0
    assert b'- "* * * * *"' in files()["pipelines/runners/argo.yml"]
