"""An installation whose parts lie on servers, and the commands that a person types there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from kfm.bucket import Bucket
from kfm.testing.kills import in_child
from tests.servers.placement import Placement
from tests.servers.seaweed import ACCESS, SECRET
from tests.store.buckets import at

ROWS = "station,inches\nKS-01,1.20\nKS-02,0.41\n"
LARGE = "".join(f"KS-{n:05d},{n % 97 / 10}\n" for n in range(12_000))  # more than a row of the state holds
PASSWORD, ACCESS_KEY, SECRET_KEY = "KFM_SECRET_POSTGRES", "KFM_SECRET_ACCESS", "KFM_SECRET_SECRET"
DATASET = """\
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    promote: {promote}
    sources:
      rain: {{uri: "{source}", format: csv, contract: {{columns: [{{name: station}}, {{name: inches, type: number}}]}}}}
    outputs:
      rain: {{from: rain}}
"""


class Site:
    """A folder with kfm.yml, its state in a schema of its own; with `store` (an S3 server) its objects and public files
    in a bucket, with `queue` the broker that wakes its workers."""

    def __init__(
        self, folder: Path, *, store: str = "", queue: str = "", source: str = "rain.csv", promote: str = "manual"
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        keys = [f"env:{name}" for name in (PASSWORD, ACCESS_KEY, SECRET_KEY)]
        place = Placement(folder, store=store, queue=queue, keys=keys)
        self.schema, self.prefix, self.store = place.schema, place.prefix, store
        self.environment = {
            **os.environ,
            PASSWORD: str(place.dsn["password"]), ACCESS_KEY: ACCESS, SECRET_KEY: SECRET,
            "KFM_REASON": "a test", "KFM_ACTOR": "tester",
        }  # fmt: skip
        lines = [
            "kfm: 1",
            *place.lines,
            "accept_weak_storage: true",
            "pages: false",
            'catalog: ""',
            "workers: {sweep_s: 0.2, backoff_s: 0.01, attempts: 30}",
            "execute: {lease_s: 2}",
        ]
        if source.startswith("http:"):
            lines += [f"network: {{allow: ['{source.split('/')[2]}'], retries: 0}}"]
        self.config = "\n".join(lines) + "\n" + DATASET.format(source=source, promote=promote)
        self.write()

    def write(self, text: str = "", rows: str = ROWS) -> None:
        (self.folder / "kfm.yml").write_text(text or self.config)
        (self.folder / "rain.csv").write_text(rows)
        os.utime(self.folder / "rain.csv", (1_767_000_000, 1_767_000_000))

    def copied(self, folder: Path) -> Site:
        """Return the same installation on another machine, which shares no file with this one."""
        other = object.__new__(Site)
        other.__dict__.update(self.__dict__)
        other.folder = folder
        folder.mkdir(parents=True)
        (folder / "kfm.yml").write_text(self.config)
        return other

    @property
    def bucket(self) -> Bucket:
        """What the installation keeps in the bucket."""
        return at(self.store, self.prefix)

    def names(self, beginning: str = "") -> list[str]:
        """The names of all objects in the bucket below this beginning. A child looks: the threads of obstore do not
        survive a fork, and tests fork from this process."""

        def look() -> list[str]:
            import obstore

            return [each["path"] for page in obstore.list(self.bucket.store, beginning or None) for each in page]

        return sorted(in_child(look))

    def begun(self, *words: str, log: Path | None = None, **env: str) -> subprocess.Popen[str]:
        """Start a command. What it says goes to `log`: a pipe that nobody reads would stop it when it is full."""
        with log.open("a") if log is not None else contextlib.nullcontext(subprocess.PIPE) as out:
            return subprocess.Popen(
                [sys.executable, "-m", *words], cwd=self.folder, env={**self.environment, **env},
                stdout=out, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def typed(self, *words: str, code: int = 0, module: str = "kfm", **env: str) -> str:
        """What a command answers, stdout and stderr together."""
        running = self.begun(module, *words, **env)
        said, _ = running.communicate(timeout=120)
        assert running.returncode == code, said
        return said

    def said(self, *words: str) -> Any:
        return msgspec.json.decode(self.typed("--json", *words))
