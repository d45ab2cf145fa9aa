"""kfm policy: what the policies decide about a dataset, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.runs.policy_checks import (
    ask_all,
    bundle_of,
    check_file,
    exit_code,
    explain,
    is_file,
    own_tests,
    policies_in_force,
)
from kfm.app.runs.run_exports import write_file
from kfm.app.session.input_checks import one_line
from kfm.cli.operation import deploy
from kfm.cli.render import Screen
from kfm.cli.session import known_dataset, opened, settings
from kfm.errors import EXIT_CODES, BadInput
from kfm.model import refs

if TYPE_CHECKING:
    import argparse

    from kfm.cli.parser import Parser
    from kfm.model.records import Decision


def arguments(parser: Parser) -> None:
    checked = parser.command(
        "check",
        policy_check,
        "Ask the policies about a dataset, or about a question in a file; changes nothing",
        "Without either: read and compile the policies in force, and test whether their engine answers.",
    )
    checked.add_argument("what", nargs="?", metavar="FILE|DATASET", help="a question as JSON, or a dataset of kfm.yml")
    explained = parser.command(
        "explain", policy_explain, "Show every rule before Published, whether it holds, and what to do"
    )
    explained.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    gates = parser.command(
        "gates",
        gates_run,
        "Ask every gate on the way up about the current version; changes nothing",
        "Exit 4 if one denies it, 7 if the owners of the data have a say and have not given it.",
    )
    gates.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    gates.add_argument(
        "--to", choices=("processed", "published"), default="published", help="up to where (default: published)"
    )
    parser.command(
        "test",
        policy_test,
        "Run the tests of the policies that this installation adds",
        "By `opa` if it is installed, else in this process. Exit 1 if one fails, or if there is none.",
    )
    bundled = parser.command(
        "bundle",
        policy_bundle,
        "Write the policies in force as a bundle for an OPA server",
        "Start the server with `opa run --server -b FILE`, and name it in policy.url. Equal policies give equal bytes.",
    )
    bundled.add_argument(
        "--out", default="kfm-policies.tar.gz", metavar="FILE", help="where to write it (default: kfm-policies.tar.gz)"
    )
    deployed = parser.command(
        "deploy",
        policy,
        "Sign the policies that this installation adds, as they are now",
        "Where there is a key list, changed policies block all work until one admin requests and another approves.",
    )
    deployed.add_signing()
    deployed.add_person("who; proves nothing, the signatures do", wants_reason=True)


def gates_run(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    with opened(options, screen, "dry", resolved, in_place=True) as session:
        found = ask_all(session, name, options.to)
        _show(screen, found)
        return exit_code(found)


def policy_check(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    if options.what is None:
        found = policies_in_force(resolved)
        if screen.json:
            screen.data(found)
        else:
            screen.fields(
                [("policies", found["policy_digest"]), ("engine", found["engine"]), ("own", ", ".join(found["own"]))]
            )
        return EXIT_CODES["done"]
    if is_file(options.what) and options.what not in resolved.config.datasets:
        decisions = [check_file(resolved, options.what)]
        _show(screen, decisions)
        return exit_code(decisions)
    name = known_dataset(options, screen, resolved, options.what)
    with opened(options, screen, "dry", resolved, in_place=True) as session:
        decisions = ask_all(session, name, "published")[-1:]
        _show(screen, decisions)
        return exit_code(decisions)


_ANSWERS = {"yes": "yes", "no": "no", "warn": "advice"}


def policy_explain(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    with opened(options, screen, "dry", resolved, in_place=True) as session:
        found = explain(session, name)
    if screen.json:
        screen.data(found)
    else:
        screen.table(
            ("gate", "rule", "holds", "asks", "what to do"),
            [
                (one.gate, one.rule, _ANSWERS[one.holds], one.asks if one.holds != "yes" else "", one.remedy)
                for one in found
            ],
        )
    return EXIT_CODES["done"]


def policy_test(options: argparse.Namespace, screen: Screen) -> int:
    engine, found = own_tests(settings(options))
    if screen.json:
        screen.data({"engine": engine, "tests": found})
    else:
        screen.table(("test", "result"), [(one.name, "ok" if one.ok else "failed") for one in found])
        screen.say(f"{len(found)} tests by {engine}")
    return EXIT_CODES["done"] if found and all(one.ok for one in found) else EXIT_CODES["failed"]


def _show(screen: Screen, decisions: list[Decision]) -> None:
    if screen.json:
        screen.data(decisions)
        return
    rows = []
    for decision in decisions:
        told = [*zip(decision.rules, decision.reasons, strict=False)] if not decision.allow else []
        rows.append((decision.gate, "yes" if decision.allow else "no", decision.id, ""))
        rows += [("", "no", rule, reason) for rule, reason in told]
        rows += [("", "advice", "", warning) for warning in decision.warnings]
        rows += [("", "must", "", duty.do) for duty in decision.obligations]
    screen.table(("gate", "answer", "rule", "why"), rows)


def policy_bundle(options: argparse.Namespace, screen: Screen) -> int:
    digest, body = bundle_of(settings(options))
    path = os.path.abspath(one_line("--out", options.out, 4000))
    if not options.out or os.path.isdir(path):
        raise BadInput("--out is not the name of a file", hint="write --out kfm-policies.tar.gz")
    size = write_file(path, [body])
    if screen.json:
        screen.data({"written": options.out, "digest": digest, "bytes": size})
    else:
        screen.say(
            f"{options.out}: policies {digest[:19]}, {size} bytes; `opa run --server -b {options.out}` serves them"
        )
    return EXIT_CODES["done"]


def policy(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    return deploy(options, screen, resolved, "policy", "policy", refs.POLICY)
