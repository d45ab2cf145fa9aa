"""kfm mask: preview what masking publishes, sign a masking policy, scan files for protected data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kfm.app.authority.signed_policies import masked_source
from kfm.app.stewards.leak_scan import denied, known_of_file, known_of_state, scan_files
from kfm.app.stewards.mask_preview import Previewed, check_picture, write_picture
from kfm.cli.operation import deploy
from kfm.cli.render import Screen, clean
from kfm.cli.session import known_dataset, opened, settings, today
from kfm.errors import EXIT_CODES, BadInput
from kfm.model import refs

if TYPE_CHECKING:
    import argparse

    from kfm.app.stewards.leak_scan import KnownFingerprints
    from kfm.app.stewards.mask_preview import Groups, Preview
    from kfm.cli.parser import Parser
    from kfm.config import Resolved


WHY = {
    "mask.record-id": "published as a public id made with the custodian's key",
    "mask.location": "published as one cell",
    "mask.accuracy": "in the words of the masking policy",
    "mask.column-unlisted": "not listed in the masking policy",
    "mask.text-unreviewed": "free text that nobody reviewed",
    "mask.value-unlisted": "values that the masking policy does not list",
    "mask.value-unreadable": "values that are not of the kind of their column",
    "mask.date": "dates made coarser",
    "mask.number": "numbers rounded",
    "mask.small-group": "values that fewer than k records of a cell share",
    "mask.location-unreadable": "no location that could be read",
    "mask.accuracy-unknown": "its accuracy is not one that the masking policy lists",
    "mask.accuracy-too-coarse": "known too roughly for any cell",
}


_KEY = "the custodian's key, env:NAME or file:PATH"


def arguments(parser: Parser) -> None:
    preview = parser.command(
        "preview",
        mask_preview,
        "Show what the public would see of a protected file, next to the original",
        "It shows protected data, to you alone: it writes nothing but the picture that --out names.",
    )
    preview.add_argument("file", metavar="FILE", help="csv, tsv, json, ndjson or geojson")
    preview.add_argument("--mask", required=True, metavar="POLICY", help="the masking policy, a YAML or JSON file")
    preview.add_argument("--labels", metavar="LABELS", help="also show what this file of labels says of it")
    preview.add_argument("--dataset", metavar="DATASET", help="the dataset whose labels apply")
    preview.add_argument("--key", metavar="REFERENCE", help=f"{_KEY}, for the public ids that a run would make")
    preview.add_argument(
        "--before", metavar="FILE", help="a published file: also show what the difference would reveal; needs --key"
    )
    preview.add_argument("--rows", type=int, default=10, metavar="N", help="how many records (default: 10; 0: all)")
    preview.add_argument("--out", metavar="FILE", help="a map of the points and their cells, as SVG, for you alone")
    scan = parser.command(
        "scan",
        leaks_scan,
        "Search a file, or every file of a folder, for protected data",
        "Exit 4 if something is found or cannot be read. It reports rules and counts, never what was found.\n"
        "It recognizes ids and places in other files, forms and digits; not reprojected or retyped data.",
    )
    scan.add_argument("path", metavar="PATH", help="a file or a folder")
    scan.add_argument("--against", metavar="FILE", help="a protected file (default: all that this installation knows)")
    scan.add_argument("--mask", metavar="POLICY", help="the masking policy of that file")
    scan.add_argument("--key", metavar="REFERENCE", help=f"{_KEY}, to mark that file with (default: a throw-away one)")
    deploy_ = parser.command(
        "deploy",
        mask,
        "Sign the masking policy of a source, as it is now",
        "Where there is a key list, a changed policy blocks every run. One steward of the custodian signs a policy\n"
        "that surely shows less; any other takes two, and the community where there is one.",
    )
    deploy_.add_argument("dataset", metavar="DATASET", help="its name in kfm.yml")
    deploy_.add_argument("source", metavar="SOURCE", help="the name of the source in it")
    deploy_.add_signing()
    deploy_.add_person("who; proves nothing, the signatures do", wants_reason=True)


def mask_preview(options: argparse.Namespace, screen: Screen) -> int:
    resolved = _installation(options)
    if options.out:
        check_picture(options.out, resolved)
    if options.before and not options.key:
        raise BadInput("--before needs --key", hint="public ids of two versions agree only under the custodian's key")
    shown = Previewed(
        options.file,
        options.mask,
        labels=options.labels or "",
        dataset=options.dataset or "",
        key=options.key or "",
        before=options.before or "",
        today=today(),
        env=os.environ,
    )
    preview = shown.preview(options.rows)
    screen.say("what follows is protected data, for a steward's eyes: do not pass it on")
    if screen.json:
        screen.data(preview)
    else:
        _tables(screen, preview, shown.policy.record_id)
    _tell(screen, preview)
    if options.out:
        write_picture(options.out, shown.picture(), resolved)
        screen.say(f"{clean(options.out)} shows the points and their cells; only you can read it")
    return 0


def _tables(screen: Screen, preview: Preview, key: str) -> None:
    screen.table(
        ("line", "record", "point", "public id", "cell", "accuracy", "metres"),
        [
            (
                one.row,
                one.before[key],
                one.place,
                one.after["id"][:8] + "…",
                one.after["cell"],
                one.after["georeferenceAccuracy"],
                one.after["coordinateUncertaintyInMeters"],
            )
            for one in preview.records
        ],
    )
    screen.line()
    screen.table(
        ("column", "published as", "changed", "withheld", "why"),
        [
            (one.column, one.published or "not published", one.changed, one.withheld, reasons(one.why))
            for one in preview.columns
        ],
    )


def reasons(rules: str) -> str:
    return "; ".join(WHY.get(rule, rule) for rule in rules.split(", ")) if rules else ""


def _tell(screen: Screen, preview: Preview) -> None:
    hidden = preview.hidden
    screen.say(f"{hidden.records} records in {preview.cells} cells of resolution {preview.resolution} or coarser")
    if hidden.without_location:
        screen.say(f"{hidden.without_location} records are shown without a place")
    if hidden.coarser_than_needed:
        screen.say(f"{hidden.coarser_than_needed} records are shown in a coarser cell than they need")
    for name, count in hidden.values.items():
        if count == hidden.records:
            screen.say(f"every value of {clean(name)} is withheld: is that what you mean?")
    _tell_groups(screen, preview.groups)
    if preview.throw_away_key:
        screen.say("public ids are made with a throw-away key: a run makes others (--key gives the custodian's)")
    if preview.publishable is None:
        screen.say("no labels were looked at: --labels tells whether anything would be published")
    elif not preview.publishable:
        screen.say(f"under these labels it would not be published: {', '.join(preview.rules)}")


def _tell_groups(screen: Screen, groups: Groups) -> None:
    by = f"by cell, {', '.join(map(clean, groups.columns))}" if groups.columns else "by cell"
    masked, published, k = groups.as_masked, groups.published, groups.k
    screen.say(f"{by}: {masked.unique} records are unique, {masked.below_k} are in groups of fewer than {k}")
    if not groups.named:
        if masked.below_k:
            screen.say("a reader who knows these columns could recognise them: name those under quasi_identifiers")
    elif groups.coarser:
        screen.say(f"{groups.coarser} of them become coarser or withheld; then {published.unique} are unique")
    if groups.named and published.cell_only:
        screen.say(f"{published.cell_only} records show none of these values, because their cell has fewer than {k}")
    if groups.counts is not None:
        screen.say(f"{groups.counts} counts are published, not records; {groups.counts_withheld} of them are withheld")
    found = groups.difference
    if found is None:
        return
    screen.say(f"since the earlier version {found.added} records came, {found.removed} went, {found.changed} changed")
    apart = found.added_below_k + found.removed_below_k
    if apart:
        screen.say(
            f"{apart} of them came or went with fewer than {k - 1} others of their group: a reader who compares the "
            "versions can tell them apart; publish such changes together"
        )


def leaks_scan(options: argparse.Namespace, screen: Screen) -> int:
    if options.against:
        if not options.mask:
            raise BadInput("--against needs --mask", hint="the masking policy says which columns are ids and places")
        known = [known_of_file(options.against, options.mask, options.key or "", os.environ)]
    else:
        known = _known_of_state(options, screen)
    result = scan_files(options.path, known)
    if screen.json:
        screen.data(result)
    else:
        screen.table(
            ("file", "verdict", "rule", "count"),
            [(one.file, one.verdict, leak.rule, leak.count) for one in result.found for leak in one.leaks],
        )
    weak = sum(one.fingerprints.weak for one in known)
    if weak:
        screen.say(f"{weak} ids are too short to be known again; their places are looked for")
    files = "1 file" if result.files == 1 else f"{result.files} files"
    if result.verdict == "clean":
        screen.say(f"nothing protected in {files}; reprojected or retyped data is not known again")
        return 0
    screen.fail(str(denied(result)))
    return EXIT_CODES["denied"]


def _known_of_state(options: argparse.Namespace, screen: Screen) -> list[KnownFingerprints]:
    if options.mask or options.key:
        raise BadInput(
            "--mask and --key are for --against", hint="what this installation knows is under keys that kfm.yml names"
        )
    with opened(options, screen, "read") as session:
        known = known_of_state(session)
    if not known:
        raise BadInput(
            "nothing protected is known here to compare with",
            hint="run a protected dataset first, or name a protected file with --against FILE --mask POLICY",
        )
    return known


def _installation(options: argparse.Namespace) -> Resolved | None:
    """Return the configuration of this folder, if there is one: a steward may preview a file anywhere."""
    try:
        return settings(options)
    except BadInput:
        if options.config or os.environ.get("KFM_CONFIG"):
            raise
        return None


def mask(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    masked_source(resolved, name, options.source)
    return deploy(options, screen, resolved, "mask", name, refs.mask(name, options.source))
