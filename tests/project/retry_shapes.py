"""What the commands of breakers and budgets write with `--json`."""

from __future__ import annotations

from tests.project.json_when import Shape

RETRIES: dict[str, Shape] = {
    "kfm breakers": Shape(
        {
            "breaker": "the operation, such as `source/` and a host",
            "state": "`closed`, `open` or `half-open`",
            "since": "when it came into this state; empty: it is closed, without failures",
            "until": "open: when one call is let through; empty: by hand; half-open: when another one is",
            "failures": "in a row",
            "why": "the code of the last failure, or the reason that a person gave",
            "who": "the process, or the person",
        },
        many=True,
        about="With `open` or `close`: one object.",
    ),
    "kfm budgets": Shape(
        {
            "budget": "the operation, such as `source/` and a host, or `step/` and an updater",
            "state": "`granting`, `spent`, or `closed` by a person",
            "tokens": "retries that are left",
            "of": "tokens when it is full",
            "since": "when it was spent or closed; empty: it grants retries",
            "granted": "retries, since the last reset",
            "why": "the code of the last failure that took a token, or the reason that a person gave",
            "who": "the process, or the person",
        },
        many=True,
        about="With `close` or `reset`: one object.",
    ),
}
