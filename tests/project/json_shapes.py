"""What `--json` writes, command by command: the page is made from this, and the commands are held against it."""

from __future__ import annotations

from tests.project.json_when import RUNS, WHEN
from tests.project.json_when import Shape as Shape
from tests.project.promotion_shapes import promotion

_CHECK = "`check`, `ok`, `found`, `why`"

_TRIGGER = {
    "trigger_id": "its id",
    "dataset": "what it asks for",
    "kind": "`webhook`, `poll`, `manual` …",
    "asks": "of an operation, the move it waits to make; else empty",
    "state": "`waiting`, or the outcome of the run that answered it",
    "received_at": "when",
    "actor": "who",
    "reason": "why",
    "window": "the part of time meant",
    "partition": "the part of the dataset meant; empty: the whole",
    "run_id": "the run that answered it; empty while it waits",
}

_DECISION = {
    "gate": "`work.checklist`, `processed.checklist` or `promotion.checklist`",
    "allow": "may it?",
    "subject": "the digest it is about",
    "policy_digest": "of the policies it was decided under",
    "reasons": "why not",
    "id": "of the decision, as in receipts and log lines",
    "subjects": "every digest that was asked about",
    "rules": "that do not hold",
    "warnings": "what does not hold and stops nothing",
    "obligations": "what a yes demands: `mask`, `withhold` or `throttle`",
    "label_epoch": "of the labels it was decided under",
    "engine": "`embedded` or `opa`",
}
_REVIEW = {
    "kind": "`order`: what one person alone may not do",
    "id": "its id",
    "dataset": "what it is about",
    "what": "of an order the action that is asked for",
    "state": "of an order `open`, `approved`, `used`, `rejected` or `expired`",
    "since": "when it came",
    "until": "when it is over; empty: it waits",
    "asked_by": "who asked for it",
    "reason": "why",
    "missing": "what is missing yet, as rule ids",
}

SHAPES: dict[str, Shape] = {
    "kfm --version": Shape({"version": "of the program"}),
    "kfm keys new": Shape(
        {
            "key": "its id",
            "file": "where its private half is; empty if it was made elsewhere, or not listed",
            "receipt": "the [receipt](../../schemas/receipt.json) of the new list",
        }
    ),
    "kfm keys revoke": Shape(
        {
            "key": "its id",
            "file": "empty",
            "receipt": "the [receipt](../../schemas/receipt.json) of the new list",
        }
    ),
    "kfm keys list": Shape(
        {
            "key": "its id",
            "person": "whose it is; empty: the installation's",
            "roles": "what that person may do",
            "custodians": "whose data that person is a steward of",
            "purpose": "`act`, `community`, `checkpoint` or `attest`",
            "state": "`valid`, `revoked` or `not valid now`",
            "valid_until": "when it ends",
            "public": "its public half, in hex",
        },
        many=True,
    ),
    "kfm policy gates": Shape(_DECISION, many=True),
    "kfm policy check": Shape(
        {
            "policy_digest": "of the policies in force",
            "engine": "`embedded` or `opa`",
            "own": "the files that this installation adds",
        }
    ),
    "kfm policy explain": Shape(
        {
            "gate": "the policy it is in",
            "rule": "its id",
            "holds": "`yes`, `no`, or `warn`: it does not hold, and stops nothing",
            "asks": "what it says where it does not hold",
            "remedy": "what to do about it",
        },
        many=True,
    ),
    "kfm policy test": Shape(
        {"engine": "`opa` or `embedded`", "tests": "each with its `name`, and whether it is `ok`"}
    ),
    "kfm review list": Shape(_REVIEW, many=True),
    "kfm review show": Shape({**_REVIEW, "more": "its evidence: of an order the digest of the request and who signed"}),
    "kfm review approve": Shape(RUNS),
    "kfm review reject": Shape(RUNS),
    "kfm init": Shape({"written": "the files, as paths"}),
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
            "inputs": "what would be read: see [source-ref](../../schemas/source-ref.json)",
            "shown": "the [steps](../../schemas/step.json); null if there are too many",
            "against": "what it was compared with: `locked`, `last` or `nothing`",
            "before": "the digest of that plan, or empty",
            "diff": "what changed, a line each",
            "warnings": "what a run would warn of: `code` and `message`",
        }
    ),
    "kfm runs telemetry": Shape({"written": "the file, as a path", "bytes": "its size"}),
    "kfm audit verify": Shape(
        {
            "verdict": "`intact`, `tampered`, `forked` (or cut off), `unsigned` or `unverifiable`",
            "why": "in words",
            "entries": "how many were found good",
            "root": "of the tree over all of them; empty if they are not all good",
            "covered": "how many the last signed checkpoint is of",
            "checkpoints": "how many were compared, those kept elsewhere among them",
            "first_bad": "the number of the first entry that is not good; 0: none, or nobody can tell",
            "vouched": "whether a key list vouches for the keys",
            "keys": "those that were believed, as `name+hint+key`",
            "passed_over": "checkpoints that only a revoked key signed",
        }
    ),
    "kfm audit export": Shape(
        {"written": "the file, as a path", "bytes": "its size", "key": "what auditors verify it with; empty: unsigned"}
    ),
    "kfm attest": Shape(
        {
            "dataset": "its name",
            "version": "the digest",
            "statements": "what was stated, each with the run it is of",
            "written": "the file, if one was asked for",
        }
    ),
    "kfm explain": Shape(
        {
            "thing": "what was asked about",
            "kind": "`dataset`, `version`, `file`, `ref`, `object` or `run`",
            "dataset": "of which it is",
            "version": "the digest of the version it is, or belongs to",
            "ref": "what leads to it; empty: it was not named by one",
            "title": "of the dataset, as declared",
            "run_id": "the run that made it",
            "op": "`ingest`, `promote`, `rollback` …",
            "status": "how that run ended",
            "outcome": "why",
            "trigger": "`manual`, `schedule`, `webhook`, `poll`, `job` or `operation`",
            "trigger_type": "`schedule`, `on demand` or `anomaly`",
            "updater_id": "who made it",
            "updater_version": "in which version",
            "made_at": "when that run ended",
            "last_good": "the last run that ended well: `run_id`, `outcome`, `at`, `receipt`; `null`: none did",
            "lines": "the sentences: `about`, `text`, and `cites`, the digests each rests on",
            "chain": "from raw over harmonised to derived: `stage`, `id`, `digest`, `name`, `dataset`, `run_id`, "
            "`updater`, `at`, `level`, and `reads`, the places of what it was made of",
            "extent": "west, south, east, north of what is shown of it; empty: not known",
            "cut": "how many runs further up are not told",
        }
    ),
    "kfm why-not": Shape(
        {
            "thing": "what was asked about",
            "kind": "as of `kfm explain`",
            "dataset": "of which it is",
            "reasons": "what is in the way, what stops everything first: `what` (`frozen`, `working`, `unfinished`, "
            "`waiting`, `failed`, `held`, `blocked`, `approval`, `masked`, `closed`, `noop`, `unpublished`, "
            "`undelivered`, `late`, `superseded`, `withdrawn`, `never-run` or `undeclared`), `why`, `do` (what to "
            "type), `rule`, `since`, `cites`",
        }
    ),
    "kfm reproduce": Shape(
        {
            "run_id": "the run that was done again",
            "dataset": "of which",
            "version": "the digest of what it made then",
            "identical": "did every byte come out again, and is every one still there?",
            "made": "the digest of what it makes now; empty: nothing",
            "inputs": "how many sources it read",
            "steps": "how many steps its plan has",
            "first": "`null`, or the first thing that is not as it was: `what` (`input`, `object`, `code`, "
            "`configuration`, `plan`, `gate`, `step` or `output`), `name`, `message`, `recorded`, `found`",
            "others": "the same of what else is not; of identical bytes, what changed nothing",
        }
    ),
    "kfm verify": Shape(
        {
            "about": "the dataset, or the file",
            "ok": "whether all is so",
            "vouched": "whether a key list vouches for the keys",
            "checks": "a list of `what`, `state` (`ok`, `bad`, `unsigned`, `missing`) and `found`",
        }
    ),
    "kfm webhooks sign": Shape({"headers": "by their names"}),
    "kfm webhooks verify": Shape(
        {
            "accepted": "whether the door would take it; if not, only `reason` and `status` follow",
            "source_id": "whose it is",
            "scheme": "`kfm`, `github` or `standard`",
            "trigger": "what made the sender send it",
            "event_type": "what it says happened",
            "sent_at": "when it was signed; null if its sender signs no time",
        }
    ),
    "kfm webhooks replay": Shape({"known": "whether it was taken before", "triggers": "the ids of those it left"}),
    "kfm triggers list": Shape(_TRIGGER, many=True),
    "kfm triggers show": Shape(_TRIGGER),
    "kfm triggers retry": Shape(RUNS),
    "kfm catalog validate": Shape(
        {
            "valid": "how many documents are what their schemas ask for",
            "unchecked": "of how many something, or all, could not be checked",
            "broken": "how many are not",
            "documents": "those that are not valid: `path`, `line`, `kind`, `verdict`, `problems`, `unchecked`",
        }
    ),
    "kfm catalog discover": Shape(
        {
            "source": "the address that was looked at",
            "kind": "`stac`, `stac-api`, `dcat` or `listing`",
            "findings": "what would be a dataset each: `id`, `kind`, `page`, `title`, `description`, `license`, "
            "`attribution`, `bbox`, `interval`, `status` (`new`, `grown`, `changed`, `known`), the `dataset` that has "
            "it, and `offers`: `name`, `uri`, `media_type`, `size`, `digest`, `status` (`new`, `changed`, "
            "`known`), `source`",
            "pages": "the documents that were read: `uri`, `digest`, `size`",
            "skipped": "how many links were passed over, by the reason",
            "draft": "with `--draft-pr` what is proposed: `state`, `branch`, `files`, `diff`, `pull`, …; else null",
        }
    ),
    **WHEN,
    **{name: Shape(*said) for name, said in promotion(RUNS).items()},
    "kfm runs cancel": Shape(RUNS),
    "kfm runs list": Shape(
        {
            "started": "when",
            "dataset": "of which dataset",
            "partition": "of which part of it; empty: the whole",
            "op": "`ingest`, `promote`, …",
            "status": "`RUNNING` or that of the receipt",
            "outcome": "`unfinished` or that of the receipt",
            "run": "its id",
        },
        many=True,
    ),
    "kfm runs show": Shape(
        {
            "run": "its [row](../../schemas/run.json); null if it had nothing to do",
            "receipt": "its [receipt](../../schemas/receipt.json); null if it is unfinished",
            "telemetry": "its [telemetry](../../schemas/run-telemetry.json); null if it is unfinished",
        }
    ),
    "kfm runs steps": Shape(
        {
            "step": "the [step](../../schemas/step.json)",
            "status": "`PENDING`, `IN_PROGRESS`, `DONE` or `FAILED`",
            "digest": "of its output, or empty",
        },
        many=True,
    ),
    "kfm refs list": Shape(
        {"ref": "its name", "version": "the digest it points to; of a switch, how it stands"}, many=True
    ),
    "kfm refs history": Shape(
        {
            "ref": "its name",
            "n": "1, 2, 3 …",
            "before": "where it was; empty: nowhere",
            "after": "where it went; empty: nowhere",
            "run_id": "the run that moved it",
            "op": "`ingest`, `promote`, …",
            "actor": "who",
            "reason": "why",
            "ts": "when",
        },
        many=True,
    ),
    "kfm cat": Shape(
        {
            "key": "the parts of the key",
            "digest": "of the entry",
            "size": "in bytes",
            "media_type": "of the entry",
        },
        many=True,
        about="Of a ref with entries and without a KEY. Otherwise the bytes themselves, as without `--json`.",
    ),
    "kfm diff": Shape(
        {
            "dataset": "its name; of the second",
            "from": "the first version; empty: nothing",
            "to": "the second",
            "same": "whether they are",
            "added": "how many keys only the second has",
            "changed": "how many have another entry there",
            "removed": "how many only the first has",
            "changes": "by key: `change` (one of these words), `key`, `before` and `after`, each the "
            "[entry](../../schemas/manifest-entry.json) or null; `rows`, as below with `by` (the columns that tell "
            "which row is which), `columns_added`, `columns_removed` and `shown` (with `--rows`: `change`, `before` "
            "and `after`); `why` rows are not told",
            "rows": "how many rows of all keys were `added`, `changed` and `removed`; null: not told",
            "why": "why rows, or more than counts, are not told",
        }
    ),
    "kfm lineage graph": Shape(
        {
            "assets": "datasets, each after what it is made of: `dataset`, `stands` (`current`; `above`: something "
            "above it is not; `behind`, `rolled back`, `withdrawn`, `never made`), `version` (empty: there is none, "
            "or it is not public), `made_at`, `level` (how open it is, with all that it is made of), `when` (what asks "
            "for it) and `outside` (sources that are no datasets)",
            "dependencies": "`of` and `to` (datasets), `how` (`reads` or `after`), `source`, `zone`, `pinned` (the "
            "version that kfm.yml names), `made_of` and `now` (versions), `stands`, `since` and `says` (for people)",
        },
        about="With `--out` only `written`.",
    ),
    "kfm lineage upstream": Shape(
        {
            "thing": "what was asked about: `kind` (version, source or ref), `id` (of a version its dataset, of a "
            "source its address) and `digest`",
            "direction": "upstream",
            "steps": "each with `of` and `to` (as `thing`), the run between them (`run_id`, `op`, `updater_id`, "
            "`finished_at`), `depth` (how many runs away `to` is) and `again` (it was met before, and is not followed)",
            "whole": "false: there is more, behind `--depth` or past 10,000 steps",
        }
    ),
    "kfm lineage downstream": Shape(
        {
            "thing": "as of `kfm lineage upstream`",
            "direction": "downstream",
            "steps": "as of `kfm lineage upstream`; the run read `of`, and made `to`",
            "whole": "as of `kfm lineage upstream`",
        }
    ),
    "kfm quarantine": Shape(
        {
            "dataset": "its name",
            "sources": "for every source something is held of: `source`, `content_hash`, `rows`, `held_rows`, `held` "
            "(the whole source), `held_rows_digest`, `counts` (by rule) and at most 200 "
            "[`findings`](../../schemas/finding.json)",
        },
        about="With `--rows` lines of JSON: `row`, `reasons`, `data`.",
    ),
    "kfm labels show": Shape(
        {
            "dataset": "its name",
            "source": "the name of the source; empty: the dataset has none",
            "address": "where the source lies",
            "level": "`public`, `generalised`, `restricted` or `closed`",
            "publishable": "whether anything of it may be published",
            "resolution": "of H3, the finest that is allowed; null: no label set one",
            "care": "the most closed word of its labels",
            "access": "the same",
            "custodians": "whose it is",
            "sealed_by": "whose key it lies under; of several custodians the first by name",
            "authorities": "who decides",
            "community_labels": "TK and BC labels",
            "expires": "the last day of the consent; empty: none ends",
            "days_left": "until then; negative: it ended; null: none ends",
            "rules": "why it is not more open",
            "labels": "those that are on it: `on` and `at` (file and line)",
            "made": "by zone: how what was made of it stands",
        },
        many=True,
    ),
    "kfm labels set": Shape(
        {
            "target": "what the label is on",
            "changed": "whether the file was changed",
            "diff": "its lines before and after",
            "order": "the id of the order that others must sign first; empty: none must",
            "recalled": "what was taken back by it: of each dataset why, how many versions, what remains, who had it",
        }
    ),
    "kfm mask preview": Shape(
        {
            "policy": "the id of the masking policy",
            "version": "its version",
            "resolution": "of the cells, after the labels",
            "cells": "how many there are",
            "publishable": "whether the labels let it be published; null if none were given",
            "rules": "why they do not",
            "throw_away_key": "whether public ids are those of a run",
            "hidden": "`records`, `by_rule`, `values` (withheld, by public column), `without_location`, "
            "`coarser_than_needed`",
            "columns": "`column`, `published` (its public name, or empty), `changed`, `withheld`, `why` (rules)",
            "records": "`row`, `place`, `before` and `after`: protected data",
        }
    ),
    "kfm mask scan": Shape(
        {
            "verdict": "`clean`, `review` or `deny`: the worst of all files",
            "files": "how many were looked at",
            "found": "of each that is not clean: `file`, `verdict` and `leaks` (`rule` and `count`)",
        }
    ),
    "kfm runs receipts": Shape(
        {"run_id": "and all other fields of a [receipt](../../schemas/receipt.json)"}, many=True, about="Newest first."
    ),
    "kfm runs receipt": Shape({"run_id": "and all other fields of a [receipt](../../schemas/receipt.json)"}),
    "kfm catalog build": Shape(
        {
            "files": "how many there are",
            "written": "of them now; the others were as they should be",
            "removed": "others",
        }
    ),
    "kfm catalog show": Shape(
        {
            "dataset": "its name",
            "title": "as declared",
            "version": "the digest of the current version",
            "versions": "how many stand",
            "path": "of its collection, below the catalog's folder",
        },
        many=True,
        about="Of one dataset: a list of STAC collections, a version each, the current one first.",
    ),
    "kfm sinks": Shape(
        {
            "sink": "its name",
            "cursor": "the last entry of the ledger that it was told of",
            "newest": "the last entry of the ledger",
            "lag": "entries of which it has not heard",
            "waiting": "of them, those that wait for a thaw",
            "stopped": "null, or what keeps it: `code`, `message`, `since`, `tries`, `not_before`",
            "dead": "what it refused: `index`, `run_id`, `dataset`, `code`, `message`, `since`, `tries`",
        },
        many=True,
        about="With `retry`: an object with `sink`, `cursor`, `lag`, `stopped` and `dead`.",
    ),
    "kfm reconcile": Shape(
        {
            "drift": "list of `place` (`storage`, `public`, `catalog`, `graph`, `sink`), `dataset`, `what` and `about`",
            "left": "of them, those that are so still",
            "errors": "as above",
        }
    ),
    "kfm runs compact": Shape({"archived_runs": "how many"}),
    "kfm doctor": Shape({"ok": "whether all is well", "checks": f"a list of {_CHECK}"}),
    "kfm config check": Shape(
        {
            "path": "of the file that was checked",
            "files": "that file, and those it names",
            "mistakes": "a list of `file` (or `environment`), `line`, `column`, `key`, `message`, `hint` and `code`; "
            "first the one that `kfm run` stops at",
        }
    ),
    "kfm config show": Shape(
        {
            "path": "of the file that was read",
            "root": "the folder its paths start at",
            "settings": "by key: `value` and `origin` (`file`, `default`, or `env` and the name)",
        }
    ),
}

NOT_JSON = {
    "kfm runs wal": "Lines of JSON by itself, a [wal-record](../../schemas/wal-record.json) each; "
    "with `--format` Avro or Parquet.",
    "kfm audit prove": "A proof, always: `entry`, `index`, the `hashes` on its way up and the signed `checkpoint`.",
    "kfm audit consistency": "A proof, always: the `old` checkpoint, the `hashes` and the newer `checkpoint`.",
    "kfm config schema": "A JSON Schema by itself; without a NAME a list of names.",
    "kfm config completion": "A script, always; of a kind of names a line each.",
    "kfm help": "Text, always.",
    "kfm lineage export": "Documents of the grammar, always: a line each; PROV is one document, Mermaid is text.",
    "kfm up": "A [receipt](../../schemas/receipt.json) a line, as runs end; with `--listen` first where it does.",
    "kfm runs signals": "A signal a line: `signal`, `ts`, `index` (of the ledger), `dataset`, `partition`, `run_id`, "
    "and `state`, `value` or `uri`; with `--metrics` a list of `name`, `kind`, `help` and `samples` (`labels`, "
    "`value`).",
    "kfm triggers watch": "A [receipt](../../schemas/receipt.json) a line, as runs end.",
    "kfm webhooks serve": "One line when it listens: `listening` (where) and `webhooks` (their names).",
    "kfm runners workflow": "YAML, always.",
}

ERROR = {
    "code": "as on [the page of errors](errors.md#errors)",
    "message": "what happened",
    "hint": "what to do",
}
