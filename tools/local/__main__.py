"""`make up-local` and `make down-local`: an installation with servers, on this machine.

python -m tools.local up|down|status [--folder FOLDER] [--postgres-port N] [--redis-port N] [--s3-port N]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tools.local.servers import BUCKETS, START, Ports, Site, Trouble, make_secrets, reachable, stop

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
# Made by `make up-local`, once: change it as you like.
state: postgresql://kfm@127.0.0.1:{ports.postgres}/kfm
objects: s3://kfm-objects/v1
publish: s3://kfm-public/v1
queue: redis://127.0.0.1:{ports.redis}/0
postgres: {{password: "file:secrets/postgres"}}
redis: {{password: "file:secrets/redis"}}
s3:
"""
BUCKET = """\
  {name}:
    endpoint: http://127.0.0.1:{port}
    access_key: file:secrets/s3-access
    secret_key: file:secrets/s3-secret
"""
DATASETS = """\
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    schedule: {cadence: daily, at: "02:30", timezone: America/Chicago}
    sources:
      rain:
        uri: rain.csv
        format: csv
        contract: {columns: [{name: station, type: text}, {name: inches, type: number, minimum: 0}]}
    outputs:
      rain: {from: rain}
"""
NEXT = """\
next:
  cd {folder}
  {python} -m kfm doctor
  {python} -m kfm run rain
  {python} -m workers run --concurrency 2
  {python} -m kfm up
stop them with `make down-local`; the data stays in {folder}
"""


def config(ports: Ports) -> str:
    buckets = "".join(BUCKET.format(name=name, port=ports.s3) for name in BUCKETS)
    return CONFIG.format(ports=ports) + buckets + DATASETS


def site_of(options: argparse.Namespace) -> Site:
    """The folder and its ports: those that were chosen when it was made. Trouble if others are asked for now."""
    folder = Path(options.folder).absolute()
    note = folder / "ports.json"
    asked = {name: getattr(options, name) for name in Ports._fields if getattr(options, name)}
    if not note.exists():
        return Site(folder, Ports()._replace(**asked))
    kept = Ports(**json.loads(note.read_text()))
    if kept._replace(**asked) != kept:
        raise Trouble(f"{folder} was made for other ports: see {note}, or choose another --folder")
    return Site(folder, kept)


def up(site: Site) -> None:
    site.folder.mkdir(parents=True, exist_ok=True)
    reachable(site)
    make_secrets(site.folder)
    note = site.folder / "ports.json"
    if not note.exists():
        note.write_text(json.dumps(site.ports._asdict()) + "\n")
    for server, start in START.items():
        is_new = start(site)
        print(f"{server}: {'started' if is_new else 'runs already'} on 127.0.0.1:{getattr(site.ports, server)}")
    for name, text in (("kfm.yml", config(site.ports)), ("rain.csv", "station,inches\nKS-01,1.20\nKS-02,0.41\n")):
        if not (site.folder / name).exists():
            (site.folder / name).write_text(text)
    print(NEXT.format(folder=site.folder, python=sys.executable), end="")


def down(site: Site) -> None:
    for server in reversed(START):
        print(f"{server}: {'stopped' if stop(site, server) else 'did not run'}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.local", description="An installation with servers.")
    parser.add_argument("what", choices=("up", "down"))
    parser.add_argument("--folder", default=str(ROOT / "build" / "local"), help="default: build/local")
    for server, port in Ports()._asdict().items():
        parser.add_argument(f"--{server}-port", dest=server, type=int, default=0, help=f"default: {port}")
    options = parser.parse_args()
    try:
        site = site_of(options)
        {"up": up, "down": down}[options.what](site)
    except Trouble as problem:
        print(f"make: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
