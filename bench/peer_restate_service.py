"""The handlers Restate calls; served by hypercorn (see peer_restate.py)."""

from __future__ import annotations

from typing import Any

import restate
from probe import mark, payload

work = restate.Service("work")


def text(i: int) -> str:
    return payload(i).decode()


@work.handler()  # type: ignore[untyped-decorator]
async def chain(ctx: restate.Context, n: int) -> int:
    for i in range(n):
        await ctx.run_typed("step", text, i=i)
    return n


@work.handler()  # type: ignore[untyped-decorator]
async def wide(ctx: restate.Context, n: int) -> int:
    for start in range(0, n, 16):
        await restate.gather(*(ctx.run_typed("step", text, i=i) for i in range(start, min(n, start + 16))))
    return n


@work.handler()  # type: ignore[untyped-decorator]
async def marked(ctx: restate.Context, request: dict[str, Any]) -> int:
    """Each performed step leaves a mark, so that the first new one after a kill is seen."""

    def step(i: int) -> str:
        mark(request["marks"], i)
        return text(i)

    for i in range(request["n"]):
        await ctx.run_typed("step", step, i=i)
    return int(request["n"])


app = restate.app(services=[work])
