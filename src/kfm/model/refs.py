"""The names of refs: one function builds each form, and `parse` takes a name apart.

A ref is named `zone/name`. The zone of a freeze flag is `switch`, or `amber` if the flag stops risky work alone; it is
set unless its value is empty or `open`.
All refs of a preview lie below `preview/BRANCH/`, under the names they have outside it.
"""

from __future__ import annotations

from typing import NamedTuple

RAW, QUARANTINE, PROCESSED, PUBLISHED = "raw/", "quarantine/", "processed/", "published/"
VERSIONS = (PROCESSED, PUBLISHED)  # zones whose refs lead to versions of datasets
OVERRIDE = "override/"  # the last override of each objective
PREVIEW, BACKFILL, ORDERS, SWITCH = "preview/", "backfill/", "orders/", "switch/"
HOTFIX = "hotfix/"
ACCESS = "token/"  # the access tokens of people
SHOWN = (*VERSIONS, HOTFIX)  # zones whose refs decide what readers see of a dataset
AMBER = "amber/"
DATASET_SWITCH, RUN_SWITCH = "switch/dataset/", "switch/run/"
KEY_LIST = "keys/list"  # the key list in force
LABELS = "rules/labels"  # the file of labels as it was signed
MASKS = "rules/mask/"
POLICY = "rules/policy"  # the policies that an installation adds
REVIEW = "rules/review"  # how many people must approve which dataset


class RefName(NamedTuple):
    zone: str  # `preview` for every ref of a preview
    rest: str

    @property
    def dataset(self) -> str:
        """The dataset of a ref in a zone of data, or of a freeze flag; empty for any other ref."""
        if self.zone in ("raw", "quarantine", "processed", "published", "hotfix"):
            return self.rest.partition("/")[0]
        if self.zone == "preview":
            inner = self.previewed
            return inner.dataset if inner is not None else ""
        kind, _, name = self.rest.partition("/")
        return name if self.zone in ("switch", "amber") and kind == "dataset" else ""

    @property
    def previewed(self) -> RefName | None:
        """The name that a ref of a preview would have outside it; None for any other ref, and for its record."""
        name = self.rest.partition("/")[2] if self.zone == "preview" else ""
        return parse(name) if "/" in name else None


def parse(ref: str) -> RefName:
    zone, _, rest = ref.partition("/")
    return RefName(zone, rest)


def in_zone(zone: str, name: str) -> str:
    return f"{zone}/{name}"


def raw(name: str, number: int | str) -> str:
    """Return the name of the ref to the bytes of one source. `name` is a dataset, or `dataset/partition`."""
    return f"raw/{name}/{number}"


def quarantine(name: str) -> str:
    """Return the name of the ref to the report on rows that did not pass. `name` is a dataset, or
    `dataset/partition`."""
    return f"quarantine/{name}"


def processed(dataset: str) -> str:
    return f"processed/{dataset}"


def published(dataset: str) -> str:
    return f"published/{dataset}"


def hotfix(dataset: str) -> str:
    """Return the name of the ref to the corrections of what a dataset's public metadata say."""
    return f"hotfix/{dataset}"


def preview(branch: str, ref: str) -> str:
    """Return the name that `ref` has inside the preview of a branch. `branch` is written as `preview_records.slug`
    returns it."""
    return f"preview/{branch}/{ref}"


def backfill(name: str) -> str:
    return f"backfill/{name}"


def order(request: str) -> str:
    """Return the name of the ref to a change request with its signatures so far."""
    return f"orders/{request}"


def mask(dataset: str, source: str) -> str:
    """Return the name of the ref to the signed masking policy of a source."""
    return f"rules/mask/{dataset}/{source}"


def maintenance(operation: str) -> str:
    """Return the name of the ref to the last report of repair, compact, attest, catalog, sinks, move or gc."""
    return f"maintenance/{operation}"


def override(objective: str) -> str:
    """Return the name of the ref to the last override of an objective by a steward."""
    return f"override/{objective}"


def token(name: str) -> str:
    """Return the name of the ref to the record of an access token, by its id."""
    return f"token/{name}"


def search_alias(alias: str) -> str:
    """Return the name of the ref to the version of an index that `kfm search` reads under this alias."""
    return f"search/{alias}"


def cache_epoch(dataset: str) -> str:
    """Return the name of the ref that counts the changes of what is public of a dataset: part of the keys of caches."""
    return f"cache/{dataset}"


def switch(kind: str, name: str = "") -> str:
    """Return the name of a freeze flag: of everything (`global`), or of one dataset, schedule, backfill or run."""
    return f"switch/{kind}/{name}" if name else f"switch/{kind}"


def switches(dataset: str) -> tuple[str, str]:
    """Return the names of the freeze flags that stop all work on a dataset."""
    return "switch/global", f"switch/dataset/{dataset}"


def amber(kind: str, name: str = "") -> str:
    """Return the name of a flag that stops risky work alone: of everything (`global`), or of one dataset."""
    return f"amber/{kind}/{name}" if name else f"amber/{kind}"


def ambers(dataset: str) -> tuple[str, str]:
    """Return the names of the flags that stop risky work on a dataset."""
    return "amber/global", f"amber/dataset/{dataset}"


def is_frozen(flag: str) -> bool:
    """Return whether a freeze flag with this value is set."""
    return flag not in ("", "open")
