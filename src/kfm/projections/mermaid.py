"""Runs as a flowchart in Mermaid. Pure.

A box shows what fits in it; a comment line beside gives its whole name, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from kfm.model.public_run import PublicRun

_LONGEST = 60


def chart(runs: Iterable[PublicRun]) -> str:
    """One box for each thing in each of its states, one for each run, and arrows from left to right."""
    boxes: dict[str, str] = {}
    lines = ["flowchart LR"]

    def box(whole: str, label: str, shape: str) -> str:
        if whole not in boxes:
            boxes[whole] = f"n{len(boxes)}"
            opened, closed = {"run": ("([", "])"), "input": ("[/", "/]"), "output": ("[", "]")}[shape]
            lines.append(f'  {boxes[whole]}{opened}"{safe(label)}"{closed}')
            lines.append(f"  %% {boxes[whole]} is {_flat(whole)}")
        return boxes[whole]

    for run in runs:
        what = f"{run.op}{' (dry run)' if run.dry_run else ''}<br/>{_flat(run.updater_id)} {_flat(run.updater_version)}"
        here = box(f"run {run.run_id}", f"{what}<br/>{run.started_at[:10]}", "run")
        for each in run.inputs:
            there = box(f"{each.id}#{each.checksum}", f"{_short(each.id)}<br/>{_mark(each.checksum)}", "input")
            lines.append(f"  {there} --> {here}")
        for id, digest in run.outputs():
            there = box(f"{id}#{digest}", f"{_short(id)}<br/>{_mark(digest)}", "output")
            lines.append(f"  {here} --> {there}")
    return "\n".join(lines) + "\n"


def _short(id: str) -> str:
    return _flat(id if len(id) <= _LONGEST else f"{id[:28]}…{id[-31:]}")


def _mark(digest: str) -> str:
    return digest[7:19] if digest else "nothing"


def _flat(text: str) -> str:
    """On one line, whatever is in it, and so that no two texts become one."""
    return "".join(letter if letter.isprintable() and letter != "%" else _code(letter) for letter in text)


def _code(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode(errors="surrogatepass"))


def safe(label: str) -> str:
    """What Mermaid would read as its own, as the codes that it shows as the character."""
    kept = label.replace("<br/>", "\n")
    coded = "".join(
        letter if letter.isalnum() or letter in " \n.,:/_-+%…=?&()" else f"#{ord(letter)};" for letter in kept
    )
    return coded.replace("\n", "<br/>")
