"""The main job, start to end, on real Kansas data: `make demo`.

Serves the files of examples/kansas/data over HTTP, runs the `kfm` command on them in a fresh folder
(build/demo, or below the folder that is named), breaks a source, kills a run in the middle, resumes it,
promotes, rolls back and forward, takes a protected table to cells that the public may see, lets a schedule, a
dependency and a backfill run by themselves, and says at the end what was published, what was held and why, and how
each claim was checked.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "kansas"))

from server import Shelf, serve  # noqa: E402

COLOUR = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
STARTED = time.monotonic()


def say(text: str = "", style: str = "") -> None:
    if COLOUR and style:
        text = f"\033[{style}m{text}\033[0m"
    print(text, file=sys.stderr, flush=True)


def chapter(title: str) -> None:
    say(f"\n[{time.monotonic() - STARTED:4.1f} s] {title}", "1")


class Project:
    """A folder with a kfm.yml, and the `kfm` command in it."""

    def __init__(self, folder: Path, port: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "kansas" / "updaters", folder / "updaters", ignore=shutil.ignore_patterns("__pycache__"))
        text = (HERE / "kansas" / "kfm.yml").read_text().replace("127.0.0.1:8931", f"127.0.0.1:{port}")
        (folder / "kfm.yml").write_text(text)
        shutil.copy(HERE / "kansas" / "outline.geojson", folder)
        self.folder = folder

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "kfm.cli.main", *words]

    def kfm(self, *words: str, expect: int = 0, quiet: bool = False) -> Any:
        """Run a command; its data is read as JSON. Any other exit code than the expected one ends the demo."""
        if not quiet:
            say("  $ kfm " + shlex.join(words), "36")
        done = subprocess.run(
            self.command("--json", *words), cwd=self.folder, capture_output=True, text=True, check=False
        )
        for line in done.stderr.splitlines():
            say("    " + line[:220], "33" if expect else "")
        if done.returncode != expect:
            say(done.stdout[-2000:])
            raise SystemExit(f"demo: `kfm {shlex.join(words)}` ended with {done.returncode}, not {expect}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def run(self, *words: str, expect: int = 0) -> list[dict[str, Any]]:
        receipts: list[dict[str, Any]] = self.kfm("run", *words, expect=expect)["receipts"]
        for receipt in receipts:
            held = f", {receipt['held_rows']} rows held" if receipt["held_rows"] else ""
            say(f"    {receipt['dataset']:<17} {receipt['status']:<8} {receipt['outcome']}{held}")
        return receipts

    def title(self, dataset: str) -> str:
        """The title of a dataset as its STAC collection says it."""
        path = self.folder / "public" / "catalog" / dataset / "collection.json"
        return str(json.loads(path.read_text())["title"])

    def version(self, ref: str) -> str:
        refs = self.kfm("refs", "list", quiet=True)
        return {row["ref"]: row["version"] for row in refs}.get(ref, "")


class Protected(Project):
    """A folder with a protected table in it, and beside it one with keys."""

    def __init__(self, build: Path) -> None:
        self.folder = build / "demo-protected"
        self.safe = build / "safe"
        for folder in (self.folder, self.safe):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "protected", self.folder)
        self.safe.mkdir(mode=0o700)
        (self.safe / "society.key").touch(mode=0o600)
        (self.safe / "society.key").write_text(os.urandom(32).hex())

    def new_key(self, name: str, *words: str, signed_by: tuple[str, ...] = ()) -> None:
        signers = [word for one in signed_by for word in ("--key", str(self.safe / f"{one}.key"))]
        self.kfm("keys", "new", *words, "--out", str(self.safe / f"{name}.key"), *signers, quiet=True)

    def key(self, name: str) -> tuple[str, str]:
        return "--key", str(self.safe / f"{name}.key")


def protected_table(build: Path) -> list[str]:
    """A table with places of sites, from its steward's desk to the public."""
    chapter("A table with the places of sites: what would the public see of it?")
    project = Protected(build)
    proofs = []
    picture = str(project.safe / "preview.svg")
    seen = project.kfm("mask", "preview", "sites.csv", "--mask", "mask.yml", "--out", picture)
    one = seen["records"][0]
    say(f"    {one['before']['site']} at {one['place']} becomes {one['after']['id'][:8]}… in {one['after']['cell']}")

    chapter("It is sealed with its custodian's key, and leaves as cells; that needs people who may decide")
    steward = ("--role", "steward", "--custodian", "society")
    project.new_key("ada", "--person", "ada", "--role", "admin")
    project.new_key("olli", "--person", "olli", "--role", "operator", signed_by=("ada",))
    project.new_key("sue", "--person", "sue", *steward, signed_by=("ada",))
    project.new_key("sam", "--person", "sam", *steward, signed_by=("ada", "sue"))
    for name, purpose in (("ledger", "checkpoint"), ("attest", "attest")):
        project.new_key(name, "--purpose", purpose, signed_by=("ada",))
    project.run("sites")
    raw = [line.split(b",") for line in (project.folder / "sites.csv").read_bytes().splitlines()[1:]]

    chapter("Somebody declares a part of it once more, under another name, as public")
    (project.folder / "landmarks.csv").write_bytes(b"y,x\n" + b"".join(b"%s,%s\n" % (r[1], r[2]) for r in raw))
    project.run("landmarks", expect=4)
    proofs.append("its coordinates under another name were turned away before a byte was stored")

    chapter("Two stewards agree that the cells are published")
    project.kfm("promote", "sites", *project.key("olli"), "--reason", "cells for the public", expect=4)
    (order,) = (item for item in project.kfm("review", "list", quiet=True) if item["kind"] == "order")
    project.kfm("review", "approve", order["id"], *project.key("sue"))
    assert not project.version("published/sites"), "one steward was enough"
    project.kfm("review", "approve", order["id"], *project.key("sam"))
    assert project.version("published/sites")
    project.kfm("mask", "scan", "public")
    written = [path for name in (".kfm", "public") for path in (project.folder / name).rglob("*") if path.is_file()]
    bodies = b"".join(path.read_bytes() for path in written)
    assert not [row for row in raw if row[0] in bodies or row[1] in bodies or row[2] in bodies]
    proofs.append(f"no site and no coordinate of {len(raw)} can be read in the {len(written)} files that were written")

    chapter("Can an outsider check that? With kfm, and with a program that shares no code with it")
    project.kfm("audit", "export")
    project.kfm("verify", "sites")
    (key,) = project.kfm("audit", "verify")["keys"]
    export = project.folder / "docs" / "reports" / "audit" / "data_provenance_ledger.json"
    checked = [sys.executable, str(ROOT / "tools" / "verify_ledger.py"), str(export), "--key", key]
    say("  $ python tools/verify_ledger.py data_provenance_ledger.json --key …", "36")
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    say("    " + done.stdout.strip())
    assert done.returncode == 0, done.stderr
    proofs.append("two stewards approved it; what was signed of it and the whole ledger verify, also without our code")
    return proofs


class Timed(Project):
    """A folder whose clock is set by us, in which things run by themselves."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "days", folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("usdm-riley-county.csv", "usgs-all-week.geojson"):
            shutil.copy(HERE / "kansas" / "data" / name, folder)
        self.folder = folder

    def up(self, now: str) -> list[str]:
        """What `kfm up --once` runs at this time."""
        say(f"  $ KFM_NOW={now} kfm up --once", "36")
        done = subprocess.run(
            self.command("up", "--once", "--json"),
            cwd=self.folder, env={**os.environ, "KFM_NOW": now}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"demo: `kfm up` ended with {done.returncode}: {done.stderr}")
        receipts = [json.loads(line) for line in done.stdout.splitlines()]
        for receipt in receipts:
            say(f"    {receipt['dataset']:<17} {receipt['status']:<8} {receipt['reason']}")
        return [receipt["dataset"] for receipt in receipts]


def by_the_clock(build: Path) -> list[str]:
    """A schedule, what comes after it, and the past made up for."""
    chapter("Thursdays at half past seven in Kansas: a schedule, and a dataset that comes after another")
    project = Timed(build / "demo-days")
    (coming,) = project.kfm("schedule", "next", "1", "--after", "2026-06-03T00:00:00Z")
    say(f"    {coming['schedule']}: {coming['local']}")
    assert project.up("2026-06-03T12:00:00Z") == []
    assert project.up("2026-06-04T13:00:00Z") == ["drought", "drought-severe"]
    assert project.up("2026-06-05T13:00:00Z") == [], "what was due ran twice"
    proofs = ["a tick of a schedule ran a dataset, whose new version asked for the one that is made of it; each once"]

    chapter("A week of earthquakes, day by day: what is shown is what is executed, and it may be killed")
    shown = project.kfm("backfill", "plan", "quakes-of-the-week")
    say(f"    {shown['counts']['missing']} days are missing; plan {shown['plan'][:19]}…")
    words = ("backfill", "start", "quakes-of-the-week", "--plan", shown["plan"])
    say(f"  $ kfm {shlex.join(words)} &   then: kill -9 $!", "36")
    child = subprocess.Popen(
        project.command(*words), cwd=project.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while child.poll() is None and project.version("processed/quakes-by-day") == "":
        time.sleep(0.01)
    child.kill()
    child.wait()
    (left,) = project.kfm("backfill", "status", "quakes-of-the-week", quiet=True)
    say(f"    killed: {left['counts'].get('made', 0)} days made, {left['left']} not begun")
    done = left if left["state"] == "finished" else project.kfm("backfill", "resume", "quakes-of-the-week")
    assert done["plan"] == shown["plan"] and done["counts"] == {"made": 7}, done
    runs = [row for row in project.kfm("runs", "list", "--limit", "100", quiet=True) if row["outcome"] == "done"]
    assert len([row for row in runs if row["partition"]]) == 7, "a day was made twice"
    proofs.append("a backfill of 7 days was killed and resumed: the plan that was shown, and one run a day")
    return proofs


def with_last_line_again(body: bytes) -> bytes:
    """A new edition: one more row, and no formation gone."""
    return body + body[body.rstrip(b"\n").rindex(b"\n") + 1 :]


def without_first_event(body: bytes) -> bytes:
    """The feed a moment later: one event near Kansas was withdrawn by its network."""
    feed = json.loads(body)
    near = next(f for f in feed["features"] if "Kansas" in (f["properties"]["place"] or ""))
    feed["features"].remove(near)
    return json.dumps(feed).encode()


def killed_in_the_middle(project: Project, dataset: str) -> tuple[int, int]:
    """Start a run and SIGKILL it once some of its steps are done; returns steps done and steps planned.

    (0, 0) if the run was over before we saw it: a fast machine, or one too busy to let us look. What counts is
    what the journal of the dead says, not what was seen before.
    """
    say(f"  $ kfm run {dataset} &   then: kill -9 $!", "36")
    child = subprocess.Popen(
        project.command("run", dataset),
        cwd=project.folder,
        env={**os.environ, "KFM_EXECUTE__WINDOW": "8"},  # a durable write at least every 8 steps: more to see
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while child.poll() is None:
        done, planned = journaled(project)
        if 0 < done < planned:
            break
        time.sleep(0.005)
    child.kill()
    child.wait()
    done, planned = journaled(project)
    return (done, planned) if 0 < done < planned else (0, 0)


def journaled(project: Project) -> tuple[int, int]:
    """How many steps of the unfinished run are done, and how many there are."""
    from kfm.app.session.session import open_session
    from kfm.config import load

    with open_session(load(str(project.folder / "kfm.yml"), os.environ), mode="read") as session:
        for run in session.state.runs.unfinished():
            return sum(len(segment.done) for segment, _ in session.state.journal.segments(run.run_id)), run.steps
    return 0, 0


def interventions(project: Project, one: str, two: str) -> list[str]:
    """A text is corrected, everything is stopped and goes on by a plan, and a backup brings all of it back."""
    chapter("A published title is wrong: correct it, roll the data back, and stop everything")
    name, before = "usgs-earthquakes", project.title("usgs-earthquakes")
    project.kfm("hotfix", "new", "title", name, "--set", f"title={before} of one week")
    project.kfm("hotfix", "apply", "hotfixes/title.yml", "--reason", "it did not say which week")
    assert project.title(name) == f"{before} of one week"
    project.kfm("rollback", name, "--to", one, "--cascade", "--reason", "the withdrawal is looked at once more")
    assert project.title(name) == f"{before} of one week", "a correction was lost with a version"
    project.kfm("kill-switch", "--reason", "nobody touches anything before we know")
    project.kfm("run", name, expect=5)
    project.kfm("thaw", "--catch-up", "none", "--dry-run", "--reason", "what would be dropped?")
    project.kfm("thaw", "--catch-up", "none", "--reason", "the data were right")
    assert project.kfm("triggers", "list", quiet=True) == [], "a dropped request is still there"
    project.kfm("rollback", name, "--to", two, "--reason", "the newer edition was right")
    project.kfm("hotfix", "revert", "title", "--reason", "kfm.yml says it from now on")
    assert project.title(name) == before
    proofs = ["a title was corrected in the catalog, kept through a rollback, and taken back"]

    chapter("The disk is lost: a backup brings everything back, frozen until a person has looked")
    project.kfm("backup", "../demo-backup", "--reason", "every night")
    refs = project.kfm("refs", "list", quiet=True)
    (project.folder / ".kfm").rename(project.folder / "lost")
    project.kfm("restore", "../demo-backup", "--reason", "the disk was lost")
    assert [row for row in project.kfm("refs", "list", quiet=True) if row["ref"].startswith("p")] == [
        row for row in refs if row["ref"].startswith("p")
    ]
    project.kfm("thaw", "--reason", "everything is there")
    project.kfm("reconcile", "--repair", "--reason", "after the restore")
    project.kfm("doctor", "--deep")
    proofs.append("a lost state was restored from a backup: every ref and byte, and nothing published before a thaw")
    return proofs


def main(arguments: list[str]) -> int:
    build = Path(arguments[0]) if arguments else ROOT / "build"
    # A demo may lie on a disk that forgets, such as /tmp in memory; kfm by itself refuses to write there.
    os.environ.setdefault("KFM_ACCEPT_WEAK_STORAGE", "true")
    files = {path.name: path.read_bytes() for path in (HERE / "kansas" / "data").iterdir() if path.suffix != ".md"}
    shelf = Shelf(files)
    server = serve(shelf)
    port = server.server_address[1]
    project = Project(build / "demo", port)
    proofs: list[str] = []

    chapter("One of the five sources is broken when we first look: an error page where a table should be")
    shelf.files["usdm-riley-county.csv"] = b"<html><body>503 Service Temporarily Unavailable</body></html>\n"
    say("  What would happen? A dry run does all the reading and planning, and changes nothing.")
    foretold = project.kfm("run", "--dry-run", "kgs-tops", "usgs-earthquakes")
    first = project.run(expect=3)
    held = {r["dataset"]: r for r in first if r["outcome"] == "held"}
    assert set(held) == {"riley-drought"}, held
    made = {r["dataset"]: r["moves"] for r in first}
    for receipt in foretold["receipts"]:
        assert receipt["moves"] == made[receipt["dataset"]], "the dry run foretold something else"
    proofs.append("the dry run foretold the very digests that the real run then made")

    chapter("The publisher repairs it; everything else is unchanged, so everything else is a NOOP")
    shelf.files["usdm-riley-county.csv"] = files["usdm-riley-county.csv"]
    shelf.answers.clear()
    second = project.run()
    assert [r["outcome"] for r in second if r["dataset"] != "riley-drought"] == ["noop"] * 4
    third = project.run()
    assert all(r["outcome"] == "noop" for r in third)
    not_modified = sum(1 for _, status in shelf.answers if status == 304)
    say(f"    {not_modified} answers were 304 Not Modified: nothing was downloaded again")
    proofs.append(f"run again: 5 of 5 NOOP, {not_modified} of {len(shelf.answers)} requests answered 304")

    chapter("Publish one dataset, then take in a change of it")
    project.kfm("promote", "usgs-earthquakes", "--reason", "first edition")
    one = project.version("published/usgs-earthquakes")
    shelf.files["usgs-all-week.geojson"] = without_first_event(files["usgs-all-week.geojson"])
    project.run("usgs-earthquakes")
    project.kfm("promote", "usgs-earthquakes", "--reason", "an event was withdrawn")
    two = project.version("published/usgs-earthquakes")
    assert one and two and one != two

    chapter("That was premature: roll back, and forward again")
    project.kfm("rollback", "usgs-earthquakes", "--reason", "the withdrawal was itself an error")
    assert project.version("published/usgs-earthquakes") == one
    project.kfm("rollback", "usgs-earthquakes", "--to", two, "--reason", "no, it was right")
    assert project.version("published/usgs-earthquakes") == two
    proofs.append("rolled back and forward: each time the same digest as before, no byte was written anew")

    chapter("A new edition of the well tops arrives, and the machine is killed in the middle of it (SIGKILL)")
    done = planned = 0
    for _ in range(20):  # a run that was over too soon has committed: then the next edition arrives
        shelf.files["kgs-arroyo-tops.csv"] = with_last_line_again(shelf.files["kgs-arroyo-tops.csv"])
        done, planned = killed_in_the_middle(project, "kgs-tops")
        if done:
            break
        say("    it was over before it could be killed; another edition")
    assert done, "twenty runs were over before they could be killed"
    say(f"    killed with {done} of {planned} steps done; nothing of it is published")
    resumed = project.kfm("resume")["receipts"]
    assert [r["status"] for r in resumed] == ["SUCCESS"], resumed
    undisturbed = Project(build / "demo-undisturbed", port)
    undisturbed.kfm("run", "kgs-tops", quiet=True)
    after_crash, smooth = project.version("processed/kgs-tops"), undisturbed.version("processed/kgs-tops")
    assert after_crash and after_crash == smooth, "the resumed run made other bytes than an undisturbed one"
    proofs.append(f"killed after {done} of {planned} steps, resumed: the same version as an undisturbed run elsewhere")

    chapter("Is everything still what it was? Read every stored byte")
    project.kfm("doctor", "--deep")
    proofs.append("every row, every link of the ledger and every object was read and is intact")
    proofs += interventions(project, one, two)
    server.shutdown()
    proofs += protected_table(build)
    proofs += by_the_clock(build)
    summary(project, first, proofs)
    if os.environ.get("SERVE"):
        chapter("Look at it: the API, STAC and the pages are open until Ctrl-C")
        return subprocess.run(project.command("serve"), cwd=project.folder, check=False).returncode
    return 0


def summary(project: Project, first: list[dict[str, Any]], proofs: list[str]) -> None:
    refs = project.kfm("refs", "list", quiet=True)
    say("\n" + "─" * 78)
    say("Published and processed", "1")
    for row in refs:
        if row["ref"].startswith(("processed/", "published/")):
            say(f"  {row['ref']:<30} {row['version'][:23]}…")
    say("Held back in the first run, and why", "1")
    for receipt in first:
        if receipt["errors"]:
            why = receipt["errors"][0]["message"].partition(";")[0]
            say(f"  {receipt['dataset']:<17} {why} (until it was repaired)")
        elif receipt["held_rows"]:
            look = f"kfm quarantine {receipt['dataset']}"
            say(f"  {receipt['dataset']:<17} {receipt['held_rows']} rows against the contract: {look}")
    say("Shown", "1")
    for proof in proofs:
        say(f"  ✓ {proof}", "32")
    say("Where to look", "1")
    place = os.path.relpath(project.folder)
    say(f"  cd {place} && alias kfm={os.path.relpath(sys.executable, project.folder).replace('python', 'kfm')}")
    say("  kfm runs list · kfm quarantine noaa-stations · kfm refs history published/usgs-earthquakes")
    say(f"  {place}/public    what others may read")
    say(f"  {place}/.kfm      state, objects, receipts, artifacts")
    say(f"\n{time.monotonic() - STARTED:.1f} s in all")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
