"""Names and contents of what is exported for people and other programs. Pure."""

from __future__ import annotations

import hashlib
import re

from kfm.contract.records import ManifestEntry, Receipt

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")
_SUFFIX = {
    "text/csv": ".csv",
    "application/json": ".json",
    "application/geo+json": ".geojson",
    "application/x-ndjson": ".ndjson",
    "text/plain": ".txt",
}


def receipt_path(receipt: Receipt) -> str:
    """By the logical start of the run, so a resume after midnight finds the same place."""
    day = receipt.started_at[:10].split("-")
    return f"receipts/{receipt.job_type}/{day[0]}/{day[1]}/{day[2]}/{receipt.run_id}.json"


def published_path(dataset: str, version: str, entry: ManifestEntry) -> str:
    """A key part that is not a plain name becomes its digest: no input chooses where a file goes."""
    parts = [part if _is_plain(part) else hashlib.sha256(part.encode()).hexdigest()[:32] for part in entry.key]
    suffix = _SUFFIX.get(entry.media_type.partition(";")[0].strip(), "")
    if parts[-1].endswith(suffix):
        suffix = ""
    return f"datasets/{dataset}/versions/{version[7:23]}/" + "/".join(parts) + suffix


def _is_plain(part: str) -> bool:
    return _SAFE.match(part) is not None and not part.endswith(".") and part.lower() == part
