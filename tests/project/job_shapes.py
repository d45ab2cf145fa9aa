"""What `kfm jobs` writes with --json."""

from __future__ import annotations

from tests.project.json_when import Shape

_JOB = {
    "job_id": "its id, which follows from its envelope",
    "trigger_id": "the id of its trigger",
    "job_type": "its type, as in `kfm jobs types`",
    "dataset": "the dataset that it runs",
    "partition": "the partition; empty: the whole dataset",
    "state": "`waiting`, `back-off`, `frozen`, `running`, `dead`, `cancelled` or `ended`",
    "priority": "`high`, `normal` or `low`",
    "pools": "what a worker must have to take it, since it was enqueued or last claimed",
    "attempts": "how often it was tried",
    "requested_by": "`system`, or `user:` and who",
    "requested_at": "when",
    "not_before": "when it may be tried again; empty: at once",
    "failures": "the failed attempts: `code`, `at`, `host`, `run_id`",
    "run_id": "the run of its last receipt; empty: it has none",
}
JOBS = {
    "kfm jobs list": Shape(_JOB, many=True),
    "kfm jobs dead": Shape(_JOB, many=True),
    "kfm jobs show": Shape(
        {
            "job": "as a row of `kfm jobs list`",
            "envelope": "an [envelope](../../schemas/job-envelope.json)",
            "next": "the command that helps; empty: none is needed",
        }
    ),
    "kfm jobs types": Shape(
        {
            "job_type": "its name",
            "purpose": "what it does",
            "triggers": "what starts it",
            "inputs": "what it takes",
            "outputs": "what it gives",
            "zones": "the zones that it may be asked to write",
            "derived": "whether it makes datasets that say `job:` in kfm.yml",
            "parameters": "of its envelopes: `name`, `type`, `required`, `default`, `about`",
        },
        many=True,
    ),
    "kfm jobs enqueue": Shape(
        {
            "job": "as a row of `kfm jobs list`",
            "is_new": "false: the same envelope was stored before, and nothing has changed",
        }
    ),
    "kfm jobs retry": Shape(_JOB, many=True),
    "kfm jobs cancel": Shape(_JOB),
}
