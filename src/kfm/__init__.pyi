# What a type checker sees of kfm: the names that load on first use.
from kfm.contract.connector import Capabilities as Capabilities
from kfm.contract.connector import Check as Check
from kfm.contract.connector import Connector as Connector
from kfm.contract.connector import DatasetVersionRef as DatasetVersionRef
from kfm.contract.connector import RawManifest as RawManifest
from kfm.contract.connector import ValidationReport as ValidationReport
from kfm.contract.connector import WorkArtifacts as WorkArtifacts
from kfm.contract.records import SourceRef as SourceRef
from kfm.contract.records import Step as Step
from kfm.contract.updater import Output as Output
from kfm.contract.updater import Plan as Plan
from kfm.contract.updater import Updater as Updater
from kfm.installation import Installation as Installation
from kfm.installation import open as open

__version__: str
DISTRIBUTION: str
__all__: list[str]
