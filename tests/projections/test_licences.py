"""For every declared licence, the exported metadata is valid in each format that has licences."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
import rdflib
from rdflib.term import _is_valid_uri
from stac_validator.validate import StacValidate

from kfm.model.canonical import canonical
from kfm.projections import dcat, stac
from kfm.projections.dataset_pages import DatasetPage, dataset_page
from tests.projections import samples
from tests.projections.extracting import PLACES

LICENCES = {
    "CC0-1.0": "https://spdx.org/licenses/CC0-1.0",
    "GPL-2.0+": "https://spdx.org/licenses/GPL-2.0+",
    "https://example.org/terms": "https://example.org/terms",
    "https://example.org/our terms": "https://example.org/our%20terms",
    "Public domain (17 U.S.C. 105)": "kfm://licence/Public%20domain%20%2817%20U.S.C.%20105%29",
    'as the office says: "yes"|no': "kfm://licence/as%20the%20office%20says%3A%20%22yes%22%7Cno",
    "Lizenz für alle": "kfm://licence/Lizenz%20f%C3%BCr%20alle",
}


@pytest.mark.parametrize(("declared", "iri"), LICENCES.items())
def test_a_licence_is_written_so_that_other_tools_can_read_it(declared: str, iri: str, tmp_path: Path) -> None:
    version = samples.version(samples.run(metadata={**samples.METADATA, "license": declared}))
    collection = stac.collection(version, [("ks",)], PLACES)
    (tmp_path / "collection.json").write_bytes(canonical(collection))
    checked = StacValidate(str(tmp_path / "collection.json"), schema_map=samples.schema_files(tmp_path))
    assert checked.run(), checked.message
    links = [link["href"] for link in collection["links"] if link["rel"] == "license"]
    assert (collection["license"], links) == ((declared, []) if "spdx" in iri else ("other", [iri]))
    document = dcat.to_bytes(dcat.catalog([version], PLACES))
    graph = rdflib.Graph().parse(data=document, format="json-ld", publicID="file:///catalog/")
    assert {str(one) for one in graph.objects(None, rdflib.DCTERMS.license)} == {iri}
    assert _is_valid_uri(iri)


def test_a_custom_licence_is_shown_with_its_text(tmp_path: Path) -> None:
    said = {
        **samples.METADATA,
        "license": "LicenseRef-house",
        "license_text": "Name the house,\nand pass it on: 100%.",
    }
    version = samples.version(samples.run(metadata=said))
    collection = stac.collection(version, [("ks",)], PLACES)
    (tmp_path / "collection.json").write_bytes(canonical(collection))
    checked = StacValidate(str(tmp_path / "collection.json"), schema_map=samples.schema_files(tmp_path))
    assert checked.run(), checked.message
    link = next(link for link in collection["links"] if link["rel"] == "license")
    assert collection["license"] == "other" and link["title"] == "LicenseRef-house"
    assert unquote(link["href"]) == f"data:text/plain;charset=utf-8,{said['license_text']}"
    assert "Name the house,<br>and pass it on" in dataset_page(DatasetPage(version), PLACES).decode()
