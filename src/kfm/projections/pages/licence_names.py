"""The names of licences that people know, and where their texts are. Pure."""

from __future__ import annotations

_KNOWN = {
    "CC0-1.0": ("Creative Commons Zero 1.0 (public domain)", "https://creativecommons.org/publicdomain/zero/1.0/"),
    "CC-PDM-1.0": ("Public Domain Mark 1.0", "https://creativecommons.org/publicdomain/mark/1.0/"),
    "CC-BY-3.0": ("Creative Commons Attribution 3.0", "https://creativecommons.org/licenses/by/3.0/"),
    "CC-BY-4.0": ("Creative Commons Attribution 4.0", "https://creativecommons.org/licenses/by/4.0/"),
    "CC-BY-SA-4.0": (
        "Creative Commons Attribution-ShareAlike 4.0", "https://creativecommons.org/licenses/by-sa/4.0/",
    ),
    "CC-BY-NC-4.0": (
        "Creative Commons Attribution-NonCommercial 4.0", "https://creativecommons.org/licenses/by-nc/4.0/",
    ),
    "ODbL-1.0": ("Open Database License 1.0", "https://opendatacommons.org/licenses/odbl/1-0/"),
    "ODC-By-1.0": ("Open Data Commons Attribution 1.0", "https://opendatacommons.org/licenses/by/1-0/"),
    "PDDL-1.0": ("Public Domain Dedication and License 1.0", "https://opendatacommons.org/licenses/pddl/1-0/"),
    "OGL-UK-3.0": (
        "Open Government Licence 3.0", "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/",
    ),
    "MIT": ("MIT License", "https://spdx.org/licenses/MIT.html"),
}  # fmt: skip
_SPDX = "https://spdx.org/licenses/"


def licence_name(licence: str) -> str:
    """Return the name of a licence; its id where no other name is known. A custom licence loses its prefix."""
    if licence in _KNOWN:
        return _KNOWN[licence][0]
    return licence.removeprefix("LicenseRef-").replace("-", " ") if licence.startswith("LicenseRef-") else licence


def licence_address(licence: str) -> str:
    """Return where the text of a licence is; empty if it is none of SPDX and no address itself."""
    if licence in _KNOWN:
        return _KNOWN[licence][1]
    if licence.startswith(("https://", "http://")):
        return licence
    is_id = licence and licence not in ("other", "proprietary", "various", "US-PD")
    is_id = is_id and " " not in licence and not licence.startswith(("(", "LicenseRef-"))
    return f"{_SPDX}{licence}.html" if is_id else ""
