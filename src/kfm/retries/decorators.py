"""`retry` as a decorator of functions and coroutine functions."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kfm.clock import Clock
from kfm.errors import BadInput, KfmError
from kfm.retries.attempts import Observer
from kfm.retries.policy import Policy
from kfm.retries.retry_patterns import _CLOCK, Retrying

if TYPE_CHECKING:
    from kfm.retries.budget import Budget
    from kfm.retries.circuit import Breaker

F = TypeVar("F", bound=Callable[..., Any])


def retry(
    policy: Policy | None = None,
    *,
    operation: str = "",
    breaker: Breaker | None = None,
    budget: Budget | None = None,
    stop: Callable[[], KfmError | None] | None = None,
    observe: Observer | None = None,
    key: str | Callable[[], str] = "",
    clock: Clock = _CLOCK,
    chance: Callable[[], float] = random.random,
    asleep: Callable[[float], Awaitable[Any]] | None = None,
    **rules: Any,
) -> Callable[[F], F]:
    """Retry a function or a coroutine function: `@retry(attempts=5, deadline_s=60)` or `@retry(policy)`.

    `rules` are the fields of Policy. The other arguments are those of Retrying, and the operation is the function's
    name unless it is given. A generator is refused, because it does nothing before its caller asks it for values.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise BadInput("@retry lacks its parentheses, or its policy is not a Policy", hint="write @retry() above it")
    if policy is not None and rules:
        raise BadInput(f"@retry got a policy and also {', '.join(sorted(rules))}", hint="put these into the policy")
    if unknown := sorted(rules.keys() - set(Policy.__struct_fields__)):
        raise BadInput(f"@retry knows no {unknown[0]}", hint=f"one of: {', '.join(Policy.__struct_fields__)}")
    settled = policy or Policy(**rules)

    def decorated(function: F) -> F:
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise BadInput(
                f"{function.__qualname__} is a generator, which cannot be retried",
                hint="retry the function that gets its values",
            )
        name = operation or f"{function.__module__}.{function.__qualname__}"
        parts: dict[str, Any] = {"breaker": breaker, "budget": budget, "stop": stop, "observe": observe, "key": key}
        retrying = Retrying(settled, name, **parts, clock=clock, chance=chance, asleep=asleep)
        return cast("F", _wrapped(function, retrying))

    return decorated


def _wrapped(function: Callable[..., Any], retrying: Retrying) -> Callable[..., Any]:
    if iscoroutinefunction(function):
        acall = retrying.acall

        @wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            return await acall(function, *args, **kwargs)

        return asynchronous
    call = retrying.call

    @wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        return call(function, *args, **kwargs)

    return synchronous
