"""One file says what an installation is: `kfm.yml`, strict, with a published schema.

Layers: what is built in, then the file, then `KFM_SECTION__KEY` in the environment. Relative paths
start at the folder of the file. Nothing here opens a store or imports an updater.

A file per section, with its settings and what its types alone cannot say; `installation` puts them together, `loading`
reads them. A new section is a file here and a field of `Config`.
"""

from __future__ import annotations

from kfm.config.custodians import CustodianConfig
from kfm.config.datasets import DatasetConfig, Extent
from kfm.config.github import GitHubConfig
from kfm.config.installation import Config, json_schema
from kfm.config.loading import FILE_NAMES, RESERVED_ENV, Resolved, file_in, load
from kfm.config.network import NetworkConfig
from kfm.config.pace import ExecuteConfig, WatchConfig
from kfm.config.policy import PolicyConfig
from kfm.config.proving import AttestConfig, LedgerConfig
from kfm.config.sources import Format, SourceConfig
from kfm.config.values import leaves
from kfm.config.webhooks import WebhookConfig

__all__ = [
    "FILE_NAMES",
    "RESERVED_ENV",
    "AttestConfig",
    "Config",
    "CustodianConfig",
    "DatasetConfig",
    "ExecuteConfig",
    "Extent",
    "Format",
    "GitHubConfig",
    "LedgerConfig",
    "NetworkConfig",
    "PolicyConfig",
    "Resolved",
    "SourceConfig",
    "WatchConfig",
    "WebhookConfig",
    "file_in",
    "json_schema",
    "leaves",
    "load",
]
