"""The inbox: waiting and ended triggers, accepted deliveries, and the last fetch of each source."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import msgspec

from kfm.model.records import Checkpoint, Delivery, EndedTrigger, Trigger
from kfm.store.codec import Repository, exact


class Inbox(Repository):
    """Reads triggers, accepted deliveries, and the last fetch of each source."""

    def waiting(self, dataset: str = "") -> Iterator[Trigger]:
        found = self._many("inbox", Trigger, f"{dataset}/" if dataset else "")
        return found if dataset else iter(sorted(found, key=attrgetter("trigger_id")))

    def kept(self, trigger: Trigger) -> Trigger | None:
        return self._one("inbox", f"{trigger.dataset}/{trigger.trigger_id}", Trigger)

    def ended(self, trigger_id: str) -> EndedTrigger | None:
        return self._one("triggers", trigger_id, EndedTrigger)

    def all_ended(self, *, reverse: bool = False, limit: int = -1) -> Iterator[EndedTrigger]:
        return self._many("triggers", EndedTrigger, reverse=reverse, limit=limit)

    def delivery(self, source_id: str, delivery_id: str) -> Delivery | None:
        return self._one("deliveries", f"{source_id}/{delivery_id}", Delivery)

    def deliveries(self) -> Iterator[Delivery]:
        return self._many("deliveries", Delivery)

    def is_empty(self) -> bool:
        """Return whether no ended trigger and no delivery is stored."""
        return not any(True for name in ("triggers", "deliveries") for _ in self._tables.scan(name, "", limit=1))

    def pruned_at(self) -> int:
        return int(self._state.meta("pruned_at") or 0)

    def dropped_until(self) -> int:
        return int(self._state.meta("dropped_until") or 0)

    def checkpoint(self, uri: str) -> Checkpoint | None:
        return self._one("checkpoints", uri, Checkpoint)


class InboxTx(Inbox):
    """Writes triggers, accepted deliveries and fetches, inside an open transaction."""

    def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._tables.put("checkpoints", checkpoint.uri, exact(checkpoint))

    def keep(self, trigger: Trigger) -> Trigger:
        """Store a trigger until a run of it ends, with a new id if it has none; return it."""
        if not trigger.trigger_id:
            trigger = msgspec.structs.replace(trigger, trigger_id=f"{self._state.next('trigger'):012d}")
        self._tables.put("inbox", f"{trigger.dataset}/{trigger.trigger_id}", exact(trigger))
        self._state.note_kept(trigger)
        return trigger

    def finish(self, trigger: Trigger, run_id: str) -> None:
        """Move a trigger from the inbox to the ended ones, with the run that it started."""
        kept = self.kept(trigger) if trigger.trigger_id else None
        if kept is not None:
            self._tables.delete("inbox", f"{kept.dataset}/{kept.trigger_id}")
            self._tables.put("triggers", kept.trigger_id, exact(EndedTrigger(trigger=kept, run_id=run_id)))

    def withdraw(self, trigger: Trigger) -> None:
        """Remove a trigger, waiting or ended: another row keeps it."""
        if self.kept(trigger) is not None:
            self._tables.delete("inbox", f"{trigger.dataset}/{trigger.trigger_id}")
        if self.ended(trigger.trigger_id) is not None:
            self._tables.delete("triggers", trigger.trigger_id)

    def take_delivery(self, delivery: Delivery) -> None:
        self._tables.put("deliveries", f"{delivery.source_id}/{delivery.delivery_id}", exact(delivery))

    def forget_delivery(self, delivery: Delivery) -> None:
        self._tables.delete("deliveries", f"{delivery.source_id}/{delivery.delivery_id}")

    def forget_ended(self, ended: EndedTrigger) -> None:
        self._tables.delete("triggers", ended.trigger.trigger_id)

    def note_dropped(self, until_ms: int) -> None:
        """Record the time before which ids of deliveries were dropped. It never goes back."""
        if until_ms > self.dropped_until():
            self._tables.put("meta", "dropped_until", b"%d" % until_ms)

    def note_pruned(self, now_ms: int) -> None:
        self._tables.put("meta", "pruned_at", b"%d" % now_ms)
