"""Protected data in an archive, labelled by its address or its bytes: no file of the installation shows any of it."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import dataset, hits, installation, label, labels, table


def packed() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("sites.csv"), table())
    return out.getvalue()


def laid_out(sensitivity: str) -> None:
    Path("sites.zip").write_bytes(packed())
    Path("sites.csv").unlink()
    installation(dataset("sites", "sites.zip", more="        member: sites.csv\n", sensitivity=sensitivity))


def test_a_label_on_the_address_of_an_archive_seals_what_is_taken_out_of_it(site: Kfm) -> None:
    labels(label("source: sites.zip", "restricted"))
    laid_out("public")
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    Path("sites.zip").unlink()
    assert hits() == []
    assert site("promote", "sites").code == 4


def test_a_label_on_the_bytes_of_what_is_in_it_holds(site: Kfm) -> None:
    labels(label(f"bytes: 'sha256:{hashlib.sha256(table().encode()).hexdigest()}'", "restricted"))
    laid_out("public")
    assert site("run", "sites").code == 0
    Path("sites.zip").unlink()
    assert hits() == []
    assert site("promote", "sites").code == 4


def test_an_archive_whose_own_bytes_have_a_label_is_not_unpacked(site: Kfm) -> None:
    labels(label(f"bytes: 'sha256:{hashlib.sha256(packed()).hexdigest()}'", "restricted"))
    laid_out("public")
    ran = site("run", "sites")
    assert ran.code == 4, ran.err
    assert "an archive whose bytes have a label" in ran.err
    Path("sites.zip").unlink()
    assert hits() == []
