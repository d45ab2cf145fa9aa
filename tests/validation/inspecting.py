"""Runs an inspection over bytes in memory, and holds it to what every inspection promises."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import msgspec

from kfm.model.canonical import canonical
from kfm.model.records import Column, DataContract
from kfm.parsing.strict_json import decode
from kfm.validation.source_check import Inspection, inspect


class Seen(NamedTuple):
    result: Inspection
    accepted: bytes  # the accepted source: as it came, if nothing was discarded
    held: list[dict[str, Any]]

    @property
    def rules(self) -> list[tuple[int, str, str]]:
        return [(finding.row, finding.column, finding.rule) for finding in self.result.findings]


def patient(contract: DataContract) -> DataContract:
    """The same contract, by which few rows, most of them bad, hold no source: tests of other rules have no more."""
    if contract.format in ("text", "bytes"):
        return contract
    return msgspec.structs.replace(contract, max_held_share=1, allow_empty=not contract.min_rows)


def look(body: bytes, contract: DataContract) -> Seen:
    contract = patient(contract)
    pieces: list[bytes] = []
    lines: list[bytes] = []
    result = inspect(lambda: io.BytesIO(body), contract, "stations", pieces.append, lines.append)
    held = [decode(line, "held row") for line in b"".join(lines).splitlines()]
    assert b"".join(lines) == b"".join(canonical(row) + b"\n" for row in held)
    assert len(held) == result.held_rows
    assert [row["row"] for row in held] == sorted({row["row"] for row in held})
    assert result.changed or result.held or not pieces, "accepted bytes were written although nothing changed"
    assert not (result.changed and result.held)
    assert (result.cause is not None) == result.held
    assert len(result.findings) <= 200
    assert result.findings == sorted(result.findings, key=lambda f: (f.row, f.column, f.rule))
    assert sum(result.finding_counts.values()) >= len(result.findings)
    assert list(result.finding_counts) == sorted(result.finding_counts)
    assert all(finding.source == "stations" for finding in result.findings)
    return Seen(result, b"".join(pieces) if result.changed else body, held)


def csv_contract(*columns: Column, **more: Any) -> DataContract:
    return DataContract(format="csv", columns=columns, **more)
