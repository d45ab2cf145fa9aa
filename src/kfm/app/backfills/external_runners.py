"""Files for other runners (GitHub Actions, Kubernetes, Tekton, Argo, systemd, cron), from the same declarations."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from kfm import DISTRIBUTION, __version__
from kfm.app.runs.due_schedules import schedules_of
from kfm.app.runs.run_exports import write_file
from kfm.errors import BadInput
from kfm.model.schedules import plain_cron
from kfm.model.secret import SHORTEST
from kfm.projections.runners import github_workflow, runner_files
from kfm.scheduling.schedule_ticks import cron_mistake, is_cron
from kfm.scheduling.wake_times import no_closer, wakes, within_the_hour

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.scheduling.wake_times import Wake

Kind = Literal["github", "github-pulls", "kubernetes", "tekton", "argo", "systemd", "cron"]
State = Literal["current", "written", "stale", "absent", "secret"]

FOLDER = "pipelines/runners"
FILES: dict[Kind, tuple[str, ...]] = {
    "github": (".github/workflows/kfm.yml",),
    "github-pulls": (".github/workflows/kfm-pulls.yml",),
    "kubernetes": (f"{FOLDER}/kubernetes.yml",),
    "tekton": (f"{FOLDER}/tekton.yml",),
    "argo": (f"{FOLDER}/argo.yml",),
    "systemd": (f"{FOLDER}/kfm.service", f"{FOLDER}/kfm.timer"),
    "cron": (f"{FOLDER}/kfm.cron",),
}
GITHUB_MIN = 5  # minutes: GitHub refuses shorter intervals
MOUNTED = f"file:{runner_files.SECRETS}/"  # where pods of Kubernetes have their own copies of secrets
LARGEST = 1 << 20  # bytes of a file that is read

_PATH = re.compile(r"/?[A-Za-z0-9._][A-Za-z0-9._-]*(?:/[A-Za-z0-9._][A-Za-z0-9._-]*)*\Z")
_KEY = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"  # of a Kubernetes secret
_REFERENCE = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)\Z")
# Patterns that only secrets match: keys in PEM, tokens with the prefixes of their issuers, passwords in URLs.
_SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:gh[opsur]_|github_pat_)[A-Za-z0-9_]{20,}|\bAKIA[0-9A-Z]{16}\b"
    rb"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\beyJ[A-Za-z0-9_-]{10,}\.eyJ|\bhv[sb]\.[A-Za-z0-9_-]{20,}|://[^/\s:@\"']+:[^/\s@\"']+@"
)


class File(NamedTuple):
    """A file of a runner, and its state."""

    kind: Kind
    file: str  # path from the folder of kfm.yml
    state: State
    about: str = ""


def texts(resolved: Resolved, kind: Kind) -> dict[str, str]:
    """Return the files that this kind of runner needs, text by path."""
    if kind == "github-pulls":
        return {FILES[kind][0]: _pull_requests(resolved)}
    found = _wakes(resolved)
    crons = [each.cron() for each in found]
    place = _place(resolved)
    if kind == "github":
        config = resolved.config
        body = github_workflow.runner(
            sorted(config.datasets),
            crons=_for_github(found),
            package=_package(resolved),
            secrets=_for_actions(place.variables),
            folders=_cached(place),
            writes_releases=config.publish.startswith("github:"),
        )
        return {FILES[kind][0]: body}
    if kind in ("kubernetes", "argo", "tekton"):
        _check_containers(resolved, place, kind)
        written = {"kubernetes": runner_files.kubernetes, "argo": runner_files.argo, "tekton": runner_files.tekton}
        return {FILES[kind][0]: written[kind](place, crons)}
    if kind == "cron":
        return {FILES[kind][0]: runner_files.cron(place, [within_the_hour(found).cron()])}
    service, timer = FILES[kind]
    return {
        service: runner_files.systemd_service(place),
        timer: runner_files.systemd_timer([_calendar(each) for each in found]),
    }


def _pull_requests(resolved: Resolved) -> str:
    """Return the workflow for pull requests. BadInput if the configuration names no repository for them."""
    from kfm.projections.runners.pull_request_workflow import pull_request_workflow

    config, place = resolved.config, _place(resolved)
    releases = config.publish.startswith("github:")
    if not config.github.repository and not releases:
        raise BadInput(
            "github.repository is not set, and pull requests are in one",
            hint="add a line like github: {repository: OWNER/NAME} to kfm.yml",
        )
    reference = config.github.token
    if not reference.startswith("env:"):
        raise BadInput(
            "github.token lies in file:PATH, and GitHub's own machines have no such file",
            hint="say token: env:GITHUB_TOKEN, or leave it out",
        )
    names = sorted({*place.variables, reference[4:]})
    return pull_request_workflow(_package(resolved), _for_actions(names), _cached(place), writes_releases=releases)


def _package(resolved: Resolved) -> str:
    """Return what pip installs: this version, with the extras that the servers of the configuration need."""
    config = resolved.config
    extras = {
        "bucket": config.objects.startswith("s3:") or config.publish.startswith("s3:"),
        "otel": bool(config.otel.endpoint),
        "postgres": config.state.startswith("postgresql:"),
        "queue": bool(config.queue),
    }
    chosen = ",".join(name for name, is_needed in extras.items() if is_needed)
    return f"{DISTRIBUTION}{f'[{chosen}]' if chosen else ''}=={__version__}"


def _cached(place: runner_files.RunnerSite) -> tuple[str, ...]:
    """Return the folders of the cache, which must not be none."""
    return place.kept or (".kfm",)


def notes(resolved: Resolved, kind: Kind) -> Iterator[str]:
    """Yield what an operator should know about this runner."""
    for schedule in schedules_of(resolved):
        if schedule.catch_up == "none" and schedule.cron:
            yield f"schedule {schedule.id} has catch_up: none: what this runner begins more than 90 s late does not run"
    if kind == "github":
        found = _wakes(resolved)
        if _for_github(found) != [each.cron() for each in found]:
            yield f"GitHub looks every {GITHUB_MIN} minutes at most, and begins late when it is busy"
        if any(each.startswith("file:") for each in _references(resolved)):
            yield "there are secrets in file:PATH, and GitHub's own machines have no such file: use env:NAME for them"


def write(resolved: Resolved, kind: Kind) -> list[File]:
    """Write the files that are missing or outdated, and return all with their state."""
    found = []
    for file, text in texts(resolved, kind).items():
        path = os.path.join(resolved.root, file)
        if _read(path, file) == text.encode():
            found.append(File(kind, file, "current"))
        else:
            write_file(path, [text.encode()])
            found.append(File(kind, file, "written"))
    return found


def check(resolved: Resolved, kinds: Sequence[Kind], env: Mapping[str, str]) -> list[File]:
    """Return the state of the files: of these kinds, or of all kinds that have files here."""
    here: Sequence[Kind] = kinds or [
        kind for kind, files in FILES.items() if any(os.path.lexists(os.path.join(resolved.root, f)) for f in files)
    ]
    known = _values(resolved, env)
    found = []
    for kind in here:
        for file, text in texts(resolved, kind).items():
            body = _read(os.path.join(resolved.root, file), file)
            if body is None:
                found.append(File(kind, file, "absent", f"write it with `kfm runners write {kind}`"))
            elif line := _secret_in(body, known):
                found.append(File(kind, file, "secret", f"line {line} holds a secret: revoke it, and remove the line"))
            elif body != text.encode():
                line = _first_difference(body, text.encode())
                about = f"differs from line {line} on; write it again with `kfm runners write {kind}`"
                found.append(File(kind, file, "stale", about))
            else:
                found.append(File(kind, file, "current"))
    return found


# -- when


def _wakes(resolved: Resolved) -> list[Wake]:
    every = plain_cron(resolved.config.runners.every)
    if not is_cron(every):
        wrong, cure = cron_mistake(every)
        raise BadInput(f"{resolved.document.place(('runners', 'every'))}: runners.every {wrong}", hint=cure)
    schedules = schedules_of(resolved)
    clocked = {each.dataset for each in schedules if each.cron or each.after}
    besides = [every] if set(resolved.config.datasets) - clocked else []
    return wakes(schedules, besides) or wakes([], [every])


def _for_github(found: Sequence[Wake]) -> list[str]:
    return [each.cron() for each in no_closer(found, GITHUB_MIN)]


def _calendar(wake: Wake) -> str:
    days, months = (
        "*" if len(said) == most else ",".join(f"{each:02}" for each in sorted(said))
        for said, most in ((wake.days, 31), (wake.months, 12))
    )
    return runner_files.calendar(sorted(wake.minutes), sorted(wake.hours), days, months, sorted(wake.weekdays))


# -- where


def _place(resolved: Resolved) -> runner_files.RunnerSite:
    said = msgspec.structs.asdict(resolved.config.runners)
    said.pop("every")
    references = sorted(set(_references(resolved)))
    return runner_files.RunnerSite(
        **said,
        kept=tuple(_kept(resolved)),
        variables=tuple(each[4:] for each in references if each.startswith("env:")),
        secret_files=tuple(each[len(MOUNTED) :] for each in references if each.startswith(MOUNTED)),
    )


def _kept(resolved: Resolved) -> list[str]:
    """Return the folders that must be kept between two runs, without those inside another: none if everything is in
    servers. BadInput if one of them cannot be kept."""
    config = resolved.config
    said = [config.objects, config.publish, config.catalog]
    folders = [each.partition(":")[2] for each in said if each.startswith("file:")]
    if config.state.startswith(("sqlite:", "jsonl:")):
        folders.append(posixpath.dirname(config.state.partition(":")[2]) or ".")
    elif config.state == "memory":
        raise BadInput(
            "a state in memory is gone after each run", hint="give `state` a place, such as sqlite:.kfm/state.db"
        )
    if folders:
        folders.append(config.artifacts)
    found: list[str] = []
    for folder in sorted(posixpath.normpath(each.replace("///", "/", 1)) for each in folders):
        if folder == "." or folder.startswith(".."):
            raise BadInput(
                f"{folder} would have to be kept, which is not a folder of its own inside the installation",
                hint="let `state`, `objects`, `publish` and `catalog` each be in a folder such as .kfm",
            )
        _plain(folder, "a folder that is kept")
        if not any(folder == one or folder.startswith(f"{one}/") for one in found):
            found.append(folder)
    return found


def _plain(path: str, what: str) -> None:
    if not _PATH.match(path.replace("../", "")):
        raise BadInput(
            f"{what} has a path that not every runner can write", hint="use letters, digits, dots, dashes and slashes"
        )


def _references(resolved: Resolved) -> Iterator[str]:
    """Yield the secret references that a run may need. Secrets of webhooks are left out, because `kfm up --once`
    answers none."""
    config = resolved.config
    if config.publish.startswith("github:"):
        yield config.github.token
    if config.graph:
        yield from (config.neo4j.user, config.neo4j.password)
    sections = [config.openlineage, config.otel, config.ledger, config.attest, config.policy]
    yield from _strings(msgspec.to_builtins([*sections, config.postgres, config.redis, config.s3]))
    yield from (custodian.key for custodian in config.custodians.values())
    for dataset in config.datasets.values():
        for source in dataset.sources.values():
            yield from source.headers.values()
            yield from source.query.values()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, str) and _REFERENCE.match(value):
        yield value


def _for_actions(variables: Sequence[str]) -> list[str]:
    """Return these variables under the names that GitHub accepts, without the token of the job."""
    found = [each for each in variables if each != "GITHUB_TOKEN"]
    for name in found:
        if name.upper().startswith("GITHUB_"):
            raise BadInput(f"GitHub takes no secret called {name}", hint="call it something that begins otherwise")
    return found


def _check_containers(resolved: Resolved, place: runner_files.RunnerSite, kind: Kind) -> None:
    missing = "image" if not place.image else "kubectl_image" if kind == "tekton" and not place.kubectl_image else ""
    if missing:
        raise BadInput(
            f"runners.{missing} is not set, and {kind} runs containers",
            hint=f"add a line like {missing}: NAME@sha256:DIGEST under `runners:` in kfm.yml",
        )
    files = [each for each in _references(resolved) if each.startswith("file:")]
    if kind == "kubernetes" and not [each for each in files if not re.fullmatch(re.escape(MOUNTED) + _KEY, each)]:
        return
    if files:
        # Kubernetes makes files of a secret readable to the pod's group; KFM accepts no secret that others can read.
        raise BadInput(
            f"a secret lies in file:PATH, which {kind} cannot bring into a container and keep closed to others",
            hint="use env:NAME, which it takes from a Kubernetes secret, or an installed store of secrets"
            + (f", or {MOUNTED}NAME" if kind == "kubernetes" else ""),
        )


# -- what is here


def _read(path: str, file: str) -> bytes | None:
    try:
        with open(path, "rb") as found:
            body = found.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(
            f"{file} cannot be read: {(error.strerror or '').lower()}", hint="look at the file and its permissions"
        ) from None
    return body


def _values(resolved: Resolved, env: Mapping[str, str]) -> list[bytes]:
    """Return the secrets that this environment holds, so that their values can be found in files."""
    found = []
    for reference in _references(resolved):
        if reference.startswith("env:") and len(value := env.get(reference[4:], "")) >= SHORTEST // 4:
            found.append(value.encode("utf-8", "surrogateescape"))
    return found


def _secret_in(body: bytes, known: Sequence[bytes]) -> int:
    """Return the first line that holds a secret; 0 if none does."""
    for number, line in enumerate(body.splitlines(), 1):
        if _SECRETS.search(line) or any(value in line for value in known):
            return number
    return 0


def _first_difference(left: bytes, right: bytes) -> int:
    ours, theirs = left.splitlines(), right.splitlines()
    same = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return same + 1
