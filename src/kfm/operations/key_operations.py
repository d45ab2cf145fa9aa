"""The key list, and changes signed with its keys: operations that move a ref to bytes in the store.

`keys/list` points to the list in force, `orders/ID` to a change request with its signatures so far, `token/ID` to what
is kept of an access token. The authority that
a run asks before its commit decides whether a move is allowed, never these classes.
"""

from __future__ import annotations

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.model.operation_target import Aim
from kfm.model.records import Trigger
from kfm.model.updater import Sources
from kfm.operations.move_updater import Approval, MoveUpdater


class Signed(MoveUpdater):
    """Moves a ref from where it was when the change was signed to the bytes that were signed."""

    heeds_freeze = False
    needs_labels = False
    approval: Approval = "signature"
    ref = refs.ORDERS  # which it moves; one that ends with a slash, any below it

    def aim(self, trigger: Trigger, sources: Sources) -> Aim:
        ref, target = trigger.params.get("ref", ""), trigger.params.get("to", "")
        right = ref.startswith(self.ref) if self.ref.endswith("/") else ref == self.ref
        if not right or not is_digest(target):
            raise Refused("the request names nothing that was signed", hint="use `kfm keys`, `kfm review`, `kfm token`")
        return Aim(sources.ref(ref), target)


class Listing(Signed):
    """Replaces the key list by the next one."""

    id = "kfm-keys"
    op = "keys"
    job_type = "operation.keys"
    approval = "key-list"
    ref = refs.KEY_LIST


class Granting(Signed):
    """Keeps the record of an access token, or that it was revoked."""

    id = "kfm-token"
    op = "token"
    job_type = "operation.token"
    approval = "token"
    ref = refs.ACCESS


class Asking(Signed):
    """Stores a change request that other people must sign too."""

    id = "kfm-request"
    op = "request"
    job_type = "operation.request"


class Approving(Signed):
    id = "kfm-approve"
    op = "approve"
    job_type = "operation.approve"


class Rejecting(Signed):
    id = "kfm-reject"
    op = "reject"
    job_type = "operation.reject"


class Expiring(Signed):
    """Ends a change request whose time is over: it takes no more signatures."""

    id = "kfm-expire"
    op = "expire"
    job_type = "operation.expire"
