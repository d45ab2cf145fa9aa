"""Maintenance of what follows the refs: files, catalogs, sinks, statements and journals. No ref of data moves.

Each operation moves one ref, `maintenance/OPERATION`, to a report on what is changed. So it leaves a receipt and a
ledger entry, and the history of the ref lists every time it was done.
"""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import MoveUpdater


class Maintenance(MoveUpdater):
    """Records a report. A frozen or unreadable installation is maintained, too: what may not be public is removed."""

    heeds_freeze = False
    needs_labels = False
    approval = "none"  # no version moves

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        target = trigger.params.get("to", "")
        if not is_digest(target):
            raise Refused("no report is named", hint="use `kfm reconcile --repair` and the other commands")
        return Aim(sources.ref(refs.maintenance(self.op)), target)


class Repair(Maintenance):
    """Files, catalog and graph become again what the refs say."""

    id = "kfm-repair"
    op = "repair"
    job_type = "operation.repair"


class Compact(Maintenance):
    """The journals of ended runs move into the archive."""

    id = "kfm-compact"
    op = "compact"
    job_type = "operation.compact"


class Attest(Maintenance):
    """Statements about a version are signed again."""

    id = "kfm-attest"
    op = "attest"
    job_type = "operation.attest"


class BuildCatalog(Maintenance):
    """The whole catalog was written again from the state."""

    id = "kfm-catalog"
    op = "catalog"
    job_type = "operation.catalog"


class HandleTriggers(Maintenance):
    """An operator dropped kept triggers: no run answers them."""

    id = "kfm-triggers"
    op = "triggers"
    job_type = "operation.triggers"


class HandleJob(Maintenance):
    """An operator put a dead letter back, or cancelled a job."""

    id = "kfm-jobs"
    op = "jobs"
    job_type = "operation.jobs"


class RetrySink(Maintenance):
    """An operator had a sink notified."""

    id = "kfm-sinks"
    op = "sinks"
    job_type = "operation.sinks"


class ChangeBreaker(Maintenance):
    """An operator opened or closed a circuit breaker."""

    id = "kfm-breakers"
    op = "breakers"
    job_type = "operation.breakers"


class ChangeBudget(Maintenance):
    """An operator closed or reset a retry budget."""

    id = "kfm-budgets"
    op = "budgets"
    job_type = "operation.budgets"


class TakeBackup(Maintenance):
    """A backup is about to be taken."""

    id = "kfm-backup"
    op = "backup"
    job_type = "operation.backup"


class Restore(Maintenance):
    """The installation was made out of a backup."""

    id = "kfm-restore"
    op = "restore"
    job_type = "operation.restore"


class Upgrade(Maintenance):
    """The state was brought to the format of this version, after a backup."""

    id = "kfm-upgrade"
    op = "upgrade"
    job_type = "operation.upgrade"


class Collect(Maintenance):
    """Objects that nothing names, and records past their retention, are about to be removed. A frozen installation
    keeps everything."""

    id = "kfm-gc"
    op = "gc"
    job_type = "operation.gc"
    heeds_freeze = True


class Relocate(Maintenance):
    """The state or the objects are about to move to another place."""

    id = "kfm-move"
    op = "move"
    job_type = "operation.move"
