"""A node of LangGraph that retries by the rules of KFM. LangGraph is imported when a node is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

import msgspec

from kfm.errors import BadInput
from kfm.retries.retry_patterns import Retrying


def reliable_node(function: Callable[..., Any], retrying: Retrying | None = None) -> Callable[..., Any]:
    """Return a node that repeats a function or coroutine function of a graph's state.

    An interrupt of the graph, such as a question to a person, is no failure and is never repeated. Give LangGraph no
    `retry_policy` of its own for this node: the two would multiply. BadInput if LangGraph is not installed.
    """
    try:
        from langgraph.errors import GraphBubbleUp
    except ImportError as problem:
        raise BadInput("LangGraph is not installed", hint="pip install langgraph") from problem
    given = retrying or Retrying(operation=getattr(function, "__qualname__", "a node"))
    policy = msgspec.structs.replace(given.policy, never=(*given.policy.never, GraphBubbleUp))
    how = given.with_policy(policy)
    if iscoroutinefunction(function):

        @wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            return await how.acall(function, *args, **kwargs)

        return asynchronous

    @wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        return how.call(function, *args, **kwargs)

    return synchronous
