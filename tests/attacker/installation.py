"""An installation that publishes synthetic tables in three versions, by the command line. This side knows the truth."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kfm.app.stewards.protected_tables import secret_at
from kfm.crypto.custodian_key import CustodianKey
from kfm.engine.protected.protection import public_ids
from kfm.masking.hmac_batch import Keyed
from tests.app.governance.people import make_list
from tests.attacker.public_view import Folder, folder
from tests.attacker.score import Key, Point
from tests.cli.conftest import Answer, Kfm

SAFE = Path("../kept-by-people")
PUBLIC = [Path(name) for name in ("public", "catalog", "keys.json", "docs/reports/audit")]


class Source(Protocol):
    """A protected table in some versions, as a steward has it."""

    @property
    def name(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def resolution(self) -> int: ...

    @property
    def places(self) -> Mapping[str, Point]: ...

    def body(self, version: int) -> str: ...

    def mask(self) -> str: ...


class Publisher:
    """Publishes tables, some of them in each dataset, and keeps what the public saw after each version."""

    def __init__(self, kfm: Kfm, tables: Sequence[Source], per_dataset: int = 10) -> None:
        self.kfm = kfm
        self.tables = tables
        self.datasets = {
            f"part{at // per_dataset}": tables[at : at + per_dataset] for at in range(0, len(tables), per_dataset)
        }
        self.folders: list[Folder] = []
        Path("data").mkdir()
        Path("kfm.yml").write_text(
            "labels: labels.yml\ncustodians: {office: {key: 'env:KFM_SECRET_OFFICE'}}\n"
            "attest: {sign_with: 'file:../kept-by-people/attest.key'}\n"
            "pages: true\npublish: file:public\ncatalog: file:catalog\ndatasets:\n"
            + "".join(self._dataset(name, own) for name, own in self.datasets.items())
        )
        Path("labels.yml").write_text("version: 1\nlabels:\n" + "".join(map(self._label, tables)))
        for table in tables:
            Path(f"{table.name}.yml").write_text(table.mask())

    def _dataset(self, name: str, tables: Sequence[Source]) -> str:
        said = f'  {name}:\n    version: "1.0.0"\n    title: {name}\n    license: CC0-1.0\n'
        said += "    sensitivity: public\n    sources:\n"
        for table in tables:
            record = table.mask().partition("record_id: ")[2].split()[0]
            said += (
                f"      {table.name}: {{uri: {self.path(table)}, format: {table.format}, mask: {table.name}.yml, "
                f"contract: {{columns: [{{name: {record}}}]}}}}\n"
            )
        return said + "    outputs:\n" + "".join(f"      {table.name}: {{from: {table.name}}}\n" for table in tables)

    def path(self, table: Source) -> Path:
        return Path(f"data/{table.name}.{table.format}")

    def _label(self, table: Source) -> str:
        return (
            f"  - {{of: {{source: {self.path(table)}}}, sensitivity: generalised, care: open, custodian: office, "
            f"public_resolution: {table.resolution}}}\n"
        )

    def people(self) -> None:
        """The key list, and a key for attestations, which are public, too."""
        make_list(self.kfm, SAFE, "office")
        words = ("--purpose", "attest", "--out", str(SAFE / "attest.key"), "--key", str(SAFE / "ada.key"))
        done(self.kfm("keys", "new", *words))

    def version(self, number: int) -> None:
        """Publish a version of every table, and keep all public files."""
        for table in self.tables:
            self.path(table).write_text(table.body(number))
        self.publish()

    def publish(self) -> None:
        done(self.kfm("run"))
        for name in self.datasets:
            self.signed("publish", name)
        done(self.kfm("audit", "export"))
        self.folders.append(folder(*(path for path in PUBLIC if path.exists())))

    def signed(self, *words: str) -> None:
        """A command that two stewards must sign."""
        asked = self.kfm(*words, "--reason", "as agreed", "--key", str(SAFE / "olli.key"))
        request = re.search(r"change request ([0-9a-f]{16})", asked.err)
        assert asked.code == 4 and request, asked
        for person in ("sue", "sam"):
            done(self.kfm("review", "approve", request[1], "--key", str(SAFE / f"{person}.key")))

    def public_ids(self) -> dict[Key, str]:
        """The id in the source of each public row. Only the custodian's key leads from one to the other."""
        out: dict[Key, str] = {}
        secret = public_ids(CustodianKey(secret_at("env:KFM_SECRET_OFFICE", os.environ)))
        for dataset, tables in self.datasets.items():
            for table in tables:
                name = table.name.encode()
                keyed = Keyed(secret, b"kfm:public-id:1\0" + len(name).to_bytes(4, "big") + name)
                for id in table.places:
                    out[f"{dataset}/{table.name}", keyed.digest(id.encode())[:16].hex()] = id
        return out

    def truth(self) -> dict[Key, Point]:
        """The place of each public row."""
        places = {table.name: table.places for table in self.tables}
        return {key: places[key[0].partition("/")[2]][id] for key, id in self.public_ids().items()}


def done(answer: Answer) -> None:
    assert answer.code == 0, answer.err[:500]
