"""A checkpoint of Great Expectations that retries by the rules of KFM. The library is imported when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kfm.errors import BadInput
from kfm.retries.retry_patterns import Retrying


def reliable_checkpoint(checkpoint: Any, retrying: Retrying | None = None) -> Callable[..., Any]:
    """Return a function that runs a checkpoint, with the arguments of its `run`, and repeats it if its data cannot be
    reached.

    A result that says that expectations failed is an answer: it is returned and never repeated. BadInput if Great
    Expectations is not installed, or if this is no checkpoint.
    """
    try:
        from great_expectations import Checkpoint
    except ImportError as problem:
        raise BadInput("Great Expectations is not installed", hint="pip install great_expectations") from problem
    if not isinstance(checkpoint, Checkpoint):
        raise BadInput("this is no checkpoint of Great Expectations", hint="give the Checkpoint, not its name")
    how = retrying or Retrying(operation=f"checkpoint {checkpoint.name}")

    def run(**arguments: Any) -> Any:
        return how.call(checkpoint.run, **arguments)

    return run
