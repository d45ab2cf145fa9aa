"""Try one updater in a temporary installation: dry run, run, run again, run elsewhere, kill at every boundary and
resume.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from kfm.app.runs.queries import replan
from kfm.app.runs.run_control import resume_runs
from kfm.app.runs.settlement import settle_session
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.manifests import entries
from kfm.model.names import dataset_id
from kfm.model.records import Receipt
from kfm.model.updater import Updater
from kfm.parsing import documents
from kfm.testing.effects import watched
from kfm.testing.kills import Boundaries, ChildKilled, in_child, spread
from kfm.testing.process_variation import ask, file_of
from kfm.testing.temporary_installation import RUN_FOLDERS, RunResult, TrialInstallation
from kfm.testing.trial_failures import failure

NOT_COPIED = (*RUN_FOLDERS, ".git", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache")
LEFT_OUT = ("catalog", "graph", "github", "openlineage", "otel", "attest", "ledger", "pools", "runners")  # removed
MEMORY = "/dev/shm"  # noqa: S108 - small trials run here in a tenth of the time; kills do not need a disk
SMALL = 16 << 20
CONFIGS = ("kfm.yml", "kfm.yaml", "kfm.json")


class Trial:
    """`what` is a dataset of the installation at `installation` (or the nearest above `near`), an updater class, or its
    name as in kfm.yml: `updaters/wells.py:Wells`.

    `sources` are contents (text, bytes) by name, or settings as in kfm.yml with `text` in place of `uri`. An updater
    class has no other sources; for a dataset they replace those of kfm.yml, so that a test reaches no network.
    """

    def __init__(
        self,
        what: str | type[Updater],
        folder: str,
        *,
        sources: Mapping[str, str | bytes | Mapping[str, Any]] | None = None,
        installation: str | os.PathLike[str] = "",
        near: str = "",
        window: str = "",
        partition: str = "",
        most: int = 80,
    ) -> None:
        self.most = most  # most boundaries at which a run is killed; more are spread out
        self.tried: list[str] = []  # the boundaries at which it was killed
        self._scratch = os.path.join(folder, "scratch")
        self._undisturbed: RunResult | None = None
        kind = what if isinstance(what, type) else None
        if kind is not None and "<locals>" in kind.__qualname__:
            raise BadInput(
                f"{kind.__name__} is defined inside a function", hint="define it at the top level of a module"
            )
        if kind is not None and not issubclass(kind, Updater):
            raise BadInput(f"{kind.__name__} is not an updater", hint="derive the class from kfm.Updater")
        spec = what if isinstance(what, str) and ":" in what and not what.startswith("kfm:") else ""
        if kind is not None:
            self.dataset = kind.id or kind.__name__.lower()
            spec = f"{file_of(kind)}:{kind.__name__}"
        else:
            self.dataset = dataset_id(str(what)) if not spec else spec.rpartition(":")[2].lower()
        start = _nearest(str(installation) or near, spec.rpartition(":")[0]) if kind is None else ""
        self._place = _place(os.path.dirname(start), folder)
        self._room = TrialInstallation(os.path.join(self._place, "house"), self.dataset, kind, window, partition)
        said = self._copied(start) if start else {}
        self._settle_in({} if spec else said, spec, dict(sources or {}))

    def close(self) -> None:
        """Remove the temporary installation if it is in memory; a given folder stays as it is."""
        if self._place.startswith(MEMORY):
            shutil.rmtree(self._place, ignore_errors=True)

    def _copied(self, path: str) -> dict[str, Any]:
        shutil.copytree(
            os.path.dirname(path), self._room.root, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True
        )
        if os.path.basename(path) not in CONFIGS:
            return {}
        with open(path, "rb") as file:
            document = documents.read(file.read(), path, json=path.endswith(".json"))
        os.unlink(os.path.join(self._room.root, os.path.basename(path)))
        return dict(document.value) if isinstance(document.value, dict) else {}

    def _settle_in(self, said: dict[str, Any], spec: str, sources: dict[str, Any]) -> None:
        datasets = said.setdefault("datasets", {})
        if spec:
            declared = {"title": self.dataset, "license": "CC0-1.0", "sensitivity": "public"}
            datasets[self.dataset] = {**declared, "updater": spec}
        if self.dataset not in datasets:
            known = ", ".join(sorted(datasets)) or "none"
            raise BadInput(f"there is no dataset {self.dataset}", hint=f"kfm.yml names: {known}")
        named = datasets[self.dataset].setdefault("sources", {})
        for name, source in sources.items():
            named[name] = {**named.get(name, {}), **self._written(name, source)}
        said.update(
            state="sqlite:.kfm/state.db",
            objects="file:.kfm/objects",
            publish="file:public",
            artifacts=".kfm/artifacts",
            accept_weak_storage=True,
            execute={"threads": 1, "window": 1},  # one step after the other, for the most boundaries
        )
        for name in LEFT_OUT:
            said.pop(name, None)
        os.makedirs(self._room.root, exist_ok=True)
        with open(self._room.config, "wb") as file:
            file.write(msgspec.json.encode(said))

    def _written(self, name: str, source: Any) -> dict[str, Any]:
        settings = dict(source) if isinstance(source, Mapping) else {"text": source}
        if "text" not in settings:
            return settings
        body, path = settings.pop("text"), os.path.join("trial-sources", name)
        os.makedirs(os.path.join(self._room.root, "trial-sources"), exist_ok=True)
        with open(os.path.join(self._room.root, path), "wb") as file:
            file.write(body.encode() if isinstance(body, str) else body)
        return {**settings, "uri": path}

    # -- runs

    def run(self) -> Receipt:
        """Run the updater once in this process, in the installation as it is, and return the result. The run may have
        failed."""
        with self._room.open() as session:
            return self._room.run(session)

    def outputs(self) -> dict[str, bytes]:
        """Run the updater and return its outputs: bytes by key, with the parts of a key joined by slashes."""
        __tracebackhide__ = True
        self._room.clear()
        with self._room.open() as session:
            self._succeeded("a run", self._room.run(session))
            version = session.state.refs.at(refs.processed(self.dataset))
            return {
                "/".join(entry.key): session.objects.read(entry.digest) for entry in entries(session.objects, version)
            }

    def _succeeded(self, tried: str, receipt: Receipt) -> None:
        __tracebackhide__ = True
        if receipt.status == "SUCCESS":
            return
        told = "; ".join(note.message for note in receipt.errors) or f"it ended as {receipt.outcome}"
        rule = "plan.impure" if any(note.code == "plan.impure" for note in receipt.errors) else "run.failed"
        raise failure(rule, self.dataset, tried, told)

    def _plain(self) -> RunResult:
        """Return the result of an undisturbed run in an empty installation. The run happens once and is cached."""
        __tracebackhide__ = True
        if self._undisturbed is None:
            self._undisturbed = self._watched("write")
        return self._undisturbed

    def _watched(self, mode: Any) -> RunResult:
        __tracebackhide__ = True
        tried = "a dry run" if mode == "dry" else "a run"
        self._room.clear()
        with watched(self._scratch) as effects, self._room.open(mode) as session:
            try:
                receipt = self._room.run(session)
            except KfmError as problem:
                raise failure("run.failed", self.dataset, tried, str(problem)) from None
            if not effects:
                self._succeeded(tried, receipt)
                return self._room.made(session, receipt)
        raise failure("effect.outside", self.dataset, f"{tried}, with an eye on the system", "; ".join(effects))

    # -- checks

    def check(self) -> None:
        """Try the updater in every situation that a run may meet. Raise UpdaterFailed, an AssertionError, which says
        what is wrong and what to do."""
        __tracebackhide__ = True
        self.check_dry_run()
        self.check_again()
        self.check_elsewhere()
        self.check_crashes()

    def check_dry_run(self) -> None:
        """Check that plan() is pure, that a dry run changes nothing and predicts the run, and that only
        outputs change.
        """
        __tracebackhide__ = True
        self._room.clear()
        before = _stamps(self._room.root)
        foretold = self._watched("dry")
        changed = sorted({place for place, _ in _stamps(self._room.root).items() ^ before.items()})
        if changed:
            raise failure("dry-run.changed", self.dataset, "a dry run", f"these files changed: {', '.join(changed)}")
        self._compare("a dry run, then a run over the same inputs", foretold, self._plain())

    def check_again(self) -> None:
        """Check that the plan is the locked one, and that a second run is a NOOP."""
        __tracebackhide__ = True
        made = self._plain()
        with self._room.open() as session:
            (first, *_) = session.state.ledger.entries()
            run = session.state.runs.get(first.run_id)
            if run is not None:
                plan = replan(session, self.dataset, list(run.inputs), self._room.window, self._room.partition)
                if plan != made.plan_hash:
                    raise failure("plan.varies", self.dataset, "the plan of the same inputs again", "it is another one")
            receipt = self._room.run(session)
        if receipt.outcome != "noop":
            rule = "inputs.vary" if receipt.input_hash != made.input_hash else "run.failed"
            raise failure(rule, self.dataset, "a second run over the same data", f"it ended as {receipt.outcome}")

    def check_elsewhere(self) -> None:
        """Check that a process with another hash seed, time zone and locale makes the same plan and the same bytes."""
        __tracebackhide__ = True
        made = self._plain()
        self._room.clear()
        tried = "a run in a process with another hash seed, time zone and locale"
        answer = ask(self._room)
        if answer.made is None:
            raise failure("run.failed", self.dataset, tried, answer.problem)
        self._compare(tried, made, answer.made)

    def check_crashes(self) -> None:
        """Check that a run that was killed at a boundary and resumed by another process ends as an undisturbed one."""
        __tracebackhide__ = True
        if not hasattr(os, "fork"):  # without fork there is no child with the loaded modules
            return
        made = self._plain()
        self._room.clear()
        names: list[str] = in_child(partial(self._play, 0))
        for at in spread(len(names), self.most):
            self._room.clear()
            tried = f"killed {names[at - 1]} (boundary {at} of {len(names)}), then resumed by another process"
            try:
                in_child(partial(self._play, at))
            except ChildKilled:
                self.tried.append(names[at - 1])
            else:
                found = "it did less than the first time, and ended before the boundary came"
                raise failure("crash.differs", self.dataset, tried, found)
            try:
                answer = in_child(self._recover)
            except AssertionError as problem:
                raise failure("crash.stuck", self.dataset, tried, str(problem)) from None
            self._compare(tried, made, msgspec.convert(answer, RunResult), crashed=True)

    def _play(self, at: int) -> list[str]:
        boundaries = Boundaries(at)
        with self._room.open(boundaries=boundaries) as session:
            self._succeeded("a run", self._room.run(session))
        return boundaries.names

    def _recover(self) -> Any:
        """Recover as an operator does: resume unfinished runs; run again what left no trace."""
        with self._room.open() as session:
            receipts = list(resume_runs(session))
            settle_session(session)
            receipt = receipts[-1] if receipts else self._room.run(session)
            if receipt.outcome != "noop":
                self._succeeded("resuming", receipt)
            return msgspec.to_builtins(self._room.made(session, receipt))

    def _compare(self, tried: str, first: RunResult, second: RunResult, *, crashed: bool = False) -> None:
        __tracebackhide__ = True
        if not crashed and first.input_hash != second.input_hash:
            raise failure("inputs.vary", self.dataset, tried, "the two had different inputs")
        if not crashed and first.plan_hash != second.plan_hash:
            raise failure("plan.varies", self.dataset, tried, "the two made different plans of the same inputs")
        told = []
        for key in sorted(first.digests.keys() | second.digests.keys()):
            one, other = first.digests.get(key, ""), second.digests.get(key, "")
            if one != other:
                told.append(f"key {key} was {one[:19] or 'not there'}, then {other[:19] or 'not there'}")
        if told:
            rest = f" and {len(told) - 3} more" if len(told) > 3 else ""
            raise failure(
                "crash.differs" if crashed else "output.varies", self.dataset, tried, "; ".join(told[:3]) + rest
            )


def _place(copied: str, folder: str) -> str:
    """Return where the installation is made: in memory if there is room and it is small, otherwise in the folder."""
    sizes = (os.lstat(os.path.join(root, name)).st_size for root, _, names in _walked(copied) for name in names)
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < 64 * SMALL or sum(sizes) > SMALL:
        return folder
    return tempfile.mkdtemp(prefix="kfm-trial-", dir=MEMORY)


def _walked(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    for root, folders, names in os.walk(folder) if folder else ():
        folders[:] = [name for name in folders if name not in NOT_COPIED]
        yield root, folders, names


def _nearest(start: str, module: str) -> str:
    """Return the configuration file in the folder `start` or above it. If an updater file is named, its folder is
    enough without one."""
    folder = os.path.abspath(start)
    while True:
        for name in CONFIGS:
            if os.path.isfile(os.path.join(folder, name)):
                return os.path.join(folder, name)
        if module.endswith(".py") and os.path.isfile(os.path.join(folder, module)):
            return os.path.join(folder, "")
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    if module and not module.endswith(".py"):  # an installed module, which needs no folder
        return ""
    raise BadInput("there is no kfm.yml next to or above the test", hint="name its folder: installation=FOLDER")


def _stamps(folder: str) -> dict[str, tuple[int, int]]:
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if "__pycache__" not in root:
                info = os.lstat(path)
                found[os.path.relpath(path, folder)] = (info.st_size, info.st_mtime_ns)
    return found
