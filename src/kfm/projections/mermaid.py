"""Runs as a Mermaid flowchart. Pure.

A box shows a shortened name; a comment line next to it gives the whole name.
"""

from __future__ import annotations

from collections.abc import Iterable

from kfm.model.public_run import PublicRun

_LONGEST = 60


def chart(runs: Iterable[PublicRun]) -> str:
    """Return a flowchart: a box per item and digest, a box per run, arrows from left to right."""
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
        for each in run.used():
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
    """Return a text on one line. Line ends become codes, so that different texts stay different."""
    return "".join(letter if letter.isprintable() and letter != "%" else _code(letter) for letter in text)


def _code(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode(errors="surrogatepass"))


def safe(label: str) -> str:
    """Replace characters that Mermaid interprets by codes that it displays as the character."""
    kept = label.replace("<br/>", "\n")
    coded = "".join(
        letter if letter.isalnum() or letter in " \n.,:/_-+%…=?&()" else f"#{ord(letter)};" for letter in kept
    )
    return coded.replace("\n", "<br/>")
