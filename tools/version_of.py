"""The version of a listing: what `datasets/<dataset>/versions/<v>.ndjson` must hash to. Shares no code with KFM.

python version_of.py LISTING.ndjson

The listing of a large version names parts, which lie in `datasets/<dataset>/parts` by the start of their digests. They
are read, and each must have the digest that names it: else this program ends with an error. Then the version is the
SHA-256 of the listing. All others hold for listings of files:

A listing has a line for every file of a version, sorted by key. Up to 128 lines, the version is the SHA-256 of the
listing itself. Longer ones are cut into parts. A part closes with its 16th line or a later one, when byte 0 of the
SHA-256 of the line's key (as it stands in the line) is below 16; else with its 128th. Each part has a line that
names it; these lines are cut in the same way, by byte 1, and so on, until one part is left: its SHA-256 is the version.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys


def version_of(listing: bytes) -> str:
    rows = []
    for line in listing.splitlines(keepends=True):
        entry = json.loads(line)
        rows.append((entry["key"], line, 1, entry["size"]))
    if len(rows) <= 128:
        return "sha256:" + hashlib.sha256(listing).hexdigest()
    level = 0
    while len(rows) > 1:
        rows = parts_of(rows, level)
        level += 1
    return str(json.loads(rows[0][1])["digest"])


def parts_of(rows: list[tuple[list[str], bytes, int, int]], level: int) -> list[tuple[list[str], bytes, int, int]]:
    named, held = [], []
    for row in rows:
        held.append(row)
        key = compact(row[0])
        if len(held) == 128 or (len(held) >= 16 and hashlib.sha256(key).digest()[level] < 16):
            named.append(name_of(held, level))
            held = []
    if held:
        named.append(name_of(held, level))
    return named


def name_of(held: list[tuple[list[str], bytes, int, int]], level: int) -> tuple[list[str], bytes, int, int]:
    key = held[-1][0]
    digest = hashlib.sha256(b"".join(row[1] for row in held)).hexdigest()
    entries, size = sum(row[2] for row in held), sum(row[3] for row in held)
    line = {"depth": level, "digest": f"sha256:{digest}", "entries": entries, "key": key, "size": size}
    return key, compact(line) + b"\n", entries, size


def check_parts(listing: bytes, folder: str) -> None:
    """Read all parts that a listing names, and exit if one is missing or has another digest."""
    for line in listing.splitlines():
        part = json.loads(line)
        if "depth" not in part:
            continue
        start = part["digest"].removeprefix("sha256:")[:16]
        with open(os.path.join(folder, f"{start}.ndjson"), "rb") as file:
            body = file.read()
        if "sha256:" + hashlib.sha256(body).hexdigest() != part["digest"]:
            sys.exit(f"{start}.ndjson has another digest than its name says")
        check_parts(body, folder)


def compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        listing = file.read()
    if listing.startswith(b'{"depth":'):
        check_parts(listing, os.path.join(os.path.dirname(sys.argv[1]), "..", "parts"))
        sys.stdout.write("sha256:" + hashlib.sha256(listing).hexdigest() + "\n")
    else:
        sys.stdout.write(version_of(listing) + "\n")
