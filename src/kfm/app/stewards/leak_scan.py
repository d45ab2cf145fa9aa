"""Scans files for protected values. The result is a verdict, rules and counts for each file, never a value that was
found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.authority.label_file import read_bytes
from kfm.app.session.protection_files import custodian_key_with
from kfm.app.stewards.protected_tables import columns_of, policy_at, secret_at
from kfm.engine.protected.protection import fingerprints
from kfm.errors import BadInput, Denied
from kfm.masking.fingerprints import Fingerprints, Marker, of_stored
from kfm.masking.leak_scanner import LARGEST, Leak, ScanReport, Verdict, scan
from kfm.model.secret import SHORTEST, Secret
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session

_ORDER: tuple[Verdict, ...] = ("clean", "review", "deny")
_UNREADABLE = ScanReport(verdict="deny", leaks=(Leak(rule="gate.unreadable", count=1),))


class KnownFingerprints(msgspec.Struct, frozen=True):
    """Fingerprints of protected values, and the marker that makes fingerprints under the same key."""

    fingerprints: Fingerprints
    marker: Marker


class FileLeaks(msgspec.Struct, frozen=True):
    """A file in which a scan found protected values or that could not be read, with the broken rules."""

    file: str  # path below the scanned folder; a number if the name itself shows a protected value
    verdict: Verdict
    leaks: tuple[Leak, ...]


class ScanResult(msgspec.Struct, frozen=True):
    """The result of a scan: the worst verdict, the number of files, and those that are not clean."""

    verdict: Verdict
    files: int
    found: list[FileLeaks]


def known_of_file(file: str, mask: str, key: str, env: Any) -> KnownFingerprints:
    """Return the fingerprints of the protected values in a file. Both sides are fingerprinted now, so without a key a
    random one is used. BadInput if the file lacks the column of record ids."""

    policy = policy_at(mask)
    table = columns_of(read_bytes(file), file)
    marker = Marker(secret_at(key, env) if key else Secret(os.urandom(SHORTEST)))
    ids = [str(one) for one in table.get(policy.record_id, ()) if one not in (None, "")]
    if not ids:
        raise BadInput(
            f"{printable(file)} has no column {printable(policy.record_id)}, by which its records are known",
            hint="look at record_id in the masking policy",
        )
    location = policy.location
    if location.geometry:
        points = [_point(one) for one in table.get("geometry", ())]
    else:
        lats, lngs = (map(str, table.get(name, ())) for name in (location.latitude, location.longitude))
        points = list(zip(lats, lngs, strict=True))
    return KnownFingerprints(marker.of(ids, points, finer_than=policy.resolution), marker)


def known_of_state(session: Session) -> list[KnownFingerprints]:
    """Return the fingerprints of everything that this installation knows to be protected. Denied if a key is missing,
    because values under it could not be found."""
    found: dict[str, Fingerprints] = {}
    for key_id, body in session.state.protected.fingerprints():
        found[key_id] = found.get(key_id, Fingerprints()) | of_stored(body)
    known = []
    for key_id, prints in found.items():
        key = custodian_key_with(session, key_id)
        if key is None:
            raise Denied(
                f"there are fingerprints under key {key_id}, which is not at hand: no file can be compared with them",
                hint="do this where the key is, named under `custodians:` in kfm.yml",
                rule="key.missing",
            )
        known.append(KnownFingerprints(prints, Marker(fingerprints(key))))
    return known


def _point(geometry: Any) -> tuple[str, str]:
    try:
        lng, lat = geometry["coordinates"][:2]
    except (TypeError, KeyError, ValueError):
        return "", ""
    return str(lat), str(lng)


def scan_files(path: str, known: list[KnownFingerprints]) -> ScanResult:
    """Scan a file, or every file below a folder, and return the result. Links and special files are not read, and count
    as denied."""
    if not os.path.lexists(path):
        raise BadInput(f"{printable(path)} is not there", hint="look at the path")
    found: list[FileLeaks] = []
    count = 0
    for count, name in enumerate(_files(path), 1):
        report = _report(os.path.join(path, name) if name else path, known)
        said = name or os.path.basename(path)
        leaks = report.leaks
        verdict = report.verdict
        if any(scan(os.fsencode(said), one.fingerprints, one.marker).verdict != "clean" for one in known):
            verdict, leaks = "deny", (*leaks, Leak(rule="gate.name", count=1))
            said = f"file {count}, whose name says too much"
        if verdict != "clean":
            found.append(FileLeaks(said, verdict, leaks))
    worst: Verdict = max((one.verdict for one in found), key=_ORDER.index, default=_ORDER[0])
    return ScanResult(worst, count, found)


def _files(path: str) -> Iterator[str]:
    """Yield every file name below a folder in order; an empty name if the path is a file."""
    if os.path.islink(path) or not os.path.isdir(path):
        yield ""
        return
    pending = [""]
    while pending:
        below = pending.pop()
        with os.scandir(os.path.join(path, below)) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            name = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                pending.append(name)
            else:
                yield name


def _report(path: str, known: list[KnownFingerprints]) -> ScanReport:
    if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) >= LARGEST:
        return _UNREADABLE
    body = read_bytes(path)
    reports = [scan(body, one.fingerprints, one.marker) for one in known]
    counts: dict[str, int] = {}
    for report in reports:
        for leak in report.leaks:
            counts[leak.rule] = max(counts.get(leak.rule, 0), leak.count)
    verdict = max((report.verdict for report in reports), key=_ORDER.index)
    return ScanReport(verdict=verdict, leaks=tuple(Leak(rule=rule, count=count) for rule, count in counts.items()))


def denied(result: ScanResult) -> Denied:
    """Return the error that a command raises when a scan found something."""
    files = "1 file shows" if len(result.found) == 1 else f"{len(result.found)} files show"
    if result.verdict == "review":
        return Denied(f"{files} what may be protected", hint="a steward should look at it before it is passed on")
    return Denied(f"{files} what is protected, or cannot be read", hint="do not pass it on; mask it first")
