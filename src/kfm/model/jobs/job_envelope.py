"""The envelope of a job, read strictly: what is to be done, on whose request and with which inputs.

An envelope names data by stable ids and checksums. It holds no data, no secret and no path of a machine.
"""

from __future__ import annotations

from typing import BinaryIO, get_args

import msgspec

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.jobs.job_records import JOB_TYPE, NO_ID, UUID
from kfm.model.jobs.job_records import JobEnvelope as JobEnvelope
from kfm.model.jobs.job_records import JobInput as JobInput
from kfm.model.jobs.job_records import JobTrace as JobTrace
from kfm.model.jobs.job_records import LifecycleZone as LifecycleZone
from kfm.model.jobs.job_records import Priority as Priority
from kfm.model.keys import digest, job_id_of
from kfm.model.names import check_id, is_digest
from kfm.parsing import documents
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.dates import is_moment
from kfm.parsing.documents import Document, Path
from kfm.parsing.lazy_regex import pattern
from kfm.parsing.record_shape import into

MAX_BYTES = 256 * 1024
DATASET = "kfm://dataset/"
ZONES: tuple[LifecycleZone, ...] = get_args(LifecycleZone)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
SYSTEM = "system"
_TYPE_FORM, _UUID_FORM = pattern(JOB_TYPE[:-1] + r"\Z"), pattern(UUID[:-1] + r"\Z")


def identified(envelope: JobEnvelope) -> JobEnvelope:
    """Return the envelope with the id that follows from the rest of it."""
    return msgspec.structs.replace(envelope, job_id=_id_of(envelope))


def _id_of(envelope: JobEnvelope) -> str:
    return job_id_of(digest(canonical(msgspec.structs.replace(envelope, job_id=NO_ID))))


def read_envelope(file: BinaryIO, where: str) -> JobEnvelope:
    """Return the envelope in a file. At most its limit is read: a larger file is refused without reading the rest."""
    body = file.read(MAX_BYTES + 1)
    while 0 < len(body) <= MAX_BYTES and (more := file.read(MAX_BYTES + 1 - len(body))):  # a pipe gives parts
        body += more
    return decode_envelope(body, where)


def decode_envelope(body: bytes, where: str = "the envelope") -> JobEnvelope:
    """Return the envelope that these bytes hold, with its id. Raise BadInput with the place of the first mistake."""
    if len(body) > MAX_BYTES:
        raise BadInput(
            f"{where} is larger than {MAX_BYTES >> 10} KiB",
            hint="an envelope names data by ids and checksums, and holds none",
        )
    if not body.strip():
        raise BadInput(f"{where} is empty", hint='write {"job_type": …}: see `kfm config schema job-envelope`')
    document = documents.read(body, where, json=True)
    envelope = into(document, JobEnvelope)
    _check(document, envelope)
    made = identified(envelope)
    if envelope.job_id not in (NO_ID, made.job_id):
        document.refuse(("job_id",), "does not follow from the rest of the envelope", "leave it out; KFM computes it")
    return made


def _check(document: Document, envelope: JobEnvelope) -> None:
    if not _TYPE_FORM.match(envelope.job_type):
        document.refuse(("job_type",), "is not the name of a job type", "see `kfm jobs types`")
    for path, text in ((("job_id",), envelope.job_id), *_ids_of(envelope.trace)):
        if not _UUID_FORM.match(text):
            document.refuse(path, "is not a UUID", "write 8-4-4-4-12 lower-case hexadecimal digits, or leave it out")
    kind, _, person = envelope.requested_by.partition(":")
    if envelope.requested_by != SYSTEM and not (kind == "user" and person and is_printable(person)):
        document.refuse(("requested_by",), "names nobody", "write system, or user:ID")
    if not is_moment(envelope.requested_at):
        document.refuse(("requested_at",), "is not an instant", "write one like 2026-02-23T00:00:00Z")
    for index, one in enumerate(envelope.inputs):
        _check_input(document, ("inputs", index), one)
    zone = envelope.parameters.get("target_zone", "Processed")
    if zone not in ZONES:
        document.refuse(("parameters", "target_zone"), "is not a zone", f"write one of {', '.join(ZONES)}")


def _ids_of(trace: JobTrace) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str | None]] = [
        (("trace", "parent_run_id"), trace.parent_run_id),
        (("trace", "correlation_id"), trace.correlation_id),
    ]
    return [(path, text) for path, text in found if text]


def _check_input(document: Document, path: Path, one: JobInput) -> None:
    if not is_digest(one.checksum):
        document.refuse((*path, "checksum"), "is not a checksum", "write sha256: and 64 hexadecimal digits")
    problem = input_problem(one)
    if problem:
        document.refuse((*path, "id"), *problem)


def input_problem(one: JobInput) -> tuple[str, str] | None:
    """Return what is wrong with the id of an input, and what to do; None if it is a stable id."""
    scheme, colon, rest = one.id.partition("://")
    if one.kind == "uri" and colon and scheme not in ("", "file") and rest and is_printable(one.id):
        return None
    if one.kind == "uri" or not one.id.startswith(DATASET):
        is_path = scheme == "file" or not colon
        what = "is a path of this machine, which means nothing on another" if is_path else "is not a stable id"
        return what, "write kfm://dataset/ID with the checksum of a version: see `kfm refs list`"
    try:
        check_id(one.id.removeprefix(DATASET), "dataset")
    except BadInput as problem:
        return f"is not the id of a dataset: {printable(one.id)}", problem.hint
    return None
