"""The list of SPDX ids that the product ships, taken from `packaging`, which follows the SPDX License List."""

from __future__ import annotations

import textwrap

from packaging.licenses import _spdx

PATH = "src/kfm/parsing/spdx_ids.py"


def module() -> str:
    """The text of the module with all ids, wrapped."""

    def wrapped(ids: list[str]) -> str:
        return "\n".join(textwrap.wrap(" ".join(ids), 116, break_on_hyphens=False, break_long_words=False))

    licences = wrapped(sorted(each["id"] for each in _spdx.LICENSES.values()))
    exceptions = wrapped(sorted(each["id"] for each in _spdx.EXCEPTIONS.values()))
    return (
        f'"""The ids of the SPDX License List {_spdx.VERSION}. Made by `make schemas`."""\n\n'
        "from __future__ import annotations\n\n"
        f'VERSION = "{_spdx.VERSION}"\n'
        f'LICENSES = """\n{licences}\n"""\n'
        f'EXCEPTIONS = """\n{exceptions}\n"""\n'
    )
