"""What masking and sealing cost: `python bench/masking.py [RECORDS]` (default: 100,000).

Cells are held against H3 asked point by point, sealing against SHA-256 over the same bytes, each pair in turns. A whole
masked record is its cell, geometry, bbox, attributes and public id, from columns of text to the bytes of a feature.
Seconds of the process, least and median, so that other work counts as little as it can.
"""

from __future__ import annotations

import hashlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kfm.crypto import encryption
from kfm.crypto.custodian_key import CustodianKey
from kfm.masking import cells
from kfm.masking.fingerprints import Marker
from kfm.masking.h3_library import library
from kfm.masking.mask import mask_columns
from kfm.masking.public_record import feature
from kfm.model.secret import Secret
from tests.masking.sites import KEY, canaries, columns, prepared, rows

ROUNDS = 5
BYTES, BLOCK = 32 << 20, 1 << 20


def in_turns(*works: Callable[[], object]) -> list[list[float]]:
    took: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for mine, work in zip(took, works, strict=True):
            begun = time.process_time()
            work()
            mine.append(time.process_time() - begun)
    return took


def compared(took: list[float], other: list[float], what: str) -> None:
    at_best, median = min(other) / min(took), statistics.median(other) / statistics.median(took)
    print(f"{'':34} {at_best:12.2f} {what} at best, {median:12.2f} median")


def told(name: str, took: list[float], amount: float, unit: str) -> None:
    print(f"{name:34} {amount / min(took):12,.0f} {unit} at best, {amount / statistics.median(took):12,.0f} median")


def main(count: int) -> None:
    print(f"{count:,} records; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rng = random.Random(1)
    lats = [37 + rng.random() * 3 for _ in range(count)]
    lngs = [-102 + rng.random() * 7 for _ in range(count)]
    one = library().latlng_to_cell
    cells.cells_of(lats[:10], lngs[:10], 7)
    ours, loop = in_turns(
        lambda: cells.cells_of(lats, lngs, 7),
        lambda: [one(lat, lng, 7) for lat, lng in zip(lats, lngs, strict=True)],
    )
    told("cells, at once", ours, count, "/s")
    told("cells, H3 one by one", loop, count, "/s")
    compared(ours, loop, "times as many as H3")
    table, bound = columns(rows(canaries(count))), prepared()

    def whole() -> None:
        cells.shape_of.cache_clear()
        for record in mask_columns(table, bound):
            feature(record)

    told("whole masked records", in_turns(whole)[0], count, "/s")
    ids, places = table["trinomial"], list(zip(table["lat"], table["lng"], strict=True))
    part = count // 5
    told(
        "fingerprints of records",
        in_turns(lambda: Marker(KEY).of(ids[:part], places[:part], finer_than=7))[0],
        part,
        "/s",
    )
    body = rng.randbytes(BYTES)
    key = CustodianKey(Secret(bytes(range(64))))

    blocks = [body[at : at + BLOCK] for at in range(0, BYTES, BLOCK)]
    sealed = list(encryption.encrypted(blocks, key))

    def seal() -> None:
        for _ in encryption.encrypted(blocks, key):
            pass

    def unseal() -> None:
        for _ in encryption.decrypted(sealed, lambda _: key):
            pass

    took = in_turns(seal, unseal, lambda: hashlib.sha256(body).digest())
    for name, mine in zip(("sealing", "opening", "SHA-256"), took, strict=True):
        told(name, mine, BYTES / 1e6, "MB/s")
    compared(took[0], took[2], "of SHA-256")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["100000"])[0].replace(",", "")))
