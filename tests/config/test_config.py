"""kfm.yml: the settings it gives, and one clear line for every mistake in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from kfm import config, errors
from kfm.model import redaction
from kfm.model.records import DataContract
from kfm.parsing import documents, environment, record_shape
from tests.sampling import tries

GOOD = """\
kfm: 1
state: sqlite:state/kfm.db
network: {allow: ["127.0.0.1:8931"], timeout_s: 30}
execute: {threads: 2}
datasets:
  noaa-stations:
    updater: updaters/stations.py:Stations
    title: NO
    license: CC0-1.0
    sensitivity: public
    extent: {bbox: [-102.05, 36.99, -94.58, 40], interval: ["2026-01-01T00:00:00Z", null]}
    sources:
      stations: {uri: "http://127.0.0.1:8931/stations.csv", format: csv, complete: true}
"""

TAIL = "datasets: {a: {updater: u.py:U}}\n"
SOURCE = "datasets: {a: {updater: u.py:U, sources: {s: %s}}}\n"


def write(folder: Path, text: str | bytes, name: str = "kfm.yml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def load(folder: Path, text: str | bytes, env: dict[str, str] | None = None, name: str = "kfm.yml") -> config.Resolved:
    return config.load(write(folder, text, name), env or {})


# ------------------------------------------------------------------------------------------- good


def test_a_file_gives_typed_settings_and_defaults_for_the_rest(tmp_path: Path) -> None:
    resolved = load(tmp_path, GOOD)
    assert resolved.config.execute.threads == 2
    assert resolved.config.execute.window == config.ExecuteConfig().window
    assert resolved.config.network.allow == ("127.0.0.1:8931",)
    assert resolved.config.datasets["noaa-stations"].sources["stations"].complete is True
    assert resolved.root == str(tmp_path)
    assert resolved.path == str(tmp_path / "kfm.yml")


def test_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    resolved = load(tmp_path, GOOD)
    assert resolved.location("sqlite:state/kfm.db") == ("sqlite", str(tmp_path / "state/kfm.db"))
    assert resolved.location("sqlite:///srv/kfm.db") == ("sqlite", "/srv/kfm.db")
    assert resolved.location("sqlite:/srv/kfm.db") == ("sqlite", "/srv/kfm.db")
    assert resolved.location("memory:") == resolved.location("memory") == ("memory", "")


def test_yaml_words_of_version_1_1_stay_text(tmp_path: Path) -> None:
    words = {"NO": "NO", "on": "on", "12:30": "12:30", "2026-01-01": "2026-01-01", "1_000": "1_000", "0b1": "0b1"}
    for typed, read in words.items():
        text = f"datasets: {{a: {{updater: u.py:U, title: {typed}}}}}"
        assert load(tmp_path, text).config.datasets["a"].title == read


def test_numbers_are_read_as_yaml_1_2_writes_them(tmp_path: Path) -> None:
    for typed, read in {"0x10": 16, "0o17": 15, "+7": 7, "64": 64}.items():
        assert load(tmp_path, f"execute: {{threads: {typed}}}\n{TAIL}").config.execute.threads == read
    assert load(tmp_path, f"deletion_budget: 1e-1\n{TAIL}").config.deletion_budget == 0.1
    assert load(tmp_path, f"deletion_budget: .5\n{TAIL}").config.deletion_budget == 0.5


def test_json_and_yaml_of_the_same_settings_are_the_same(tmp_path: Path) -> None:
    yaml_read = load(tmp_path, GOOD)
    as_json = json.dumps(documents.read(GOOD.encode(), "x", json=False).value)
    assert load(tmp_path, as_json, name="kfm.json").config == yaml_read.config


def test_a_byte_order_mark_at_the_start_is_no_harm(tmp_path: Path) -> None:
    assert load(tmp_path, b"\xef\xbb\xbf" + GOOD.encode()).config == load(tmp_path, GOOD).config
    assert load(tmp_path, b'\xef\xbb\xbf{"datasets": {}}', name="kfm.json").config.datasets == {}


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD.replace("\n", "\r\n")).config == load(tmp_path, GOOD).config


def test_the_environment_goes_over_the_file_and_is_typed(tmp_path: Path) -> None:
    env = {
        "KFM_STATE": "memory:",
        "KFM_EXECUTE__THREADS": "7",
        "KFM_DELETION_BUDGET": "0.25",
        "KFM_NETWORK__ALLOW": "a.example, b.example:8080",
        "KFM_DATASETS__NOAA_STATIONS__LICENSE": "MIT",
        "KFM_DATASETS__NOAA_STATIONS__SOURCES__STATIONS__COMPLETE": "false",
        "KFM_NOW": "2026-01-01T00:00:00Z",
        "HOME": "/root",
    }
    resolved = load(tmp_path, GOOD, env)
    assert resolved.config.state == "memory:"
    assert resolved.config.execute.threads == 7
    assert resolved.config.deletion_budget == 0.25
    assert resolved.config.network.allow == ("a.example", "b.example:8080")
    assert resolved.config.datasets["noaa-stations"].license == "MIT"
    assert resolved.config.datasets["noaa-stations"].sources["stations"].complete is False
    assert resolved.origins["state"] == "env KFM_STATE"
    assert resolved.origins["datasets.noaa-stations.license"] == "env KFM_DATASETS__NOAA_STATIONS__LICENSE"


def settings_of(info: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every setting there is, by the names that lead to it, as the library describes it when it is asked for all."""
    info = record_shape.bare(info)
    if isinstance(info, inspect.StructType):
        for field in info.fields:
            if before or field.encode_name not in ("kfm", "$schema"):
                yield from settings_of(field.type, (*before, field.encode_name))
    elif isinstance(info, inspect.DictType):
        yield from settings_of(info.value_type, (*before, "wells"))
    else:
        yield before, info


def test_the_environment_finds_each_setting_without_a_look_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """To describe all of the settings takes as long as the rest of a start."""
    found = list(settings_of(record_shape.described(config.Config)))
    monkeypatch.setattr(record_shape, "described", None)
    assert len(found) > 100 and {len(path) for path, _ in found} >= {1, 2, 3, 4}
    for path, info in found:
        value: dict[str, Any] = {"wells": {}} if "wells" in path[-1:] else {}
        for name in reversed(path[:-1]):
            value = {name: value}
        many = isinstance(info, inspect.VarTupleType | inspect.ListType)
        one = record_shape.bare(info.item_type) if many else info
        number = isinstance(one, inspect.IntType | inspect.FloatType | inspect.BoolType)
        text, kept = "7", 7 if number or (isinstance(one, inspect.LiteralType) and 1 in one.values) else "7"
        kept = [kept] if many else kept
        document = documents.Document(value, "kfm.yml", lambda _: None)
        environment.apply(document, config.Config, "KFM_" + "__".join(path).upper(), text)
        here: Any = value
        for name in path:
            here = here[name]
        assert here == kept, path


def test_a_section_the_file_lacks_can_come_from_the_environment(tmp_path: Path) -> None:
    resolved = load(tmp_path, TAIL, {"KFM_EXECUTE__LEASE_S": "0.5", "KFM_NETWORK__ALLOW": '["a:1"]'})
    assert resolved.config.execute.lease_s == 0.5
    assert resolved.config.network.allow == ("a:1",)


def test_each_value_knows_where_it_came_from(tmp_path: Path) -> None:
    origins = load(tmp_path, GOOD).origins
    assert origins["execute.threads"] == "file"
    assert origins["execute.window"] == "default"
    assert origins["datasets.noaa-stations.sources.stations.uri"] == "file"
    assert origins["datasets.noaa-stations.sources.stations.contract.delimiter"] == "default"


def test_the_nearest_file_upward_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, GOOD)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert config.load(None, {}).root == str(tmp_path)


@pytest.mark.parametrize("name", config.FILE_NAMES)
def test_a_link_that_leads_nowhere_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(tmp_path, GOOD)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "a" / name).symlink_to("nothing")
    monkeypatch.chdir(deep)
    with pytest.raises(errors.BadInput, match=rf"^\.\./{name} is a broken link; repair or remove it"):
        config.load(None, {})
    (tmp_path / "a" / name).unlink()
    (tmp_path / "a" / name).symlink_to(name)
    with pytest.raises(errors.BadInput, match="is a broken link"):
        config.load(None, {})


def test_kfm_config_names_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "other.yml")
    assert config.load(None, {"KFM_CONFIG": path}).path == path


def test_what_is_shown_holds_no_secret(tmp_path: Path) -> None:
    uri = "https://example.org/a.csv?token=CANARY&year=2026&X-Amz-Signature=CANARY"
    with pytest.raises(errors.BadInput, match="holds a key in clear") as caught:
        load(tmp_path, SOURCE % json.dumps({"uri": uri}))
    assert "CANARY" not in str(caught.value)
    assert redaction.redacted_url(uri) == "https://example.org/a.csv?token=***&year=2026&X-Amz-Signature=***"
    assert redaction.redacted_url("https://bob:CANARY@example.org/x") == "https://***@example.org/x"
    assert redaction.redacted({"api_token": "CANARY", "secret": "env:NAME"}) == {
        "api_token": "***",
        "secret": "env:NAME",
    }


def test_the_format_of_a_source_is_part_of_its_contract(tmp_path: Path) -> None:
    source = load(tmp_path, GOOD).config.datasets["noaa-stations"].sources["stations"]
    assert source.data_contract() == DataContract(format="csv")


def test_metadata_is_what_was_said_and_only_that(tmp_path: Path) -> None:
    metadata = load(tmp_path, GOOD).config.datasets["noaa-stations"].metadata()
    assert metadata == {
        "title": "NO",
        "license": "CC0-1.0",
        "sensitivity": "public",
        "extent": {"bbox": [-102.05, 36.99, -94.58, 40.0], "interval": ["2026-01-01T00:00:00Z", None]},
    }
    assert load(tmp_path, TAIL).config.datasets["a"].metadata() == {}


def test_the_schema_agrees_with_the_loader() -> None:
    schema = config.json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    good = documents.read(GOOD.encode(), "x", json=False).value
    validator.validate(good)
    wrong: list[Any] = [{**good, "extra": 1}, {"kfm": 1}, {**good, "execute": {"threads": 0}}, {"datasets": {"A": {}}}]
    for bad in wrong:
        assert not validator.is_valid(bad)


# -------------------------------------------------------------------------------------------- bad


def nested(opening: str, closing: str, depth: int) -> str:
    return opening * depth + closing * depth


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)

Cases = dict[str, tuple[str | bytes, tuple[str, ...]]]

# (what is written, parts of the one line that must come back)
YAML_CASES: Cases = {
    "alias bomb": (BOMB, ("kfm.yml:1:4", "aliases")),
    "one alias": ("state: *x\n" + TAIL, ("kfm.yml:1:8", "aliases")),
    "an anchor alone": ("state: &x memory\n" + TAIL, ("kfm.yml:1:8", "anchors")),
    "an alias as key": ("*x : 1\n" + TAIL, ("kfm.yml:1:1", "aliases")),
    "merge key": ("execute:\n  <<: {threads: 1}\n" + TAIL, ("kfm.yml:2:3", "merge keys")),
    "duplicate key": ("state: memory\nstate: memory\n" + TAIL, ("kfm.yml:2:1", "'state' is given twice")),
    "duplicate dataset": ("datasets:\n  a: {updater: u.py:U}\n  a: {updater: u.py:U}\n", ("kfm.yml:3:3", "twice")),
    "python object": ("state: !!python/object/apply:os.system [ls]\n", ("kfm.yml:1:8", "tags")),
    "a tag of one's own": ("state: !x memory\n", ("kfm.yml:1:8", "tags")),
    "a standard tag": ("kfm: !!str 1\n", ("kfm.yml:1:6", "tags")),
    "a tag on a key": ("!!str kfm: 1\n", ("kfm.yml:1:1", "tags")),
    "deep brackets": ("a: " + nested("[", "]", 100_000), ("kfm.yml:1:", "nested deeper than 50")),
    "deep braces": ("a: " + nested("{a: ", "}", 100_000), ("nested deeper than 50",)),
    "deep dashes": ("- " * 100_000, ("nested deeper than 50",)),
    "deep indentation": ("".join(" " * i + "a:\n" for i in range(1500)), ("kfm.yml:51:51", "nested deeper than 50")),
    "never closed": ("[" * 100_000, ("nested deeper than 50",)),
    "two documents": (TAIL + "---\n" + TAIL, ("kfm.yml:2:1", "second document")),
    "a directive": ("%YAML 1.1\n---\n" + TAIL, ("kfm.yml:1:1", "directive")),
    "an issuer without TLS": (
        "sign_in: {issuer: http://login.example.org, client_id: kfm}\n" + TAIL,
        ("sign_in.issuer", "is not encrypted"),
    ),
    "a client without a provider": ("sign_in: {client_id: kfm}\n" + TAIL, ("sign_in.issuer", "is not an address")),
    "a provider without a client": (
        "sign_in: {issuer: https://login.example.org}\n" + TAIL,
        ("sign_in.client_id", "is not the name of a client"),
    ),
    "a client's secret in clear": (
        "sign_in: {issuer: https://login.example.org, client_id: kfm, client_secret: CANARY}\n" + TAIL,
        ("sign_in.client_secret", "is not a reference"),
    ),
    "scopes without openid": (
        "sign_in: {issuer: https://login.example.org, client_id: kfm, scopes: [email]}\n" + TAIL,
        ("sign_in.scopes", "are not scopes with openid"),
    ),
    "a tab": ("execute:\n\tthreads: 1\n", ("kfm.yml:2:1", "not YAML", "tabs")),
    "NUL": (b"state: a\x00b\n", ("kfm.yml:1:9", "U+0000")),
    "an escape": (b"state: a\x1b[31m\n", ("kfm.yml:1:9", "U+001B")),
    "a line separator": ("state: a\u2028b\n", ("kfm.yml:1:9", "U+2028")),
    "a mark in the middle": ("state: a\ufeffb\n", ("kfm.yml:1:9", "U+FEFF")),
    "not UTF-8": (b"kfm: 1\nstate: \xff\xfe\n", ("kfm.yml:2:8", "not UTF-8")),
    "UTF-16": ("kfm: 1\n".encode("utf-16"), ("kfm.yml is UTF-16", "save it as UTF-8")),
    "empty": ("", ("kfm.yml:1:1", "empty")),
    "only a comment": ("# nothing\n", ("empty",)),
    "a list": ("- a\n", ("must be a mapping, found a list",)),
    "a word": ("hello\n", ("must be a mapping, found text",)),
    "a null": ("~\n", ("must be a mapping, found nothing",)),
    "an unclosed quote": ('state: "memory:\n', ("not YAML",)),
    "an unclosed bracket": ("datasets: {a: [\n", ("not YAML",)),
    "two colons": ("state: a: b\n", ("kfm.yml:1:9", "not YAML", "mapping values")),
    "bad indentation": ("execute:\n   threads: 1\n  window: 2\n", ("kfm.yml:3:", "not YAML")),
    "a number as key": ("1: a\n", ("kfm.yml:1:1", "a key must be text, found an integer")),
    "true as key": ("true: a\n", ("a key must be text, found true or false",)),
    "null as key": ("~: a\n", ("a key must be text, found nothing",)),
    "a list as key": ("[a]: b\n", ("kfm.yml:1:1", "a key must be text")),
    "a mapping as key": ("? {a: b}\n: c\n", ("a key must be text",)),
    "infinity": ("deletion_budget: .inf\n" + TAIL, ("kfm.yml:1:18", "infinity")),
    "NaN": ("deletion_budget: .NaN\n" + TAIL, ("kfm.yml:1:18", "NaN")),
    "a number without end": ("deletion_budget: 1e999\n" + TAIL, ("too large for a double",)),
    "a huge integer": ("execute: {threads: " + "9" * 100_000 + "}\n" + TAIL, ("kfm.yml:1:20", "larger than 2^53")),
    "a huge hexadecimal": ("execute: {threads: 0xffffffffffffffffff}\n" + TAIL, ("larger than 2^53",)),
    "octal": ("execute: {threads: 010}\n" + TAIL, ("kfm.yml:1:20", "leading zero")),
    "too large": ("#" * (4 << 20) + "\n" + TAIL, ("larger than 4 MiB",)),
    "too many values": ("a: [" + "1," * 200_000 + "]", ("more than 100000 values",)),
    # keys
    "unknown key": ("kfm: 1\nstat: memory\n" + TAIL, ("kfm.yml:2:1", "unknown key stat", "did you mean state?")),
    "unknown nested key": (
        "execute:\n  treads: 1\n" + TAIL,
        ("kfm.yml:2:3", "execute.treads", "did you mean threads?"),
    ),
    "unknown key of a source": (
        SOURCE % "{uri: a, formt: csv}",
        ("datasets.a.sources.s.formt", "did you mean format?"),
    ),
    "a key like nothing": ("zzzzqq: 1\n" + TAIL, ("unknown key zzzzqq", "known here:")),
    "a hostile key": ('"a\\nb\\e[31m": 1\n' + TAIL, ("unknown key ['a\\u000ab\\u001b[31m']",)),
    "the first wrong key is told": ("execute: {a: 1}\nnetwork: {b: 2}\n" + TAIL, ("unknown key execute.a",)),
    "a misspelled key before a missing one": ("dataset: {}\n", ("unknown key dataset;", "did you mean datasets?")),
    "no datasets": ("kfm: 1\n", ("datasets is missing",)),
    "no updater": ("datasets: {a: {title: x}}\n", ("datasets.a has neither an updater nor outputs",)),
    "no uri": (SOURCE % "{format: csv}", ("datasets.a.sources.s needs one of uri and dataset",)),
    # types
    "text for a number": ('execute: {threads: "4"}\n' + TAIL, ("execute.threads: expected an integer, found text",)),
    "units": ("network: {timeout_s: 30s}\n" + TAIL, ("network.timeout_s: expected a number, found text", "units")),
    "a number for text": ("state: 5\n" + TAIL, ("state: expected text, found an integer", "quotes")),
    "a fraction of a thread": ("execute: {threads: 1.5}\n" + TAIL, ("expected an integer, found a number",)),
    "true for a number": ("execute: {threads: true}\n" + TAIL, ("expected an integer, found true or false",)),
    "yes for true": (
        SOURCE % "{uri: a, complete: yes}",
        ("complete: expected true or false, found text", "write true"),
    ),
    "nothing for text": ("state:\n" + TAIL, ("kfm.yml:1:1", "state: expected text, found nothing")),
    "nothing for a section": ("execute:\n" + TAIL, ("execute: expected a mapping, found nothing",)),
    "a list for a section": ("execute: []\n" + TAIL, ("execute: expected a mapping, found a list",)),
    "a list of datasets": ("datasets: [a]\n", ("datasets: expected a mapping, found a list",)),
    "text for a dataset": ("datasets: {a: b}\n", ("datasets.a: expected a mapping, found text",)),
    "text for a list": ("network: {allow: a}\n" + TAIL, ("network.allow: expected a list, found text",)),
    "an item of the wrong type": (
        "network: {allow: [a, 5]}\n" + TAIL,
        ("kfm.yml:1:22", "network.allow[1]: expected text"),
    ),
    "no threads": ("execute: {threads: 0}\n" + TAIL, ("execute.threads must be at least 1 and at most 64",)),
    "too many threads": ("execute: {threads: 65}\n" + TAIL, ("execute.threads must be",)),
    "no time": ("network: {timeout_s: 0}\n" + TAIL, ("network.timeout_s must be more than 0",)),
    "a budget above all": ("deletion_budget: 1.1\n" + TAIL, ("deletion_budget must be at least 0 and at most 1",)),
    "a newer format": ("kfm: 2\n" + TAIL, ("kfm.yml:1:1", "newer format")),
    "a format that is no number": ("kfm: one\n" + TAIL, ("kfm must be one of 1",)),
    "an unknown sensitivity": (
        "datasets: {a: {updater: u.py:U, sensitivity: secret}}",
        ("is not one of closed, generalised, public, restricted",),
    ),
    "an unknown file format": (SOURCE % "{uri: a, format: xls}", ("format is not one of bytes, csv, flatgeobuf",)),
    "an unknown column mode": (
        SOURCE % "{uri: a, contract: {columns: [{name: x, mode: drop}]}}",
        ("contract.columns[0].mode is not one of discard-row, discard-value",),
    ),
    "a column without a name": (
        SOURCE % "{uri: a, contract: {columns: [{type: text}]}}",
        ("columns[0].name is missing",),
    ),
    # meanings
    "an unknown store": ("state: mysql:x\n" + TAIL, ("kfm.yml:1:1", "state is not a storage location", "sqlite:PATH")),
    "a bare path as store": ("state: kfm.db\n" + TAIL, ("state is not a storage location",)),
    "a store without a path": ('state: "sqlite:"\n' + TAIL, ("state has no usable path",)),
    "a store on a host": ("state: sqlite://host/x\n" + TAIL, ("state has no usable path",)),
    "text after memory": ("state: memory:x\n" + TAIL, ("state has text after memory:",)),
    "objects in memory": ('objects: "memory:"\n' + TAIL, ("objects is not a storage location",)),
    "publish to anywhere": ("publish: ftp://host/x\n" + TAIL, ("publish is not a storage location",)),
    "a control character in a path": ('artifacts: "a\\nb"\n' + TAIL, ("artifacts holds a control character",)),
    "a dataset in capitals": ("datasets: {NOAA: {updater: u.py:U}}", ("dataset 'NOAA' is not a valid name",)),
    "a dataset that climbs": ("datasets: {../x: {updater: u.py:U}}", ("dataset '../x' is not a valid name",)),
    "a dataset of a device": ("datasets: {con: {updater: u.py:U}}", ("dataset 'con' is not a valid name",)),
    "a dataset called like the switch over all": (
        "datasets: {global: {updater: u.py:U}}",
        ("kfm.yml:1:12", "datasets.global is the name of the freeze flag over all datasets; choose another name"),
    ),
    "a dataset with a newline": (
        'datasets: {"a\\nb": {updater: u.py:U}}',
        ("dataset 'a\\u000ab' is not a valid name",),
    ),
    "a dataset without a name": ('datasets: {"": {updater: u.py:U}}', ("is not a valid name",)),
    "an updater without a class": ("datasets: {a: {updater: u.py}}", ("datasets.a.updater does not name an updater",)),
    "an updater that is code": ('datasets: {a: {updater: "u.py:__import__(1)"}}', ("does not name an updater",)),
    "an updater of no kind": ("datasets: {a: {updater: 'a b:C'}}", ("does not name an updater",)),
    "a host with a path": ("network: {allow: [a/b]}\n" + TAIL, ("network.allow[0] is not a host",)),
    "a host with a newline": ('network: {allow: ["a\\n"]}\n' + TAIL, ("network.allow[0] is not a host",)),
    "a source of another kind": (SOURCE % "{uri: ftp://a/b}", ("has a scheme that this version cannot read",)),
    "a password in a URL": (SOURCE % '{uri: "http://u:CANARY@h/"}', ("holds a user name or password",)),
    "a newline in a URL": (SOURCE % '{uri: "http://h/\\r\\nX: y"}', ("control character",)),
    "no digest": (SOURCE % "{uri: a, expect_hash: abc}", ("expect_hash is not a digest",)),
    "two formats": (SOURCE % "{uri: a, format: csv, contract: {format: json}}", ("contract.format differ",)),
    "an unknown encoding": (SOURCE % "{uri: a, contract: {encoding: klingon}}", ("encoding is not an encoding",)),
    "a long delimiter": (SOURCE % '{uri: a, contract: {delimiter: "::"}}', ("delimiter must be one character",)),
    "a bad pattern": (
        SOURCE % '{uri: a, contract: {columns: [{name: x, pattern: "("}]}}',
        ("not a regular expression",),
    ),
    "a column twice": (SOURCE % "{uri: a, contract: {columns: [{name: x}, {name: x}]}}", ("columns[1].name", "twice")),
    "a box of three": ("datasets: {a: {updater: u.py:U, extent: {bbox: [1,2,3]}}}", ("four numbers",)),
    "a box off the globe": ("datasets: {a: {updater: u.py:U, extent: {bbox: [1,2,3,400]}}}", ("not on the globe",)),
    "an interval of one": ("datasets: {a: {updater: u.py:U, extent: {interval: [null]}}}", ("two instants",)),
    "an interval of words": ("datasets: {a: {updater: u.py:U, extent: {interval: [x, y]}}}", ("not an instant",)),
}

JSON_CASES: Cases = {
    "not JSON": ("{", ("kfm.json", "not JSON", "line 1, column 2")),
    "a comment": ("{} // x", ("not JSON",)),
    "a trailing comma": ('{"datasets": {},}', ("not JSON",)),
    "duplicate keys": ('{"datasets": {}, "datasets": {}}', ("kfm.json", "twice")),
    "deep": (nested("[", "]", 100_000), ("kfm.json", "nested deeper")),
    "rather deep": ('{"a":' * 60 + "1" + "}" * 60, ("kfm.json", "nested deeper than 50")),
    "NaN": ('{"datasets": {}, "deletion_budget": NaN}', ("kfm.json", "NaN")),
    "a huge integer": ('{"datasets": {}, "execute": {"threads": 1' + "0" * 100_000 + "}}", ("2^53",)),
    "half a character": ('{"datasets": {}, "state": "\\ud800"}', ("surrogate",)),
    "not UTF-8": (b'{"state": "\xff"}', ("kfm.json:1:12", "not UTF-8")),
    "too many values": ("[" + "1," * 200_000 + "1]", ("more than 100000 values",)),
    "a list": ("[]", ("must be a mapping, found a list",)),
    "unknown key": ('{\n  "datasets": {},\n  "stat": 1}', ("kfm.json:3:3", "unknown key stat", "did you mean state?")),
    "unknown nested key": (
        '{"datasets": {},\n "network": {"allow": ["a", "b"],\n  "x\\"y": [1, {"z": null}], "timeout": 5}}',
        ("kfm.json:3:3", "unknown key network['x\"y']"),
    ),
    "a wrong type in a list": (
        '{"datasets": {}, "network": {"allow": ["a",\n  5]}}',
        ("kfm.json:2:3", "allow[1]: expected text"),
    ),
}

ENV_CASES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "an unknown name": ({"KFM_STAT": "x"}, ("KFM_STAT is not a setting", "did you mean KFM_STATE?")),
    "an unknown nested name": ({"KFM_EXECUTE__TREADS": "1"}, ("not a setting", "did you mean KFM_EXECUTE__THREADS?")),
    "a name like nothing": ({"KFM_ZZZZ": "1"}, ("KFM_ZZZZ is not a setting", "unset it")),
    "no name": ({"KFM_": "1"}, ("KFM_ is not a setting",)),
    "a name below a value": ({"KFM_STATE__X": "1"}, ("KFM_STATE__X is not a setting",)),
    "a section": ({"KFM_EXECUTE": "1"}, ("names a whole section", "KFM_EXECUTE__THREADS")),
    "all datasets": ({"KFM_DATASETS": "{}"}, ("names a whole section",)),
    "an unknown dataset": ({"KFM_DATASETS__B__TITLE": "x"}, ("is not a setting",)),
    "the format version": ({"KFM_KFM": "1"}, ("KFM_KFM is not a setting",)),
    "text for a number": (
        {"KFM_EXECUTE__THREADS": "many"},
        ("KFM_EXECUTE__THREADS: ", "expected an integer, found text"),
    ),
    "out of range": ({"KFM_EXECUTE__THREADS": "0"}, ("KFM_EXECUTE__THREADS: execute.threads must be at least 1",)),
    "an unknown store": ({"KFM_STATE": "mysql:x"}, ("KFM_STATE: state is not a storage location",)),
    "a bad list": ({"KFM_NETWORK__ALLOW": "[a"}, ("KFM_NETWORK__ALLOW", "not YAML")),
    "a control character": ({"KFM_STATE": "sqlite:a\nb"}, ("KFM_STATE", "control character")),
}


def one_line(error: errors.BadInput) -> str:
    line = str(error)
    assert line.isprintable(), "a message is one line without control characters"
    assert len(line) < 600
    assert error.exit_code == 3
    return line


@pytest.mark.parametrize("case", YAML_CASES)
def test_wrong_yaml_gets_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    text, parts = YAML_CASES[case]
    write(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.BadInput) as caught:
        config.load("kfm.yml", {})
    line = one_line(caught.value)
    for part in parts:
        assert part in line
    assert "CANARY" not in line


@pytest.mark.parametrize("case", JSON_CASES)
def test_wrong_json_gets_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    text, parts = JSON_CASES[case]
    write(tmp_path, text, "kfm.json")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.BadInput) as caught:
        config.load("kfm.json", {})
    for part in parts:
        assert part in one_line(caught.value)


@pytest.mark.parametrize("case", ENV_CASES)
def test_wrong_environment_gets_one_clear_line(tmp_path: Path, case: str) -> None:
    env, parts = ENV_CASES[case]
    with pytest.raises(errors.BadInput) as caught:
        load(tmp_path, TAIL, env)
    for part in parts:
        assert part in one_line(caught.value)


def test_two_datasets_that_one_variable_could_mean_are_not_guessed(tmp_path: Path) -> None:
    text = "datasets: {a-b: {updater: u.py:U}, a_b: {updater: u.py:U}}"
    with pytest.raises(errors.BadInput, match="could mean 2 different keys"):
        load(tmp_path, text, {"KFM_DATASETS__A_B__TITLE": "x"})


def test_what_is_not_a_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.yml")
    (tmp_path / "folder.yml").mkdir()
    (tmp_path / "loop.yml").symlink_to("loop.yml")
    for name, part in {
        "pipe.yml": "is not a file",
        "folder.yml": "is not a file",
        "loop.yml": "cannot be read",
        "none.yml": "does not exist",
        "kfm.yml/x": "does not exist",
        "a\x00b": "cannot be read",
        "a\nb": "does not exist",
        "x" * 5000: "cannot be read",
    }.items():
        with pytest.raises(errors.BadInput) as caught:
            config.load(os.path.join(tmp_path, name), {})
        assert part in one_line(caught.value)
    with pytest.raises(errors.BadInput, match="is not a file"):
        config.load("/dev/zero", {})


def test_no_file_anywhere_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.BadInput, match=r"no kfm.yml here or in a folder above; .*kfm init"):
        config.load(None, {})


def test_two_files_side_by_side_are_not_guessed_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, "{}", "kfm.json")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.BadInput, match="are both here"):
        config.load(None, {})


@settings(max_examples=tries(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_done_to_a_good_file_it_loads_or_gives_one_line(tmp_path: Path, data: st.DataObject) -> None:
    body = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        cut = data.draw(st.integers(0, 6))
        marks = st.sampled_from([b"{", b"[", b"&a ", b"*a", b"!!", b": ", b"\n- "])
        put = data.draw(st.one_of(st.binary(max_size=4), marks))
        body[at : at + cut] = put
    try:
        load(tmp_path, bytes(body))
    except errors.BadInput as error:
        one_line(error)
