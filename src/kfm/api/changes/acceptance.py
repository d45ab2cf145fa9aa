"""Requests that change something: an answer that waits until what it says is durable.

The key of a request and its body are remembered in the transaction that stores its trigger. So the same request again,
at the same time or after a kill, stores nothing, and gets the same answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from kfm.api.problems import HttpProblem
from kfm.api.routes import Answer, Call, View
from kfm.api.run_routes import seen_by
from kfm.app.runs.requested_operations import Kept, is_ledgered, keep_refusal
from kfm.app.runs.trigger_inbox import SERVER, Message, accepted_request
from kfm.app.serving.act_answers import accepted, change_request_of, shown_problem, stored_trigger
from kfm.errors import KfmError
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import EndedTrigger
from kfm.parsing.documents import read
from kfm.parsing.record_shape import into

if TYPE_CHECKING:
    from kfm.api.webhooks import InboxWriter
    from kfm.app.session.session import Session

KEY = "Idempotency-Key"
MOST_KEY = 255
MOST_ASIDE = 4  # dry runs that wait or are at work
T = TypeVar("T")


class Writing(NamedTuple):
    """A body that is answered once this is written. `then` makes the answer from what the writer returns; None if
    another request with the same key came first, and this one is to be answered again."""

    what: Message | Callable[[Session], Any]
    then: Callable[[Any], Answer | None]


class Aside(NamedTuple):
    """A body that takes long to make: `work` is done in a thread of its own, without the read transaction, and `then`
    makes the answer from what it returns, in another one."""

    work: Callable[[], Any]
    then: Callable[[View, Any], Answer]


class Desk:
    """Stores what people request, and makes the answers that take long."""

    def __init__(self, writer: InboxWriter | None) -> None:
        self._writer = writer
        self._alone = threading.Lock()  # one dry run at a time
        self._waiting = 0

    async def written(self, body: Writing) -> Answer | None:
        """Return the answer once it is durable; None if it is to be asked for again."""
        if self._writer is None:
            raise HttpProblem(503, "this server stores no requests; ask one that `kfm serve` or `kfm up` started")
        done = await self._writer.written(body.what)
        if isinstance(done, KfmError):
            raise done
        return body.then(done)

    async def made(self, body: Aside) -> Callable[[View, Call], Answer]:
        """Do the work, and return the handler that answers with its result."""
        if self._waiting >= MOST_ASIDE:
            raise HttpProblem(503, "other dry runs are at work; ask again later")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def settle(result: Any) -> None:
            self._waiting -= 1
            if not done.done():  # it is done already if the client hung up
                done.set_result(result)

        def work() -> None:
            with self._alone:
                try:
                    result = body.work()
                except Exception as problem:  # the request gets it
                    result = problem
            with suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(settle, result)

        self._waiting += 1
        threading.Thread(target=work, name="dry-run", daemon=True).start()  # a server that stops does not wait for it
        result = await done
        if isinstance(result, Exception):
            raise result
        return lambda view, _call: body.then(view, result)


def body_of(call: Call, kind: type[T]) -> T:
    """Return the body of a request as a record. BadInput if it has another form."""
    return into(read(call.body or b"{}", "the body", json=True), kind)


def ids_of(view: View, call: Call, address: str) -> tuple[str, str]:
    """Return the ids by which a request is remembered: that of its key, and that of its key and body. HttpProblem if it
    has no key."""
    key = call.headers.get(KEY.lower(), "")
    if not key.strip() or len(key) > MOST_KEY or not key.isascii() or not key.isprintable():
        raise HttpProblem(
            400,
            f"send the header {KEY} with at most {MOST_KEY} characters, new for each request and the same when it is "
            "repeated",
            "idempotency.key",
        )
    return digest(canonical([view.person, key])), digest(canonical([view.person, key, address, digest(call.body)]))


def known(view: View, ids: tuple[str, str], note: str = "") -> Answer | None:
    """Return the answer to a request that was accepted before. HttpProblem if its key was used with another body."""
    inbox = view.session.state.inbox
    first = inbox.delivery(SERVER, ids[0])
    if first is None:
        return None
    if inbox.delivery(SERVER, ids[1]) is None:
        raise HttpProblem(
            422, f"this {KEY} was used for another request; send this one with a new key", "idempotency.reused"
        )
    trigger_id = first.trigger_ids[0]
    found = stored_trigger(view.session, trigger_id)
    trigger = found.trigger if isinstance(found, EndedTrigger) else found
    return answer_of(trigger_id, change_request_of(trigger) if trigger is not None else "", note)


def answer_of(trigger_id: str, change_request: str, note: str = "") -> Answer:
    said = accepted(trigger_id, change_request, note)
    return Answer(said, status=202, headers=(("Location", said.see),))


@contextmanager
def discreet(view: View, dataset: str) -> Iterator[None]:
    """Let problems say of a dataset what this person may read."""
    try:
        yield
    except KfmError as problem:
        raise shown_problem(view.session, seen_by(view), dataset, problem) from None


def accept(
    view: View,
    call: Call,
    address: str,
    judge: Callable[[], Kept],
    *,
    operation: str,
    dataset: str,
    reason: str,
    request_id: str = "",
    note: str = "",
) -> Answer:
    """Accept what `judge` returns, or keep in the ledger why it is refused, and tell the caller."""
    ids = ids_of(view, call, address)
    if (before := known(view, ids, note)) is not None:
        return before
    try:
        with discreet(view, dataset):
            kept = judge()
    except KfmError as problem:
        if not is_ledgered(problem):
            raise
        return Answer(_refusal(view, operation, dataset, problem, reason, request_id))
    trigger = msgspec.structs.replace(kept.trigger, correlation_id=call.correlation_id)
    message = accepted_request(view.session.clock.now_ms(), ids, trigger, kept.objects)

    def then(stored: Any) -> Answer | None:
        return answer_of(stored[0], kept.change_request, note) if stored is not None else None

    return Answer(Writing(message, then))


def _refusal(view: View, operation: str, dataset: str, problem: KfmError, reason: str, request_id: str) -> Writing:
    def keep(session: Session) -> object:
        return keep_refusal(
            session, operation, dataset, problem, actor=view.person, reason=reason, request_id=request_id
        )

    def then(_kept: Any) -> Answer:
        code = str(problem.fields.get("rule") or problem.code)
        raise HttpProblem(409 if problem.code == "ref.moved" else 403, str(problem.without_names()), code)

    return Writing(keep, then)
