"""Runs a command as a pod would: in a mount namespace of its own in which only a few folders can be written to, as user
10001 without capabilities.

Root is needed to make the namespace, or a kernel that lets every user have one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.abilities import lacking
from tests.deploy.manifests import ROOT

USER = 10001
# Everything becomes read-only, then the folders that a pod may write to are bound again over themselves.
_SCRIPT = """
set -e
mount --make-rprivate /
number=0
for place in $POD_SEEN; do
  number=$((number + 1)); mkdir -p "$POD_STASH/$number"; mount --bind "$place" "$POD_STASH/$number"
done
for closed in $POD_CLOSED; do mount -t tmpfs -o mode=0755 none "$closed"; done
number=0
for place in $POD_SEEN; do
  number=$((number + 1)); mkdir -p "$place"; mount --bind "$POD_STASH/$number" "$place"
done
for place in "$@"; do mount --bind "$place" "$place"; done
mount -o remount,bind,ro /
awk '{print $5}' /proc/self/mountinfo | while read -r at; do
  keep=
  for place in "$@"; do [ "$at" != "$place" ] || keep=yes; done
  case "$at" in / | /proc | /proc/* | /sys | /sys/* | /dev | /dev/*) keep=yes ;; esac
  [ -n "$keep" ] || mount -o remount,bind,ro "$at" 2>/dev/null || true
done
cd "$POD_FOLDER"
exec setpriv --reuid="$POD_USER" --regid="$POD_USER" --clear-groups --no-new-privs --inh-caps=-all --ambient-caps=-all \
  --bounding-set=-all -- sh -c 'exec "$@"' sh $POD_COMMAND
"""


def needs_namespaces() -> None:
    for program in ("unshare", "setpriv", "mount"):
        if shutil.which(program) is None:
            lacking(f"no {program} on this machine")
    if os.getuid():
        lacking("only root can run a command as another user")
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if done.returncode:
        lacking("this machine lets nobody have a mount namespace")


def _closed(places: list[Path]) -> list[Path]:
    """The topmost folders on the way to these that other users cannot pass, such as a home folder."""
    found = []
    for place in places:
        way = [*reversed(place.parents), place]
        found += [one for one in way if not one.stat().st_mode & 0o001][:1]
    return sorted(set(found))


def run(
    command: list[str], folder: Path, writable: list[Path], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """What a command did, of plain words, with `folder` as its working directory. It sees this Python and this clone,
    also where they lie in a folder that is closed to others."""
    seen = [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT / "src"]
    assert not [word for word in (*command, *map(str, seen)) if " " in word]
    stash = folder.parent / "stash"
    stash.mkdir(exist_ok=True)
    mounts = {"POD_SEEN": seen, "POD_CLOSED": _closed(seen), "POD_STASH": [stash]}
    said = {name: " ".join(map(str, places)) for name, places in mounts.items()}
    own = {**env, **said, "POD_FOLDER": str(folder), "POD_USER": str(USER), "POD_COMMAND": " ".join(command)}
    words = ["unshare", "--mount", "--ipc", "--", "sh", "-c", _SCRIPT, "sh", *map(str, writable)]
    return subprocess.run(words, env=own, capture_output=True, text=True, timeout=200, check=False)
