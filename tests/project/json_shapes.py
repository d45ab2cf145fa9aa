"""What `--json` writes, command by command. The page is generated from this, and tests compare the commands with it."""

from __future__ import annotations

from tests.project.access_shapes import ACCESS
from tests.project.intervention_shapes import INTERVENTIONS
from tests.project.job_shapes import JOBS
from tests.project.json_when import RUNS, WHEN
from tests.project.json_when import Shape as Shape
from tests.project.promotion_shapes import promotion
from tests.project.retry_shapes import RETRIES
from tests.project.years_shapes import YEARS

_CHECK = "`check`, `ok`, `found`, `why`"

_TRIGGER = {
    "trigger_id": "its id",
    "dataset": "the requested dataset",
    "kind": "`webhook`, `poll`, `manual` …",
    "asks": "for an operation, the move that it waits to make; else empty",
    "state": "`waiting`, or the outcome of the run that answered it",
    "received_at": "when",
    "actor": "who",
    "reason": "why",
    "window": "the requested part of time",
    "partition": "the requested part of the dataset; empty: the whole",
    "run_id": "the run that answered it; empty while it waits",
}

_DECISION = {
    "gate": "`work.checklist`, `processed.checklist` or `promotion.checklist`",
    "allow": "whether the gate allows it",
    "subject": "the digest of the subject",
    "policy_digest": "the digest of the policies",
    "reasons": "why not",
    "id": "the id of the decision, as in receipts and log lines",
    "subjects": "every digest in the request",
    "rules": "the rules that do not hold",
    "warnings": "rules that do not hold and stop nothing",
    "obligations": "the conditions of a permission: `mask`, `withhold` or `throttle`",
    "label_epoch": "the number of the labels in force at the decision",
    "engine": "`embedded` or `opa`",
}
_REVIEW = {
    "kind": "`order`: a change request that one person alone may not carry out",
    "id": "its id",
    "dataset": "its dataset",
    "what": "for a change request, the requested action",
    "state": "for a change request, `open`, `approved`, `used`, `rejected` or `expired`",
    "since": "when it arrived",
    "until": "when it ends; empty: it has no end",
    "asked_by": "who requested it",
    "reason": "why",
    "missing": "what is still missing, as rule ids",
}

SHAPES: dict[str, Shape] = {
    "kfm --version": Shape({"version": "the version of the program"}),
    "kfm token new": Shape(
        {
            "token": "the token itself, which is shown only now; empty if it was not made",
            "id": "its id",
            "person": "whose it is",
            "ends_at": "when it ends",
            "receipt": "the [receipt](../../schemas/receipt.json)",
        }
    ),
    "kfm token revoke": Shape(
        {
            "token": "empty",
            "id": "its id",
            "person": "whose it is",
            "ends_at": "when it would have ended",
            "receipt": "the [receipt](../../schemas/receipt.json)",
        }
    ),
    "kfm token list": Shape(
        {
            "id": "its id",
            "person": "whose it is",
            "note": "what it is for",
            "state": "`valid`, `revoked`, `ended` or `nobody's`: its person has no valid key",
            "made_at": "when it was made",
            "ends_at": "when it ends",
            "revoked_at": "when it was revoked; empty: it was not",
            "signed_by": "who made or revoked it",
        },
        many=True,
    ),
    "kfm policy gates": Shape(_DECISION, many=True),
    "kfm policy bundle": Shape(
        {"written": "the file", "digest": "of the policies in it", "bytes": "its size"},
    ),
    "kfm policy check": Shape(
        {
            "policy_digest": "the digest of the policies in force",
            "engine": "`embedded` or `opa`",
            "own": "the files that this installation adds",
        }
    ),
    "kfm policy explain": Shape(
        {
            "gate": "the policy of the rule",
            "rule": "its id",
            "holds": "`yes`, `no`, or `warn`: it does not hold and stops nothing",
            "asks": "its message where it does not hold",
            "remedy": "what to do about it",
        },
        many=True,
    ),
    "kfm policy test": Shape(
        {"engine": "`opa` or `embedded`", "tests": "each with its `name`, and whether it is `ok`"}
    ),
    "kfm review list": Shape(_REVIEW, many=True),
    "kfm review show": Shape({**_REVIEW, "more": "its evidence: the digest of the change request and who signed it"}),
    "kfm review approve": Shape(RUNS),
    "kfm review reject": Shape(RUNS),
    "kfm review deploy": Shape(RUNS),
    "kfm init": Shape({"written": "the files, as paths"}),
    "kfm add": Shape(
        {
            "dataset": "its name in kfm.yml",
            "title": "as it was given, stated or made from the name",
            "license": "an SPDX expression; empty: none was given or stated",
            "sensitivity": "`public`, or `closed` where a person must decide",
            "sources": "each source: `name`, `uri`, `format`, `bytes`, `rows`, `read_whole` and its `columns` or "
            "`variables`",
            "signs": "each reason to look before it is published: `kind` (`site` or `person`), `column`, `why`",
            "would_publish": "`rows`, `quarantined`, `files`, `page` and `problems` of a dry run; null: there was none",
            "notes": "what else to know",
            "written": "the files, as paths; empty in a dry run",
            "diff": "the change of kfm.yml in a dry run; else empty",
            "next": "what to type or to write next",
        }
    ),
    "kfm remove": Shape(
        {
            "dataset": "its name",
            "removed": "the files that were changed or removed; empty in a dry run",
            "kept": "what stays, and why",
            "diff": "the change of kfm.yml",
            "dry_run": "whether nothing was changed",
        }
    ),
    "kfm new": Shape({"written": "the files, as paths", "declare": "what to add to `datasets:` of `kfm.yml`"}),
    "kfm run": Shape(RUNS),
    "kfm resume": Shape(RUNS),
    "kfm publish": Shape(RUNS),
    "kfm rollback": Shape(RUNS),
    "kfm freeze": Shape(RUNS),
    "kfm thaw": Shape(RUNS),
    "kfm mask deploy": Shape(RUNS),
    "kfm policy deploy": Shape(RUNS),
    "kfm plan": Shape(
        {
            "plan_hash": "digest of the plan",
            "steps": "how many",
            "complete": "whether it covers everything",
            "inputs": "the sources that the run would read: see [source-ref](../../schemas/source-ref.json)",
            "shown": "the [steps](../../schemas/step.json); null if there are too many",
            "against": "the plan it was compared with: `locked`, `last` or `nothing`",
            "before": "the digest of that plan, or empty",
            "diff": "the changes, one line each",
            "warnings": "the warnings of such a run: `code` and `message`",
        }
    ),
    "kfm runs telemetry": Shape({"written": "the file, as a path", "bytes": "its size"}),
    "kfm audit verify": Shape(
        {
            "verdict": "`intact`, `tampered`, `forked` (or cut off), `unsigned` or `unverifiable`",
            "why": "the reason, in words",
            "entries": "how many entries are good",
            "root": "the root of the tree over all of them; empty if they are not all good",
            "covered": "how many entries the last signed checkpoint covers",
            "checkpoints": "how many checkpoints were compared, including those kept elsewhere",
            "first_bad": "the number of the first entry that is not good; 0: none, or unknown",
            "vouched": "whether a key list vouches for the keys",
            "keys": "the accepted keys, as `name+hint+key`",
            "passed_over": "checkpoints that only a revoked key signed",
        }
    ),
    "kfm audit export": Shape(
        {"written": "the file, as a path", "bytes": "its size", "key": "the key that verifies it; empty: unsigned"}
    ),
    "kfm attest": Shape(
        {
            "dataset": "its name",
            "version": "the digest",
            "statements": "the statements, each with its run",
            "written": "the file, if one was requested",
        }
    ),
    "kfm explain": Shape(
        {
            "thing": "the requested name",
            "kind": "`dataset`, `version`, `file`, `ref`, `object` or `run`",
            "dataset": "its dataset",
            "version": "the digest of its version",
            "ref": "the ref in the request; empty: none",
            "title": "the title of the dataset, as declared",
            "run_id": "the run that made it",
            "op": "`ingest`, `promote`, `rollback` …",
            "status": "how that run ended",
            "outcome": "why",
            "trigger": "`manual`, `schedule`, `webhook`, `poll`, `job` or `operation`",
            "trigger_type": "`schedule`, `on demand`, `event` or `anomaly`",
            "updater_id": "the updater that made it",
            "updater_version": "the version of the updater",
            "made_at": "when that run ended",
            "last_good": "the last run that ended well: `run_id`, `outcome`, `at`, `receipt`; `null`: none did",
            "lines": "the sentences: `about`, `text`, and `cites`, the digests that prove each",
            "chain": "from raw over harmonised to derived: `stage`, `id`, `digest`, `name`, `dataset`, `run_id`, "
            "`updater`, `at`, `level`, and `reads`, the places of what it was made of",
            "extent": "west, south, east, north of what is shown of it; empty: not known",
            "cut": "how many earlier runs are not shown",
        }
    ),
    "kfm why-not": Shape(
        {
            "thing": "the requested name",
            "kind": "as of `kfm explain`",
            "dataset": "its dataset",
            "reasons": "what is in the way, what stops everything first: `what` (`frozen`, `working`, `unfinished`, "
            "`waiting`, `failed`, `held`, `blocked`, `approval`, `masked`, `closed`, `noop`, `unpublished`, "
            "`undelivered`, `late`, `superseded`, `withdrawn`, `never-run` or `undeclared`), `why`, `do` (what to "
            "type), `rule`, `since`, `cites`",
        }
    ),
    "kfm reproduce": Shape(
        {
            "run_id": "the run that was repeated",
            "dataset": "its dataset",
            "version": "the digest of the version that it made then",
            "identical": "whether every byte was reproduced and is still there",
            "made": "the digest of the version that it makes now; empty: none",
            "inputs": "how many sources it read",
            "steps": "how many steps its plan has",
            "configuration": "`recorded`: with the settings that the run recorded; `today`: with those of kfm.yml",
            "config_hash": "the digest of these settings",
            "first": "`null`, or the first difference: `what` (`input`, `object`, `code`, "
            "`configuration`, `plan`, `gate`, `step` or `output`), `name`, `message`, `recorded`, `found`",
            "others": "the other differences; for identical bytes, the differences without effect",
        }
    ),
    "kfm verify": Shape(
        {
            "about": "the dataset, or the file",
            "ok": "whether every check passed",
            "vouched": "whether a key list vouches for the keys",
            "checks": "a list of `what`, `state` (`ok`, `bad`, `unsigned`, `missing`) and `found`",
        }
    ),
    "kfm webhooks sign": Shape({"headers": "the headers, by name"}),
    "kfm webhooks verify": Shape(
        {
            "accepted": "whether the receiver would accept it; if not, only `reason` and `status` follow",
            "source_id": "its sender",
            "scheme": "`kfm`, `github` or `standard`",
            "trigger": "the event that made the sender send it",
            "event_type": "the kind of event that it names",
            "sent_at": "when it was signed; null if its sender signs no time",
        }
    ),
    "kfm webhooks replay": Shape({"known": "whether it was accepted before", "triggers": "the ids of its triggers"}),
    **JOBS,
    "kfm triggers list": Shape(_TRIGGER, many=True),
    "kfm triggers show": Shape(_TRIGGER),
    "kfm triggers retry": Shape(RUNS),
    "kfm catalog validate": Shape(
        {
            "valid": "how many documents fit their schemas",
            "unchecked": "how many could not be checked in part or as a whole",
            "broken": "how many do not fit",
            "documents": "those that are not valid: `path`, `line`, `kind`, `verdict`, `problems`, `unchecked`",
        }
    ),
    "kfm catalog discover": Shape(
        {
            "source": "the address of the catalog",
            "kind": "`stac`, `stac-api`, `dcat` or `listing`",
            "findings": "possible datasets: `id`, `kind`, `page`, `title`, `description`, `license`, "
            "`attribution`, `bbox`, `interval`, `status` (`new`, `grown`, `changed`, `known`), the `dataset` that has "
            "it, and `offers`: `name`, `uri`, `media_type`, `size`, `digest`, `status` (`new`, `changed`, "
            "`known`), `source`",
            "pages": "the documents that were read: `uri`, `digest`, `size`",
            "skipped": "how many links were skipped, by reason",
            "draft": "with `--draft-pr` the proposal: `state`, `branch`, `files`, `diff`, `pull`, …; else null",
        }
    ),
    **WHEN,
    **{name: Shape(*said) for name, said in promotion(RUNS).items()},
    **INTERVENTIONS,
    "kfm runs cancel": Shape(RUNS),
    "kfm runs list": Shape(
        {
            "started": "when",
            "dataset": "its dataset",
            "partition": "its partition; empty: the whole dataset",
            "op": "`ingest`, `promote`, …",
            "status": "`RUNNING` or the status of the receipt",
            "outcome": "`unfinished` or the outcome of the receipt",
            "run": "its id",
        },
        many=True,
    ),
    "kfm runs show": Shape(
        {
            "run": "its [row](../../schemas/run.json); null if it had nothing to do",
            "receipt": "its [receipt](../../schemas/receipt.json); null if it is unfinished",
            "telemetry": "its [telemetry](../../schemas/run-telemetry.json); null if it is unfinished",
            "pending": "the sinks that must follow it, those that have, and since when; null if none is pending",
            "completion": "its [second record](../receipts.md); null until every sink has followed, or if none must",
        }
    ),
    "kfm runs steps": Shape(
        {
            "step": "the [step](../../schemas/step.json)",
            "status": "`PENDING`, `IN_PROGRESS`, `DONE` or `FAILED`",
            "digest": "the digest of its output, or empty",
        },
        many=True,
    ),
    "kfm refs list": Shape(
        {"ref": "its name", "version": "the digest it points to; for a freeze flag `frozen` or `open`"}, many=True
    ),
    "kfm refs history": Shape(
        {
            "ref": "its name",
            "n": "1, 2, 3 …",
            "before": "its target before; empty: none",
            "after": "its target after; empty: none",
            "run_id": "the run that moved it",
            "op": "`ingest`, `promote`, …",
            "actor": "who",
            "reason": "why",
            "ts": "when",
            "withdrawn": "null, or, if the version that it published is withdrawn now: `version`, `by`, `at`, "
            "`reason`, `run_id` and `current` (the version that was made public instead)",
        },
        many=True,
    ),
    "kfm cat": Shape(
        {
            "key": "the parts of the key",
            "digest": "the digest of the entry",
            "size": "in bytes",
            "media_type": "the media type of the entry",
        },
        many=True,
        about="For a ref with entries and without a KEY. Otherwise the bytes themselves, as without `--json`.",
    ),
    "kfm diff": Shape(
        {
            "dataset": "its name; that of the second version",
            "from": "the first version; empty: nothing",
            "to": "the second",
            "same": "whether both are the same",
            "added": "how many keys only the second version has",
            "changed": "how many keys have a different entry",
            "removed": "how many keys only the first version has",
            "changes": "by key: `change` (one of these words), `key`, `before` and `after`, each the "
            "[entry](../../schemas/manifest-entry.json) or null; `rows`, as below with `by` (the columns that "
            "identify a row), `columns_added`, `columns_removed` and `shown` (with `--rows`: `change`, `before` "
            "and `after`); `why` rows are not shown",
            "rows": "how many rows of all keys were `added`, `changed` and `removed`; null: not shown",
            "why": "why rows, or more than counts, are not shown",
        }
    ),
    "kfm lineage graph": Shape(
        {
            "assets": "datasets, each after its sources: `dataset`, `stands` (`current`; `above`: something "
            "above it is not; `behind`, `rolled back`, `withdrawn`, `never made`), `version` (empty: there is none, "
            "or it is not public), `made_at`, `level` (the strictest of it and its sources), `when` (what requests "
            "it) and `outside` (sources that are not datasets)",
            "dependencies": "`of` and `to` (datasets), `how` (`reads` or `after`), `source`, `zone`, `pinned` (the "
            "version that kfm.yml names), `made_of` and `now` (versions), `stands`, `since` and `says` (for people)",
        },
        about="With `--out` only `written`.",
    ),
    "kfm lineage upstream": Shape(
        {
            "thing": "the start: `kind` (version, source or ref), `id` (for a version its dataset, for a "
            "source its address) and `digest`",
            "direction": "upstream",
            "steps": "each with `of` and `to` (as `thing`), the run between them (`run_id`, `op`, `updater_id`, "
            "`finished_at`), `depth` (how many runs away `to` is) and `again` (it occurs above, and is not followed)",
            "whole": "false: there is more beyond `--depth` or 10,000 steps",
        }
    ),
    "kfm lineage downstream": Shape(
        {
            "thing": "as in `kfm lineage upstream`",
            "direction": "downstream",
            "steps": "as in `kfm lineage upstream`; the run read `of` and made `to`",
            "whole": "as in `kfm lineage upstream`",
        }
    ),
    "kfm quarantine": Shape(
        {
            "dataset": "its name",
            "sources": "every source with quarantined rows: `source`, `content_hash`, `rows`, `held_rows`, `held` "
            "(the whole source), `held_rows_digest`, `counts` (by rule) and at most 200 "
            "[`findings`](../../schemas/finding.json)",
        },
        about="With `--rows` lines of JSON: `row`, `reasons`, `data`.",
    ),
    "kfm labels show": Shape(
        {
            "dataset": "its name",
            "source": "the name of the source; empty: the dataset has none",
            "address": "the address of the source",
            "level": "`public`, `generalised`, `restricted` or `closed`",
            "publishable": "whether anything of it may be published",
            "resolution": "the finest allowed H3 resolution; null: no label sets one",
            "care": "the strictest value of its labels",
            "access": "the strictest value of its labels",
            "custodians": "its custodians",
            "sealed_by": "the custodian whose key encrypts it; of several the first by name",
            "authorities": "who decides about it",
            "community_labels": "TK and BC labels",
            "expires": "the last day of the consent; empty: none ends",
            "days_left": "until then; negative: it ended; null: none ends",
            "rules": "why it is not more open",
            "labels": "the labels on it: `on` and `at` (file and line)",
            "made": "by zone: the classification of what was built from it",
        },
        many=True,
    ),
    "kfm labels set": Shape(
        {
            "target": "the target of the label",
            "changed": "whether the file was changed",
            "diff": "its lines before and after",
            "order": "the id of the change request that others must sign first; empty: none",
            "recalled": "the withdrawn datasets: for each the reason, the number of versions, what remains, "
            "which sinks had it",
        }
    ),
    "kfm mask preview": Shape(
        {
            "policy": "the id of the masking policy",
            "version": "its version",
            "resolution": "the resolution of the cells, after the labels",
            "cells": "how many there are",
            "publishable": "whether the labels allow publication; null if none were given",
            "rules": "the rules that forbid it",
            "throw_away_key": "true: public ids are made with a throw-away key, and a run makes others",
            "hidden": "`records`, `by_rule`, `values` (withheld, by public column), `without_location`, "
            "`coarser_than_needed`",
            "columns": "`column`, `published` (its public name, or empty), `changed`, `withheld`, `why` (rules)",
            "groups": "who can be recognised by cell and `columns`: `named` (the policy names them), `k`, the sizes of "
            "groups `as_masked` and `published`, `counts`, `counts_withheld`, `coarser` (records), `difference`",
            "records": "`row`, `place`, `before` and `after`: protected data",
        }
    ),
    "kfm protect": Shape(
        {
            "dataset": "the dataset, as in kfm.yml",
            "source": "its source",
            "custodian": "whose key encrypts it",
            "resolution": "of the masking policy",
            "columns": "`column`, `holds` (what it seems to hold) and `published` (in which form, or `no`)",
            "cells": "for some resolutions: `resolution`, `kilometres` across a cell, `cells`, `alone`: records that "
            "are alone in their cell, and `bare`: records of which readers get nothing but the cell",
            "uniqueness": "`k`, `columns`, `records`; `unique` and `below_k`: records alone, or in groups of fewer "
            "than k, by cell and columns; `published_below_k`: such groups in what readers get",
            "files": "`path`, and `written`: false if it was there",
            "dry_run": "whether nothing was written",
            "steps": "`step`, `state` (done, next or later), `who` acts and the `next` command; empty in a dry run",
        }
    ),
    "kfm mask scan": Shape(
        {
            "verdict": "`clean`, `review` or `deny`: the worst of all files",
            "files": "the number of files scanned",
            "found": "every file that is not clean: `file`, `verdict` and `leaks` (`rule` and `count`)",
        }
    ),
    "kfm runs receipts": Shape(
        {"run_id": "its id, and all other fields of a [receipt](../../schemas/receipt.json)"},
        many=True,
        about="Newest first.",
    ),
    "kfm runs receipt": Shape({"run_id": "its id, and all other fields of a [receipt](../../schemas/receipt.json)"}),
    "kfm catalog build": Shape(
        {
            "files": "the number of files",
            "written": "how many were written now; the others were up to date",
            "removed": "how many were removed",
        }
    ),
    "kfm catalog show": Shape(
        {
            "dataset": "its name",
            "title": "as declared",
            "version": "the digest of the current version",
            "versions": "the number of live versions",
            "path": "the path of its collection in the folder of the catalog",
        },
        many=True,
        about="For one dataset: a list of STAC collections, one for each version, the current one first.",
    ),
    "kfm sinks": Shape(
        {
            "sink": "its name",
            "cursor": "the last entry of the ledger that it received",
            "newest": "the last entry of the ledger",
            "lag": "the number of entries that it has not received; of a receiver of notices, also of changed states",
            "waiting": "the number of them that wait for a thaw",
            "stopped": "null, or what stops it: `code`, `message`, `since`, `tries`, `not_before`",
            "dead": "the dead letters: `index`, below 0 if it is about a changed state, `run_id`, `dataset`, `code`, "
            "`message`, `since`, `tries`",
        },
        many=True,
        about="With `retry`: an object with `sink`, `cursor`, `lag`, `stopped` and `dead`. With `test`: a list of "
        "objects with `sink`, `event` (the CloudEvent), `answer` (a status, or why there is none; empty in a dry "
        "run) and `took_it`.",
    ),
    "kfm reconcile": Shape(
        {
            "drift": "list of `place` (`storage`, `public`, `catalog`, `graph`, `sink`), `dataset`, `what` and `about`",
            "left": "the differences that remain",
            "errors": "as above",
        }
    ),
    "kfm runs compact": Shape({"archived_runs": "how many"}),
    "kfm move": Shape(
        {
            "what": "`state`, `objects` or `publish`",
            "from": "the old address, as kfm.yml names it",
            "to": "the new one",
            "moved": "whether this command moved it; false in a dry run, and if it was moved there before",
            "edited": "whether kfm.yml names the new place now",
            "line": "the line of kfm.yml that names it",
            "tables": "of a state: a list of `table`, `rows`, `bytes` and `digest`",
            "digest": "of a state: the digest over all rows, equal at both places",
        },
        about="For objects `objects`, `bytes`, `copied` and `left` stand in place of `tables` and `digest`: how many "
        "there are, their bytes, how many were not there before, and how many the state does not name. For published "
        "files `datasets` and `emptied`: how many datasets have files there, and the places that were emptied.",
    ),
    "kfm slo override": Shape(RUNS),
    "kfm alerts write": Shape({"written": "the file, with `--to`", "objectives": "the names of those in it"}),
    **RETRIES,
    **ACCESS,
    **YEARS,
    "kfm doctor": Shape({"ok": "whether every check passed", "checks": f"a list of {_CHECK}"}),
    "kfm config check": Shape(
        {
            "path": "the file that was checked",
            "files": "that file, and the files it names",
            "mistakes": "a list of `file` (or `environment`), `line`, `column`, `key`, `message`, `hint` and `code`; "
            "first the one that `kfm run` stops at",
        }
    ),
    "kfm config show": Shape(
        {
            "path": "the file that was read",
            "root": "the folder from which its paths start",
            "settings": "by key: `value` and `origin` (`file`, `default`, `run` with --run, or `env` and the name)",
        }
    ),
}

NOT_JSON = {
    "kfm runs wal": "Lines of JSON, also without `--json`, each a [wal-record](../../schemas/wal-record.json); "
    "with `--format` Avro or Parquet.",
    "kfm audit prove": "A proof, always: `entry`, `index`, the `hashes` on its path to the root and the signed "
    "`checkpoint`.",
    "kfm audit consistency": "A proof, always: the `old` checkpoint, the `hashes` and the newer `checkpoint`.",
    "kfm config schema": "A JSON Schema, also without `--json`; without a NAME a list of names.",
    "kfm config completion": "A script, always; for a kind of names one name on each line.",
    "kfm lineage export": "Documents of the format, always: one on each line; PROV is one document, Mermaid is text.",
    "kfm up": "A [receipt](../../schemas/receipt.json) on each line, as runs end; with `--listen` the first "
    "line says where it listens.",
    "kfm runs signals": "One signal on each line: `signal`, `ts`, `index` (of the ledger), `dataset`, "
    "`partition`, `run_id`, "
    "and `state`, `value` or `uri`; with `--metrics` a list of `name`, `kind`, `help` and `samples` (`labels`, "
    "`value`; of a histogram `buckets` and `sum`); with `--to` the file, as `written`; with `--otlp` how "
    "many metrics were `sent`.",
    "kfm triggers watch": "A [receipt](../../schemas/receipt.json) on each line, as runs end.",
    "kfm serve": "One line when it listens: `listening` (where) and `webhooks` (their names).",
    "kfm webhooks serve": "One line when it listens: `listening` (where) and `webhooks` (their names).",
    "kfm runners workflow": "YAML, always.",
}

ERROR = {
    "code": "as on [the page of errors](errors.md#errors)",
    "message": "what happened",
    "hint": "what to do",
}
