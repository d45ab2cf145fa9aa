"""`kfm.yml` describes an installation: strict, with a published schema.

Values come in layers: built-in defaults, then the file, then `KFM_SECTION__KEY` in the environment. Relative paths
start at the folder of the file. This package neither opens a store nor imports an updater.

Each section has a module with its settings and the checks that types cannot express. `config_file` combines them,
`config_loader` reads them. A new section is a module here and a field of `Config`.
"""

from __future__ import annotations

from kfm.config.config_file import Config, json_schema
from kfm.config.config_loader import FILE_NAMES, RESERVED_ENV, Resolved, file_in, load
from kfm.config.custodian_settings import CustodianConfig
from kfm.config.dataset_settings import DatasetConfig, Extent
from kfm.config.github_settings import GitHubConfig
from kfm.config.ledger_settings import AttestConfig, LedgerConfig
from kfm.config.network_settings import NetworkConfig
from kfm.config.pace_settings import ExecuteConfig, WatchConfig
from kfm.config.policy_settings import PolicyConfig
from kfm.config.setting_values import leaves
from kfm.config.source_settings import Format, SourceConfig
from kfm.config.webhook_settings import WebhookConfig

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
