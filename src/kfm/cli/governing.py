"""What stewards, auditors and keepers of keys can type; `parser` adds it to the rest."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Make(Protocol):
        def __call__(self, commands: Any, name: str, handler: str, summary: str, more: str = "") -> Any: ...

    class Group(Protocol):
        def __call__(self, commands: Any, name: str, summary: str) -> Any: ...


COMMANDS = ("gates", "keys", "labels", "leaks", "mask", "policy", "review")


def add(commands: Any, make: Make, group: Group) -> None:
    _add_stewards(commands, make, group)
    _add_labels(commands, make, group)
    _add_policy(commands, make, group)
    from kfm.cli import signing

    signing.add(commands, make, group)


def add_signing(parser: Any) -> None:
    """For what is an act where there is a key list."""
    from kfm.cli import signing

    signing.add_key(parser)
    signing.add_days(parser)


def _add_stewards(commands: Any, make: Make, group: Group) -> None:
    mask = group(commands, "mask", "Look at what masking makes of protected data")
    deploy = make(
        mask,
        "deploy",
        "deploying:mask",
        "Sign the masking policy of a source, as it is now",
        "Where there is a key list, a changed one lets nothing be run. One that surely shows less takes one steward\n"
        "of the custodian, every other one two, and the community where there is one.",
    )
    deploy.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    deploy.add_argument("source", metavar="SOURCE", help="the name of the source in it")
    _add_signing(deploy)
    preview = make(
        mask,
        "preview",
        "stewarding:mask_preview",
        "Show what the public would see of a protected file, beside what there is",
        "It shows protected data, to you alone: nothing is written but the picture, if --out asks for one.",
    )
    preview.add_argument("file", metavar="FILE", help="csv, tsv, json, ndjson or geojson")
    preview.add_argument("--mask", required=True, metavar="POLICY", help="the masking policy, a YAML or JSON file")
    preview.add_argument("--labels", metavar="LABELS", help="also tell what this file of labels says of it")
    preview.add_argument("--dataset", metavar="DATASET", help="the dataset whose labels hold")
    _add_key(preview, "for the public ids that a run would make")
    preview.add_argument("--rows", type=int, default=10, metavar="N", help="how many records (default: 10; 0: all)")
    preview.add_argument("--out", metavar="FILE", help="a map of the points and their cells, as SVG, for you alone")

    leaks = group(commands, "leaks", "Look for protected data where it should not be")
    scan = make(
        leaks,
        "scan",
        "stewarding:leaks_scan",
        "Hold a file, or every file of a folder, against what is protected",
        "Exit 4 if something is found or cannot be read. What is told is rules and counts, never what was found.\n"
        "Known again are ids and places in other files, forms and digits; not what was reprojected or retyped.",
    )
    scan.add_argument("path", metavar="PATH", help="a file or a folder")
    scan.add_argument("--against", metavar="FILE", help="a protected file (default: all that this installation knows)")
    scan.add_argument("--mask", metavar="POLICY", help="the masking policy of that file")
    _add_key(scan, "to mark that file with (default: a throw-away one)")


def _add_policy(commands: Any, make: Make, group: Group) -> None:
    policy = group(commands, "policy", "What the policies say, and why")
    check = make(
        policy,
        "check",
        "judging:policy_check",
        "Ask the policies about a dataset, or about a question in a file; changes nothing",
        "Without either: read and compile the policies in force, and ask their engine whether it answers.",
    )
    check.add_argument("what", nargs="?", metavar="FILE|DATASET", help="a question as JSON, or a dataset of kfm.yml")
    explain = make(
        policy, "explain", "judging:policy_explain", "Show every rule before Published, whether it holds, what to do"
    )
    explain.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    make(
        policy,
        "test",
        "judging:policy_test",
        "Run the tests of the policies that this installation adds",
        "By `opa` if it is installed, else in this process. Exit 1 if one fails, or if there is none.",
    )
    deploy = make(
        policy,
        "deploy",
        "deploying:policy",
        "Sign the policies that this installation adds, as they are now",
        "Where there is a key list, changed ones let nothing be done before an admin asked and another agreed.",
    )
    _add_signing(deploy)
    gates = group(commands, "gates", "The gates before the zones")
    run = make(
        gates,
        "run",
        "judging:gates_run",
        "Ask every gate on the way up about the version there is now; changes nothing",
        "Exit 4 if one says no, 7 if those whose data it is have a say and have not given it.",
    )
    run.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    run.add_argument(
        "--to", choices=("processed", "published"), default="published", help="up to where (default: published)"
    )


def _add_signing(parser: Any) -> None:
    add_signing(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger")
    parser.add_argument("--actor", default=None, metavar="NAME", help="who; proves nothing, the signatures do")


def _add_labels(commands: Any, make: Make, group: Group) -> None:
    labels = group(commands, "labels", "Look at labels, and change them")
    show = make(
        labels,
        "show",
        "labelling:show",
        "Show what may be seen of each source, why, until when, and by which label",
    )
    show.add_argument("name", nargs="?", metavar="DATASET", help="a dataset, or the address of a source (default: all)")
    change = make(
        labels,
        "set",
        "labelling:change",
        "Change one label in the file that kfm.yml names",
        "Where there is a key list it is signed, with --key: what makes things safer by one steward, what shows more\n"
        "than before by two, and the community where there is one; they sign with `kfm review approve`, and the file\n"
        "changes with the last of them. An empty text takes a field away. Comments in the file stay.",
    )
    change.add_argument("target", metavar="TARGET", help="dataset:NAME, source:ADDRESS, bytes:sha256:… or record:ID")
    change.add_argument("--sensitivity", metavar="WORD", help="public, generalised, restricted or closed")
    change.add_argument("--care", metavar="WORD", help="open, community or sacred")
    change.add_argument("--custodian", metavar="NAME", help="whose key seals it, as in kfm.yml")
    change.add_argument("--authority", metavar="TEXT", help="who decides about it")
    change.add_argument(
        "--community-label", action="append", metavar="CODE", help="TK CS, BC P, …; may be repeated, replaces all"
    )
    change.add_argument("--access", metavar="WORD", help="open, embargoed, restricted or closed")
    change.add_argument("--resolution", type=int, choices=range(16), metavar="N", help="of H3, 0 to 15: the finest")
    change.add_argument("--expires", metavar="DAY", help="the last day of the consent: 2027-06-30")
    change.add_argument("--dry-run", action="store_true", help="only show the lines that would change")
    add_signing(change)
    change.add_argument("--reason", default="", metavar="TEXT", help="why; goes into the ledger where it is signed")
    change.add_argument("--actor", default=None, metavar="NAME", help="who; default KFM_ACTOR or the user's name")


def _add_key(parser: Any, what: str) -> None:
    parser.add_argument("--key", metavar="REFERENCE", help=f"the custodian's key, env:NAME or file:PATH, {what}")
