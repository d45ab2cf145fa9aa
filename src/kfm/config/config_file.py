"""The whole of kfm.yml: every section, and the checks across sections."""

from __future__ import annotations

import posixpath
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kfm.config.archive_settings import ArchiveConfig, check_archive
from kfm.config.custodian_settings import CustodianConfig, check_custodian
from kfm.config.dataset_settings import DatasetConfig, check_dataset
from kfm.config.energy_settings import EnergyConfig, check_energy
from kfm.config.github_settings import GitHubConfig, check_github
from kfm.config.graph_settings import Neo4jConfig, check_graph
from kfm.config.ledger_settings import AttestConfig, LedgerConfig, check_signing
from kfm.config.network_settings import NetworkConfig, check_host
from kfm.config.notify_settings import ReceiverConfig, check_notify
from kfm.config.openlineage_settings import OpenLineageConfig, OtelConfig, check_openlineage, check_otel
from kfm.config.pace_settings import ExecuteConfig, WatchConfig, check_cluster
from kfm.config.policy_settings import PolicyConfig, check_policy
from kfm.config.pool_settings import Slots, check_pool, check_pools
from kfm.config.retention_settings import RetentionConfig, check_retention
from kfm.config.runner_settings import RunnersConfig, check_runners
from kfm.config.s3_settings import BucketConfig, check_buckets
from kfm.config.setting_values import ID_PATTERN, Days, Text, given
from kfm.config.source_settings import check_folder
from kfm.config.store_settings import (
    SCHEMES,
    PostgresConfig,
    RedisConfig,
    WorkersConfig,
    check_location,
    check_servers,
)
from kfm.config.upstream_datasets import check_indexes, check_promotions, check_reads
from kfm.config.webhook_settings import SignInConfig, WebhookConfig, check_sign_in, check_webhook
from kfm.model.outbox_messages import NOTIFY
from kfm.model.records import Record
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document

# Each setting that configures a sink, and the name of that sink, in the order in which they are notified.
SINKS = (
    ("catalog", "catalog"),
    ("pages", "pages"),
    ("worker_receipts", "worker-receipts"),
    ("attest.has_manifests", "manifests"),
    ("graph", "graph"),
    ("openlineage.file", "openlineage.file"),
    ("openlineage.url", "openlineage.http"),
    ("otel.endpoint", "otel"),
)


AUTO = "auto"
PUBLIC_NAMES = ("datasets",)  # in the public folder or bucket, besides pages and the catalog
PRIVATE_NAMES = ("sha256", "aside", "receipts", "events")  # in the bucket of objects


class Config(Record, frozen=True):
    """The settings of an installation: all sections of kfm.yml."""

    datasets: Annotated[
        dict[str, DatasetConfig],
        Meta(description="by their names", extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}}),
    ]
    kfm: Annotated[Literal[1], Meta(description="the version of this format")] = 1
    schema_url: Annotated[str, Meta(description="for editors")] = msgspec.field(default="", name="$schema")
    state: Annotated[Text, Meta(description="sqlite:PATH, jsonl:PATH, memory or postgresql://USER@HOST/DATABASE")] = (
        "sqlite:.kfm/state.db"
    )
    objects: Annotated[Text, Meta(description="file:PATH or s3://BUCKET/PREFIX")] = "file:.kfm/objects"
    publish: Annotated[Text, Meta(description="file:PATH, s3://BUCKET/PREFIX, github:OWNER/REPOSITORY or noop")] = (
        "file:public"
    )
    queue: Annotated[
        str,
        Meta(
            max_length=1000,
            description="redis://HOST:PORT/NUMBER of a broker that wakes workers, or rediss:// with TLS; empty: "
            "workers look into the inbox; Python only",
        ),
    ] = ""
    postgres: Annotated[PostgresConfig, Meta(description="how the server of the state is reached; Python only")] = (
        PostgresConfig()
    )
    redis: Annotated[RedisConfig, Meta(description="how the broker is reached; Python only")] = RedisConfig()
    workers: Annotated[WorkersConfig, Meta(description="how `python -m workers` treats jobs; Python only")] = (
        WorkersConfig()
    )
    catalog: Annotated[
        str,
        Meta(
            max_length=4096,
            description="file:PATH of the folder of catalog files, STAC and DCAT; auto: `catalog` below the public "
            "folder or bucket, or none without one; empty: none; Python only",
        ),
    ] = AUTO
    pages: Annotated[
        bool,
        Meta(
            description="write an index.html per dataset and one of all into the public folder or bucket, if there "
            "is one; Python only"
        ),
    ] = True
    public_url: Annotated[
        str,
        Meta(
            max_length=2000,
            description="https address of the public folder or bucket; empty: pages use relative addresses",
        ),
    ] = ""
    archive: Annotated[ArchiveConfig, Meta(description="what pages and catalogs say about the archive itself")] = (
        ArchiveConfig()
    )
    worker_receipts: Annotated[
        str,
        Meta(
            max_length=4096,
            description="folder that gets the receipt of every run in the form that workers exchange, below receipts/; "
            "empty: none; Python only",
        ),
    ] = ""
    artifacts: Annotated[Text, Meta(description="folder for the artifacts of each run")] = ".kfm/artifacts"
    accept_weak_storage: Annotated[
        bool, Meta(description="allow storage that may lose acknowledged writes, such as tmpfs or NFS")
    ] = False
    network: Annotated[NetworkConfig, Meta(description="allowed addresses, and limits on time and size")] = (
        NetworkConfig()
    )
    s3: Annotated[
        dict[str, BucketConfig],
        Meta(description="addresses and keys of buckets; a bucket that is not named is a public one at Amazon"),
    ] = {}
    read_from: Annotated[
        tuple[Text, ...], Meta(description="absolute paths of other folders that sources may be read from; Python only")
    ] = ()
    execute: Annotated[ExecuteConfig, Meta(description="how steps are run")] = ExecuteConfig()
    github: Annotated[GitHubConfig, Meta(description="how GitHub is reached")] = GitHubConfig()
    graph: Annotated[
        str,
        Meta(
            max_length=4096,
            description="neo4j+s://HOST:PORT or bolt+s://HOST:PORT of a Neo4j that receives every run; empty: none",
        ),
    ] = ""
    neo4j: Annotated[Neo4jConfig, Meta(description="how the graph is reached")] = Neo4jConfig()
    openlineage: Annotated[OpenLineageConfig, Meta(description="where OpenLineage events of every run go")] = (
        OpenLineageConfig()
    )
    notify: Annotated[
        dict[str, ReceiverConfig],
        Meta(
            description="who is told what has happened, by names of your choice; Python only",
            extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}},
        ),
    ] = {}
    otel: Annotated[
        OtelConfig, Meta(description="the collector of OpenTelemetry that gets traces, metrics and logs; Python only")
    ] = OtelConfig()
    watch: Annotated[WatchConfig, Meta(description="how `kfm triggers watch` polls sources")] = WatchConfig()
    pools: Annotated[
        dict[str, Slots],
        Meta(
            description="how many runs may run at once, by the names that datasets and schedules use",
            extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}},
        ),
    ] = {}
    schedules: Annotated[Text, Meta(description="folder of schedule files, which `kfm up` follows")] = (
        "pipelines/schedules"
    )
    backfills: Annotated[Text, Meta(description="folder of backfill files, see `kfm backfill plan`")] = (
        "pipelines/backfills"
    )
    slos: Annotated[Text, Meta(description="folder of objectives, see `kfm slo`; Python only")] = "slos"
    review: Annotated[
        Literal["none", "one", "two"] | msgspec.UnsetType,
        Meta(description="`review` of datasets that have none; default: one under a key list, else none"),
    ] = msgspec.UNSET
    runners: Annotated[RunnersConfig, Meta(description="settings for `kfm runners write`")] = RunnersConfig()
    webhooks: Annotated[
        dict[str, WebhookConfig],
        Meta(
            description="senders of webhooks, by the name in the URL",
            extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}},
        ),
    ] = {}
    sign_in: Annotated[
        SignInConfig, Meta(description="who signs people in to `kfm serve`, by OpenID Connect; Python only")
    ] = SignInConfig()
    labels: Annotated[
        str, Meta(max_length=4096, description="path of the labels file: how protected datasets and sources are")
    ] = ""
    custodians: Annotated[
        dict[str, CustodianConfig], Meta(description="whose keys encrypt protected data, by the names in labels")
    ] = {}
    ledger: Annotated[LedgerConfig, Meta(description="the key that signs ledger checkpoints, and how often")] = (
        LedgerConfig()
    )
    attest: Annotated[AttestConfig, Meta(description="the key that signs attestations about versions")] = AttestConfig()
    policy: Annotated[PolicyConfig, Meta(description="the policy engine and your own policies")] = PolicyConfig()
    publish_retention: Annotated[
        int,
        Meta(
            ge=-1,
            description="how many superseded versions of a dataset stay public next to the current one; -1: all. "
            "A withdrawn version or one that was rolled back never does",
        ),
    ] = -1
    keep_days: Annotated[Days, Meta(description="how long ended triggers and webhook message ids are kept")] = 90
    retention: Annotated[
        RetentionConfig, Meta(description="what `kfm gc` removes, and after how long; Python only")
    ] = RetentionConfig()
    energy: Annotated[
        EnergyConfig, Meta(description="how the energy and the carbon of runs are found; Python only")
    ] = EnergyConfig()
    deletion_budget: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="share of its keys a dataset may lose in one run; --allow-deletions N allows more once",
        ),
    ] = 0.1


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of kfm.yml, for editors and for `schemas/config.json`."""
    schema = msgspec.json.schema(Config)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "kfm.yml", **schema}


def check(config: Config, document: Document) -> None:
    """Raise BadInput for mistakes that types cannot express."""
    check_servers(document, {key: getattr(config, key) for key in SCHEMES}, config.postgres, config.redis)
    check_cluster(document, config.execute.cluster, config.state, config.objects, config.network.allow)
    if config.catalog:
        check_location(document, "catalog", config.catalog, ("file", "s3"))
        if config.catalog.startswith("s3:") and not _folder(config.catalog).startswith(f"{_folder(config.publish)}/"):
            document.refuse(
                ("catalog",), "is in a bucket, and not below the address of `publish`", "take it out: auto is below it"
            )
        if _is_taken(config, config.catalog):
            document.refuse(("catalog",), "is in a folder that KFM uses for something else", "choose another folder")
    if config.worker_receipts:
        _check_private(document, config, ("worker_receipts",), config.worker_receipts, ".kfm/workers")
    if config.attest.manifests:
        _check_private(document, config, ("attest", "manifests"), config.attest.manifests, ".kfm/manifests")
    if config.pages and not has_pages(config.publish):
        document.refuse(
            ("pages",), "need a public folder or bucket, and publish names none", "write publish: file:public"
        )
    check_archive(document, config.public_url, config.archive)
    check_github(document, config.publish, config.github)
    check_graph(document, config.graph, config.neo4j, config.network.allow)
    check_openlineage(document, config.openlineage, config.network.allow)
    check_otel(document, config.otel, config.network.allow)
    check_signing(document, config.ledger, config.attest)
    if not is_printable(config.artifacts):
        document.refuse(("artifacts",), "holds a control character", "use a plain path")
    if not is_printable(config.labels):
        document.refuse(("labels",), "holds a control character", "use a plain path")
    for name, custodian in config.custodians.items():
        check_custodian(document, ("custodians", name), custodian)
    check_policy(document, config.policy)
    check_retention(document, config.retention)
    check_energy(document, config.energy)
    check_runners(document, config.runners)
    for index, host in enumerate(config.network.allow):
        check_host(document, ("network", "allow", index), host)
    check_buckets(document, config.s3)
    for index, folder in enumerate(config.read_from):
        check_folder(document, ("read_from", index), folder)
    check_pools(document, config.pools)
    for name, dataset in config.datasets.items():
        with document:
            check_dataset(document, ("datasets", name), dataset)
        with document:
            check_pool(document, ("datasets", name, "pool"), dataset.pool, config.pools)
    check_reads(document, config.datasets)
    check_promotions(document, config.datasets)
    if any(dataset.job for dataset in config.datasets.values()):
        check_indexes(document, config.datasets)
    for name, hook in config.webhooks.items():
        with document:
            check_webhook(document, ("webhooks", name), hook, config.datasets)
    check_notify(document, config.notify, config.datasets, config.network.allow)
    check_sign_in(document, config.sign_in)


def with_defaults(config: Config, document: Document) -> Config:
    """Return the settings with the catalog and the pages that are on by default: where there is a public folder
    or bucket."""
    if not has_pages(config.publish):
        catalog, pages = "" if config.catalog == AUTO else config.catalog, given(document.value, ("pages",))
        return msgspec.structs.replace(config, catalog=catalog, pages=pages and config.pages)
    if config.catalog != AUTO:
        return config
    inside = default_catalog(config)
    return msgspec.structs.replace(config, catalog="" if _is_taken(config, inside) else inside)


def default_catalog(config: Config) -> str:
    """Return the address of the catalog next to the public files; empty if these are in no folder or bucket."""
    return f"{config.publish.rstrip('/')}/catalog" if has_pages(config.publish) else ""


def has_pages(publish: str) -> bool:
    """Say whether pages and a catalog can be next to public files at this address."""
    return publish.startswith(("file:", "s3:"))


def _is_taken(config: Config, catalog: str) -> bool:
    """Say whether the catalog would be among published files or in the private folder. Next to `datasets` in the public
    folder it is allowed: both are served together.
    """
    here, public = _folder(catalog), _folder(config.publish)
    objects = _folder(config.objects)
    taken = [_folder(config.state), ".kfm", *(posixpath.join(public, name) for name in PUBLIC_NAMES)]
    # A bucket is shared more often than a folder: of a prefix, KFM takes only these names.
    private = config.objects.startswith("s3:")
    taken += [posixpath.join(objects, name) for name in PRIVATE_NAMES] if private else [objects]
    inside = any(here == folder or here.startswith(folder.rstrip("/") + "/") for folder in taken)
    return inside or (here == public and has_pages(config.publish))


def _check_private(document: Document, config: Config, where: tuple[str, ...], path: str, cure: str) -> None:
    """Raise BadInput if a folder for receipts or manifests is public, or where KFM keeps its own receipts."""
    here = posixpath.normpath(path)
    served = [_folder(each) for each in (config.publish, config.catalog) if each.startswith("file:")]
    inside = any(here == folder or here.startswith(folder.rstrip("/") + "/") for folder in served)
    if not is_printable(here) or here in (".", ".kfm") or here.startswith(".kfm/receipts") or inside:
        document.refuse(where, "is not a private folder of its own", f"write {cure}")


def _folder(location: str) -> str:
    return posixpath.normpath(location.partition(":")[2].replace("///", "/", 1))


def sink_names(config: Config) -> tuple[str, ...]:
    """Return the names of the configured sinks that a run is complete with. A run does not wait for its notices."""
    return tuple(name for setting, name in SINKS if attrgetter(setting)(config))


def notice_sink(receiver: str) -> str:
    """Return the name of the sink that a receiver of notices is."""
    return NOTIFY + receiver


def follower_names(config: Config) -> tuple[str, ...]:
    """Return the names of everything that follows the ledger: the sinks, and the receivers of notices."""
    return (*sink_names(config), *map(notice_sink, config.notify))
