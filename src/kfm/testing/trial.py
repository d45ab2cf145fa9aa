"""One updater in a temporary house: run dry, run, run again, run elsewhere, killed at every boundary and resumed."""

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
from kfm.testing.kills import Boundaries, Died, in_child, spread
from kfm.testing.process_variation import ask, file_of
from kfm.testing.temporary_installation import MADE, Made, Room
from kfm.testing.trial_failures import failure

NOT_COPIED = (*MADE, ".git", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache")
LEFT_OUT = ("catalog", "graph", "github", "openlineage", "attest", "ledger", "pools", "runners")  # of a copied file
MEMORY = "/dev/shm"  # noqa: S108 - a kill does not care for the disk; what is small is tried here, in a tenth of the time
SMALL = 16 << 20
CONFIGS = ("kfm.yml", "kfm.yaml", "kfm.json")


class Trial:
    """`what` is a dataset of the installation at `house` (or the nearest above `near`), a class of an updater, or how
    kfm.yml would name one: `updaters/wells.py:Wells`.

    sources: by name, what they hold (text, bytes), or their settings as in kfm.yml with `text` in place of `uri`.
    An updater by itself has no others; of a dataset they replace what kfm.yml names, so that a test reaches no network.
    """

    def __init__(
        self,
        what: str | type[Updater],
        folder: str,
        *,
        sources: Mapping[str, str | bytes | Mapping[str, Any]] | None = None,
        session: str | os.PathLike[str] = "",
        near: str = "",
        window: str = "",
        partition: str = "",
        most: int = 80,
    ) -> None:
        self.most = most  # boundaries at which a run is killed; more are spread out
        self.tried: list[str] = []  # the boundaries at which it was
        self._scratch = os.path.join(folder, "scratch")
        self._undisturbed: Made | None = None
        kind = what if isinstance(what, type) else None
        if kind is not None and "<locals>" in kind.__qualname__:
            raise BadInput(f"{kind.__name__} is made inside of a function", hint="write it at the top of a module")
        if kind is not None and not issubclass(kind, Updater):
            raise BadInput(f"{kind.__name__} is not an updater", hint="let the class inherit from kfm.Updater")
        spec = what if isinstance(what, str) and ":" in what and not what.startswith("kfm:") else ""
        if kind is not None:
            self.dataset = kind.id or kind.__name__.lower()
            spec = f"{file_of(kind)}:{kind.__name__}"
        else:
            self.dataset = dataset_id(str(what)) if not spec else spec.rpartition(":")[2].lower()
        start = _nearest(str(session) or near, spec.rpartition(":")[0]) if kind is None else ""
        self._place = _place(os.path.dirname(start), folder)
        self._room = Room(os.path.join(self._place, "house"), self.dataset, kind, window, partition)
        said = self._copied(start) if start else {}
        self._settle_in({} if spec else said, spec, dict(sources or {}))

    def close(self) -> None:
        """Remove what lies in memory; a folder that was handed in is left as it is."""
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
            raise BadInput(f"no dataset is called {self.dataset}", hint=f"kfm.yml names: {known}")
        named = datasets[self.dataset].setdefault("sources", {})
        for name, source in sources.items():
            named[name] = {**named.get(name, {}), **self._written(name, source)}
        said.update(
            state="sqlite:.kfm/state.db",
            objects="file:.kfm/objects",
            publish="file:public",
            artifacts=".kfm/artifacts",
            accept_weak_storage=True,
            execute={"threads": 1, "window": 1},  # one step after the other: the most places to be killed at
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

    # -- running

    def run(self) -> Receipt:
        """A plain run, in this process, in the house as it is. Its receipt may be a failed one."""
        with self._room.open() as session:
            return self._room.run(session)

    def outputs(self) -> dict[str, bytes]:
        """What a run makes: bytes by key, of which the parts are joined by slashes."""
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

    def _plain(self) -> Made:
        """What an undisturbed run makes, in a house that had nothing. It is run once."""
        __tracebackhide__ = True
        if self._undisturbed is None:
            self._undisturbed = self._watched("write")
        return self._undisturbed

    def _watched(self, mode: Any) -> Made:
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

    # -- what is tried

    def check(self) -> None:
        """All of it. An AssertionError (UpdaterFailed) says what is wrong, and what to do."""
        __tracebackhide__ = True
        self.check_dry_run()
        self.check_again()
        self.check_elsewhere()
        self.check_crashes()

    def check_dry_run(self) -> None:
        """plan() is pure; a dry run changes nothing and foretells the run; nothing changes but the outputs."""
        __tracebackhide__ = True
        self._room.clear()
        before = _stamps(self._room.root)
        foretold = self._watched("dry")
        changed = sorted({place for place, _ in _stamps(self._room.root).items() ^ before.items()})
        if changed:
            raise failure("dry-run.changed", self.dataset, "a dry run", f"these files changed: {', '.join(changed)}")
        self._compare("a dry run, then a run over the same inputs", foretold, self._plain())

    def check_again(self) -> None:
        """The plan is the one that is locked, and a second run is a NOOP."""
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
        """Another process, with another hash seed, time zone and locale, makes the same plan and the same bytes."""
        __tracebackhide__ = True
        made = self._plain()
        self._room.clear()
        tried = "a run in a process with another hash seed, time zone and locale"
        answer = ask(self._room)
        if answer.made is None:
            raise failure("run.failed", self.dataset, tried, answer.problem)
        self._compare(tried, made, answer.made)

    def check_crashes(self) -> None:
        """Killed at each boundary and resumed by another process, it ends as if nothing had happened."""
        __tracebackhide__ = True
        if not hasattr(os, "fork"):  # no child can be made of what is loaded here
            return
        made = self._plain()
        self._room.clear()
        names: list[str] = in_child(partial(self._play, 0))
        for at in spread(len(names), self.most):
            self._room.clear()
            tried = f"killed {names[at - 1]} (boundary {at} of {len(names)}), then resumed by another process"
            try:
                in_child(partial(self._play, at))
            except Died:
                self.tried.append(names[at - 1])
            else:
                found = "it did less than the first time, and ended before the boundary came"
                raise failure("crash.differs", self.dataset, tried, found)
            try:
                answer = in_child(self._recover)
            except AssertionError as problem:
                raise failure("crash.stuck", self.dataset, tried, str(problem)) from None
            self._compare(tried, made, msgspec.convert(answer, Made), crashed=True)

    def _play(self, at: int) -> list[str]:
        boundaries = Boundaries(at)
        with self._room.open(boundaries=boundaries) as session:
            self._succeeded("a run", self._room.run(session))
        return boundaries.names

    def _recover(self) -> Any:
        """As an operator does: resume what is unfinished; what left no trace is begun again."""
        with self._room.open() as session:
            receipts = list(resume_runs(session))
            settle_session(session)
            receipt = receipts[-1] if receipts else self._room.run(session)
            if receipt.outcome != "noop":
                self._succeeded("resuming", receipt)
            return msgspec.to_builtins(self._room.made(session, receipt))

    def _compare(self, tried: str, first: Made, second: Made, *, crashed: bool = False) -> None:
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
    """Where the house stands: in memory where there is some and it is small, else in the folder."""
    sizes = (os.lstat(os.path.join(root, name)).st_size for root, _, names in _walked(copied) for name in names)
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < 64 * SMALL or sum(sizes) > SMALL:
        return folder
    return tempfile.mkdtemp(prefix="kfm-trial-", dir=MEMORY)


def _walked(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    for root, folders, names in os.walk(folder) if folder else ():
        folders[:] = [name for name in folders if name not in NOT_COPIED]
        yield root, folders, names


def _nearest(start: str, module: str) -> str:
    """The configuration beside or above; of a file that is named, the folder of it will do."""
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
    if module and not module.endswith(".py"):  # an installed one, which needs no folder
        return ""
    raise BadInput("there is no kfm.yml beside or above the test", hint="say where: house=FOLDER")


def _stamps(folder: str) -> dict[str, tuple[int, int]]:
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if "__pycache__" not in root:
                info = os.lstat(path)
                found[os.path.relpath(path, folder)] = (info.st_size, info.st_mtime_ns)
    return found
