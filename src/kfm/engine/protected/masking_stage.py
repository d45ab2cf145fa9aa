"""Masks protected sources before the plan: plan() and perform() see only public records.

The raw rows, which are stored encrypted, are read after they passed their contract. The result is a source of the same
format whose rows are the public records in public order, so an author reads it like any other. Tables and JSON lines
have the listed columns and those that masking adds; GeoJSON has the cell as geometry. Partitions are those of the
public rows.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import msgspec

from kfm.crypto.custodian_key import CustodianKey
from kfm.engine.acquire import layout_of
from kfm.engine.protected import protection as keys
from kfm.engine.protected.mask_columns import check_columns, check_places
from kfm.engine.run_context import RunContext
from kfm.errors import BadInput, Denied, Refused
from kfm.masking.count_table import CountTable, count_column, features_of, rows_of
from kfm.masking.fingerprints import Fingerprints, Marker
from kfm.masking.first_cells import memory_of
from kfm.masking.leak_scanner import over_masked
from kfm.masking.mask import Prepared, mask, mask_columns, prepare
from kfm.masking.places import KnownPlaces, PlaceKeys
from kfm.masking.public_record import PublicRecord, feature, in_public_order, properties
from kfm.masking.public_table import PublicTable, public_table
from kfm.model import refs
from kfm.model.csv_format import line_of
from kfm.model.labels import standing_of_record
from kfm.model.masks import MaskingPolicy
from kfm.model.records import Classification, DataContract, Layout, SourceRef
from kfm.parsing.encodings import codec_of
from kfm.parsing.strict_json import decode
from kfm.projections.live_versions import live_versions as still_public

FORMATS = ("csv", "ndjson", "geojson")
ROUGH = 5  # the default resolution from which a cell reveals something, without a label or policy
_PLACES = (
    ("decimallatitude", "decimallongitude"),
    ("latitude", "longitude"),
    ("lat", "lon"),
    ("lat", "lng"),
    ("lat", "long"),
)
_IDS = frozenset({"id", "trinomial", "site", "siteid", "recordid", "catalognumber", "occurrenceid", "sitenumber"})

Columns = Mapping[str, Sequence[Any]]


class Masked(msgspec.Struct, frozen=True):
    """The public form of a source."""

    body: bytes
    partitions: tuple[str, ...]
    records: int
    hidden: dict[str, Any]  # how many records are hidden, as a receipt may show it


def mask_source(
    context: RunContext, ref: SourceRef, contract: DataContract | None, rows: Callable[[], BinaryIO]
) -> Masked:
    """Return the public records of a source, and add what the state must remember to the facts of the run."""
    name, standing = ref.name or "source", ref.standing
    protection = context.guards.protection
    policy = protection.policies.get(ref.name) if protection is not None else None
    if protection is None or standing is None or policy is None:
        raise Refused(
            f"source {name} may only be published masked, and has no masking policy",
            hint="name one in kfm.yml, under `mask:` of the source",
            rule="mask.policy-missing",
        )
    if ref.name in protection.unsigned:
        raise Denied(
            f"the masking policy of source {name} may show more than the one in force for the same source, as {other}"
            if (other := protection.unsigned[ref.name])
            else f"the masking policy of source {name} is not the one that was signed",
            hint=f"put it back, or have it signed: `kfm mask deploy {context.dataset} {name} --key FILE --reason …`",
            rule="mask.unsigned",
        )
    if contract is None or contract.format not in FORMATS:
        raise Refused(
            f"the format of source {name} cannot be masked",
            hint=f"set `format:` {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; no other format can be masked",
            rule="mask.format",
        )
    key = protection.key_of(standing.custodians[0])
    with rows() as file:
        table = columns_of(file, contract, name)
    check_columns(policy, table, name, has_header=contract.format == "csv")
    made = _made(context, table, prepare(policy, standing, keys.public_ids(key)), key, standing)
    records, bound = in_public_order(made.records), made.bound
    check_places(records, policy, name)
    protection.facts.remember(key.key_id, made.learned.stored(), made.seen)
    protection.facts.prints[key.key_id, ref.content_hash] = _prints(key, table, policy, bound).stored()
    hidden = _counted(records, bound, max(map(len, table.values()), default=0))
    body = _written(records, bound, contract) if made.counts is None else _as_counts(made.counts, policy, contract)
    return Masked(body, _partitions(records, contract, name, count_column(policy)), len(records), hidden)


def _made(
    context: RunContext, table: Columns, bound: Prepared, key: CustodianKey, standing: Classification
) -> PublicTable:
    """Return the public records. Denied if they would show a place that earlier versions, or other datasets, show in a
    finer cell."""
    protection, state = context.guards.protection, context.world.state.protected
    assert protection is not None
    stored = {one.key_id: (one, state.first_cells(one.key_id)) for one in (key, *protection.at_hand())}
    memories = {key_id: memory_of(rows) for key_id, (_, rows) in stored.items()}
    own = memories.pop(key.key_id)
    others = [KnownPlaces(PlaceKeys(keys.places(stored[key_id][0])), one.places) for key_id, one in memories.items()]
    made = public_table(
        table,
        bound,
        lambda policy: _masked(context, table, policy, key, standing),
        own,
        PlaceKeys(keys.places(key)),
        others,
    )
    if made.unplaced:
        raise Denied(
            "an earlier release of KFM published cells here and did not keep of which places they are",
            hint="run each masked dataset again first, with --force, so that no place gets a second cell",
            rule="mask.places-unknown",
        )
    if made.elsewhere:
        raise Denied(
            f"{len(made.elsewhere)} records are at places that another mask shows in finer cells",
            hint="a place has one public cell: give this mask the namespace and the resolution of the other, or make "
            "the other coarser first",
            rule="mask.second-cell",
        )
    if made.moved and _is_public(context, standing):
        raise Denied(
            f"{len(made.moved)} records were published in finer cells than is allowed now",
            hint="withdraw what shows them first: `kfm rollback DATASET --to nothing --reason …`",
            rule="mask.first-cell",
        )
    return made


def _counted(records: list[PublicRecord], bound: Prepared, rows: int) -> dict[str, Any]:
    """Return how many records are hidden, by rule and by column. A count below k, or of all but fewer than k, is
    None."""
    found, k = over_masked(records, bound), bound.policy.k

    def told(count: int) -> int | None:
        return count if count == 0 or count == found.records or k <= count <= found.records - k else None

    return {
        "records": found.records,
        "withheld_records": count if (count := rows - found.records) == 0 or count >= k else None,
        "without_location": told(found.without_location),
        "by_rule": {rule: told(count) for rule, count in found.by_rule.items()},
        "values": {name: told(count) for name, count in found.values.items()},
    }


def _masked(
    context: RunContext, table: Columns, bound: Prepared, key: CustodianKey, standing: Classification
) -> list[PublicRecord]:
    """Return the public records of all rows. A record with a label of its own is masked by that label, or left out."""
    labels = context.guards.protection.labels if context.guards.protection is not None else None
    own = {label.of.record for label in labels.labels if label.of.record} if labels is not None else set()
    if not own or labels is None:
        return mask_columns(table, bound)
    ids = [bound.public_id(one, row) for row, one in enumerate(table.get(bound.policy.record_id, ()))]
    marked = [row for row, identity in enumerate(ids) if identity in own]
    left = set(marked)
    rest = {name: [one for row, one in enumerate(column) if row not in left] for name, column in table.items()}
    found = mask_columns(rest, bound)
    for row in marked:
        its_own = standing_of_record(labels, ids[row], standing, context.now()[:10])
        if its_own.publishable():
            closer = prepare(bound.policy, its_own, keys.public_ids(key), first=bound.first)
            found.append(mask({name: column[row] for name, column in table.items()}, closer))
    return found


def learn(context: RunContext, ref: SourceRef, contract: DataContract | None, rows: Callable[[], BinaryIO]) -> None:
    """Add the fingerprints of a restricted source, which is not masked, to the facts of the run. This works if the
    source has rows, and its columns are known from a masking policy or by their names."""
    protection, standing = context.guards.protection, ref.standing
    if protection is None or standing is None or contract is None or contract.format not in FORMATS:
        return
    key = protection.key_of(standing.custodians[0])
    try:
        with rows() as file:
            table = columns_of(file, contract, ref.name or "source")
    except (Refused, ValueError):
        return  # the digest of its bytes is still known
    policy = protection.policies.get(ref.name)
    resolution = standing.resolution if standing.resolution is not None else ROUGH
    protection.facts.prints[key.key_id, ref.content_hash] = _prints(key, table, policy, None, resolution).stored()


def _is_public(context: RunContext, standing: Classification) -> bool:
    """Return whether any published version holds data of one of these custodians."""
    state = context.world.state
    for ref, _ in state.refs.all(refs.PUBLISHED):
        dataset = refs.parse(ref).dataset
        for version in still_public(state.refs.history(ref)):
            made = state.ledger.version(dataset, version)
            its = made.standing.custodians if made is not None and made.standing is not None else ()
            if set(its) & set(standing.custodians):
                return True
    return False


# -- fingerprints


def _prints(
    key: CustodianKey, table: Columns, policy: MaskingPolicy | None, bound: Prepared | None, resolution: int = ROUGH
) -> Fingerprints:
    """Return the fingerprints of ids and places. A place that the source gives no finer than a public cell is not
    protected: the centre of a county is public knowledge."""
    count = max(map(len, table.values()), default=0)
    pairs = _pairs(table, policy)
    if bound is not None and policy is not None:
        stated = table.get(policy.location.accuracy.column, [None] * count)
        pairs = [
            pair for pair, said in zip(pairs, stated, strict=True) if "mask.accuracy" not in bound.place_of(said).rules
        ]
        resolution = bound.resolution
    shown = policy.columns if policy is not None else {}
    names = [name for name in table if name not in shown and (_is_id(name) or (policy and name == policy.record_id))]
    ids = [str(one).strip() for name in names for one in table.get(name, ()) if isinstance(one, (str, int))]
    texts = [(str(lat).strip(), str(lng).strip()) for lat, lng in pairs if lat is not None and lng is not None]
    withheld = withheld_texts(table, policy, names)
    return Marker(keys.fingerprints(key)).of(ids, texts, finer_than=resolution, texts=withheld)


def withheld_texts(table: Columns, policy: MaskingPolicy | None, ids: Sequence[str]) -> Iterator[str]:
    """Yield the texts of the columns that masking does not publish; `ids` are columns that are recognised anyway."""
    places = () if policy is None else (policy.location.latitude, policy.location.longitude)
    for name, column in table.items():
        if not _is_shown(name, policy) and name not in ids and name not in places:
            yield from (one for one in column if isinstance(one, str))


def _is_shown(name: str, policy: MaskingPolicy | None) -> bool:
    """Return whether masking publishes values of a column; free text only if a person reviewed it."""
    rule = policy.columns.get(name) if policy is not None else None
    return rule is not None and (rule.kind != "text" or bool(rule.reviewed_by))


def _is_id(name: str) -> bool:
    plain = name.lower().replace("_", "").replace(" ", "")
    return plain in _IDS or plain.endswith("id")


def _pairs(table: Columns, policy: MaskingPolicy | None) -> list[tuple[Any, Any]]:
    count = max(map(len, table.values()), default=0)
    nothing: Sequence[Any] = [None] * count
    by_name = {name.lower().replace("_", ""): name for name in table}
    if policy is not None and not policy.location.geometry:
        names: tuple[str, str] | None = (policy.location.latitude, policy.location.longitude)
    else:
        names = next(((by_name[a], by_name[b]) for a, b in _PLACES if a in by_name and b in by_name), None)
    if names is not None:
        return list(zip(table.get(names[0], nothing), table.get(names[1], nothing), strict=True))
    return [_point(one) for one in table.get("geometry", nothing)]


def _point(geometry: Any) -> tuple[Any, Any]:
    at = geometry.get("coordinates") if isinstance(geometry, dict) and geometry.get("type") == "Point" else None
    return (at[1], at[0]) if isinstance(at, list) and len(at) in (2, 3) else (None, None)


# -- rows in, rows out


def columns_of(file: BinaryIO, contract: DataContract, name: str) -> dict[str, list[Any]]:
    """Return the columns of a source that passed its contract."""
    if contract.format == "csv":
        return _of_table(file, layout_of(contract) or Layout(), name)
    found = list(_of_lines(file, name) if contract.format == "ndjson" else _of_features(file, name))
    names = dict.fromkeys(column for row in found for column in row)
    return {column: [row.get(column) for row in found] for column in names}


def _of_table(file: BinaryIO, layout: Layout, name: str) -> dict[str, list[Any]]:
    import csv

    from kfm.validation.text_rows import allow_long_fields

    allow_long_fields()
    with io.TextIOWrapper(file, codec_of(layout.encoding), newline="") as text:
        rows = [row for row in csv.reader(text, delimiter=layout.delimiter) if row]
    names = list(layout.columns) or (rows.pop(0) if rows else [])
    if any(len(row) != len(names) for row in rows) or len(set(names)) != len(names):
        raise _unreadable(name)
    return {column: [row[at] for row in rows] for at, column in enumerate(names)}


def _of_lines(file: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, 1):
        if line := line.strip():
            row = decode(line, f"{name}, line {number}")
            if not isinstance(row, dict):
                raise _unreadable(name)
            yield row


def _of_features(file: BinaryIO, name: str) -> Iterator[dict[str, Any]]:
    from kfm.validation.findings import Unreadable
    from kfm.validation.json_records import ListInJson

    try:
        for number, record in enumerate(ListInJson(file, "features", alone=False).records(), 1):
            one = decode(record, f"{name}, feature {number}")
            if not isinstance(one, dict) or not isinstance(one.get("properties") or {}, dict):
                raise _unreadable(name)
            own = {key: one[key] for key in ("id", "geometry") if key in one}
            yield {**(one.get("properties") or {}), **own}
    except Unreadable as flaw:
        raise BadInput(f"{name}: {flaw.message}") from None


def _unreadable(name: str) -> Refused:
    return Refused(
        f"the rows of source {name} cannot be read for masking",
        hint="a table has one name for each column and as many fields in each row; a record of JSON is an object",
        rule="mask.table",
    )


_OWN = (
    "cell",
    "resolution",
    "georeferenceAccuracy",
    "coordinateUncertaintyInMeters",
    "dataGeneralizations",
    "informationWithheld",
)


def _written(records: list[PublicRecord], bound: Prepared, contract: DataContract) -> bytes:
    if contract.format == "geojson":
        return b'{"type":"FeatureCollection","features":[' + b",".join(map(feature, records)) + b"]}\n"
    rows = [{"id": record.id, **properties(record)} for record in records]
    return _lines(rows, ["id", *bound.names, *_OWN], contract)


def _as_counts(counts: CountTable, policy: MaskingPolicy, contract: DataContract) -> bytes:
    """Return counts in the format of the source."""
    column = count_column(policy)
    rows = rows_of(counts, column)
    if contract.format == "geojson":
        features = b",".join(features_of(rows, column))
        return b'{"type":"FeatureCollection","features":[' + features + b"]}\n"
    return _lines(rows, ["cell", "resolution", column, "count"], contract)


def _lines(rows: list[dict[str, Any]], names: list[str], contract: DataContract) -> bytes:
    if contract.format == "ndjson":
        return b"".join(msgspec.json.encode({name: row[name] for name in names}) + b"\n" for row in rows)
    lines = [line_of(names)]
    lines += [line_of(["" if row[name] is None else str(row[name]) for name in names]) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def _partitions(records: list[PublicRecord], contract: DataContract, name: str, counted: str) -> tuple[str, ...]:
    column = contract.partition_by
    if not column:
        return ()
    if records and column not in ("cell", *([counted] if counted else records[0].attributes)):
        raise Refused(
            f"partition_by of source {name} is not a column that its masking policy publishes",
            hint="name a published column, or `cell`",
            rule="mask.partition",
        )
    found = {record.cell if column == "cell" else record.attributes[column] for record in records}
    return tuple(sorted(found - {""}))
