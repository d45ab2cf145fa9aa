"""What can be typed about time: `kfm up` and `kfm schedule`; `parser` adds it to the rest."""

from __future__ import annotations

from kfm.cli import governing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kfm.cli.governing import Group, Make

COMMANDS = ("freshness", "pools", "schedule", "signals", "up")


def add(commands: Any, make: Make, group: Group) -> None:
    up = make(
        commands,
        "up",
        "keeping_up:up",
        "Run the installation: schedules, sources that change, webhooks, triggers that wait, sinks that follow",
        "Stop it with Ctrl-C: the run at work is finished first; a second Ctrl-C leaves it to `kfm resume`. A second\n"
        "one on the same state stands by and takes over when the first is gone. With --once it does what is due now\n"
        "and ends, for cron, systemd timers and workflows.",
    )
    up.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    up.add_argument("--once", action="store_true", help="do what is due and what waits, and end")
    up.add_argument("--listen", metavar="ADDRESS", type=_address, help="take webhooks there, such as 127.0.0.1:8750")
    up.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM, of --listen")
    up.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    up.add_argument("--behind-proxy", action="store_true", help="a proxy before us ends TLS")
    up.add_argument("--artifacts", default=None, metavar="DIR", help="with --once: write artifacts of the runs here")

    schedule = group(commands, "schedule", "Look at schedules, and hold them")
    listed = make(
        schedule,
        "list",
        "scheduling:schedule_list",
        "List schedules: when each ran last, and when it runs next",
        "Says when something has been due for more than five minutes and nobody claimed it.",
    )
    listed.add_argument("--check", action="store_true", help="exit 3 if so: for whoever watches over `kfm up`")
    one = make(schedule, "show", "scheduling:schedule_show", "Show a schedule and its last ticks")
    one.add_argument("schedule", metavar="SCHEDULE", help="its name, see `kfm schedule list`")
    one.add_argument("--limit", type=int, default=10, metavar="N", help="how many ticks (default: 10)")
    coming = make(
        schedule,
        "next",
        "scheduling:schedule_next",
        "Tell the instants to come, in the time zone of each and in UTC",
        "What a change of the clock does to one stands beside it.",
    )
    coming.add_argument("count", nargs="?", type=int, default=10, metavar="N", help="how many (default: 10)")
    coming.add_argument("--schedule", default="", metavar="SCHEDULE", help="only of this one")
    coming.add_argument("--after", default="", metavar="INSTANT", help="after this instant (default: now)")
    make(
        schedule,
        "check",
        "scheduling:schedule_check",
        "Check every declared schedule, and tell what would change",
        "For pull requests: exit 3 if one is wrong. Nothing is written.",
    )
    for name, summary in (
        ("pause", "Hold a schedule: its ticks pass, and no run comes of them"),
        ("resume", "Let a schedule go on, from now"),
        ("trigger", "Ask for a run of a schedule now; `kfm up` does it"),
    ):
        parser = make(schedule, name, f"scheduling:schedule_{name}", summary)
        parser.add_argument("schedule", metavar="SCHEDULE", help="its name, see `kfm schedule list`")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger")
        parser.add_argument("--actor", default=None, metavar="NAME", help="who; default KFM_ACTOR or the user's name")
        if name != "trigger":
            governing.add_signing(parser)

    _add_looks(commands, make)


def _add_looks(commands: Any, make: Make) -> None:
    signals = make(
        commands,
        "signals",
        "signalling:signals",
        "Tell the signals of runs: their lifecycle, freshness, waits for pools, sizes and addresses of artifacts",
        "Every event names its entry of the ledger: with --after a collector reads on where it was. --metrics tells\n"
        "how everything stands now, in the text that Prometheus reads. Of protected data neither sizes nor names.",
    )
    signals.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    signals.add_argument("--after", type=int, default=0, metavar="N", help="behind this entry of the ledger")
    signals.add_argument("--limit", type=int, default=-1, metavar="N", help="of so many runs (default: all)")
    signals.add_argument("--metrics", action="store_true", help="numbers of now instead of events")

    pools = make(
        commands,
        "pools",
        "scheduling:pools",
        "Tell who has the slots of each pool, who waits, and since when",
        "Who waits is listed in the order in which it comes: a backfill after all others.",
    )
    pools.add_argument("pool", nargs="*", metavar="POOL", help="its name in kfm.yml (default: all)")

    fresh = make(
        commands,
        "freshness",
        "scheduling:freshness",
        "Tell how old each dataset is, how old it may be, and why it is late",
        "The age is that of what is public; each of its minutes belongs to one cause.",
    )
    fresh.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    fresh.add_argument("--check", action="store_true", help="exit 3 if one is late")


def _address(text: str) -> tuple[str, int]:
    from argparse import ArgumentTypeError

    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ArgumentTypeError("is no address: write host and port, such as 127.0.0.1:8750")
    return host, int(port)
