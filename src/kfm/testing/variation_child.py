"""The child process of process_variation.py: it reads a request from stdin, runs the updater, and writes the result to
stdout."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

import msgspec

from kfm.errors import KfmError
from kfm.model.updater import Updater
from kfm.testing.process_variation import VariationRequest, VariationResult
from kfm.testing.temporary_installation import TrialInstallation


def answer_of(question: VariationRequest) -> VariationResult:
    kind = _class_of(question) if question.module else None
    room = TrialInstallation(question.root, question.dataset, kind, question.window, question.partition)
    with room.open() as session:
        receipt = room.run(session)
        if receipt.status != "SUCCESS":
            return VariationResult(problem="; ".join(note.message for note in receipt.errors))
        return VariationResult(made=room.made(session, receipt))


def _class_of(question: VariationRequest) -> type[Updater]:
    try:
        module = importlib.import_module(question.module)
    except ImportError:  # a test module, whose name only pytest knows
        spec = importlib.util.spec_from_file_location(question.module, question.file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[question.module] = module
        spec.loader.exec_module(module)
    found: Any = getattr(module, question.name)
    assert isinstance(found, type)
    return found


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr  # what an updater prints is not part of the result
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=VariationRequest)
    try:
        answer = answer_of(question)
    except KfmError as problem:
        answer = VariationResult(problem=str(problem))
    out.buffer.write(msgspec.json.encode(answer))
    out.flush()


if __name__ == "__main__":
    main()
