# What a type checker sees of kfm: the names that load on first use.
from kfm.client import Installation as Installation
from kfm.client import open as open
from kfm.client.remote import Client as Client
from kfm.model.connector import Capabilities as Capabilities
from kfm.model.connector import Check as Check
from kfm.model.connector import Connector as Connector
from kfm.model.connector import DatasetVersionRef as DatasetVersionRef
from kfm.model.connector import RawManifest as RawManifest
from kfm.model.connector import ValidationReport as ValidationReport
from kfm.model.connector import WorkArtifacts as WorkArtifacts
from kfm.model.jobs.job_settings import JobSettings as JobSettings
from kfm.model.jobs.job_updater import JobUpdater as JobUpdater
from kfm.model.records import SourceRef as SourceRef
from kfm.model.records import Step as Step
from kfm.model.updater import Output as Output
from kfm.model.updater import Plan as Plan
from kfm.model.updater import Updater as Updater

__version__: str
DISTRIBUTION: str
__all__: list[str]
