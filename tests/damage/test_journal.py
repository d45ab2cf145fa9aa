"""Promise 4, F05: every bit of a journal flipped, its end cut at every byte, its blocks moved about.

Each must end as what it was, as a repaired torn tail that loses nothing acknowledged, or as a refusal
that names the first bad record. Never as other content, and never as anything but a plain answer.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from random import Random

import pytest

from kfm.fsio import write_note
from tests.damage.journals import files, journal, judge
from tests.power.tally import tally
from tests.sampling import sampled

SHARDS = 9  # no divisor of a byte: each shard flips every bit of some


def noted(acked: int) -> bytes:
    fs = files(b"", b"")
    write_note(fs, fs.open_write("/state.ack"), acked)
    return fs.tree()["/state.ack"]


def record_at(offset: int) -> int:
    """The number of the record that holds this byte, from 1."""
    return bisect_right(journal().starts, offset)


def flipped(body: bytes, bit: int) -> bytes:
    changed = bytearray(body)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


def test_the_journal_is_of_a_real_run_and_sound() -> None:
    it = journal()
    assert len(it.body) > 10_000 and len(it.states) > 8
    assert it.note == noted(len(it.body))
    for note in (it.note, None):
        verdict = judge(it.body, note)
        assert (verdict.outcome, verdict.records, verdict.content) == ("whole", len(it.states) - 1, it.states[-1])
        assert verdict.left == it.body


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_every_flipped_bit_is_refused_by_the_number_of_its_record(shard: int) -> None:
    it = journal()
    wrong = []
    bits = range(shard, len(it.body) * 8, SHARDS)
    for bit in bits:
        verdict = judge(flipped(it.body, bit), it.note)
        if verdict.outcome != "refused" or verdict.records != record_at(bit >> 3):
            wrong.append((bit, verdict[:2]))
    tally("damage-journal", f"bits with the note {shard}", failures=len(wrong), flipped_bits=len(bits))
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_a_flipped_bit_is_refused_even_when_the_note_is_gone(shard: int) -> None:
    """A line says how much was synced before it, so all but the last records are as safe as with the note;
    and a flipped bit does not look like bytes that are missing. Only where it makes a zero byte at the very
    end of a sector does it: then the last records, of which no later line tells, are taken for a torn tail."""
    it = journal()
    last_told = it.starts[-4]
    bits = [*range(0, last_told * 8, 11), *range(last_told * 8, len(it.body) * 8)][shard::SHARDS]
    found: Counter[str] = Counter()
    wrong = []
    for bit in bits:
        body = flipped(it.body, bit)
        verdict = judge(body, None)
        offset, record = bit >> 3, record_at(bit >> 3)
        if verdict.outcome == "refused" and verdict.records == record:
            found["refused"] += 1
        elif verdict.outcome == "repaired" and body[offset] == 0 and (offset + 1) % 512 == 0:
            assert verdict.content == it.states[record - 1], "repaired to something that never was"
            found["taken for a torn tail"] += 1
        else:
            wrong.append((bit, verdict[:2]))
    tally(
        "damage-journal", f"bits without the note {shard}", failures=len(wrong), flipped_bits=len(bits),
        taken_for_a_torn_tail=found["taken for a torn tail"],
    )  # fmt: skip
    assert not wrong, wrong[:5]
    assert found["taken for a torn tail"] <= 2


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_an_end_cut_at_any_byte_is_refused_if_it_was_acknowledged_and_repaired_if_not(shard: int) -> None:
    it = journal()
    cuts = range(it.starts[-4] + shard, len(it.body), SHARDS)
    counts: Counter[str] = Counter()
    for size in cuts:
        body, whole = it.body[:size], bisect_right(it.starts, size) - 1
        refused = judge(body, it.note)
        assert refused.outcome == "refused" and refused.left == body, size
        assert refused.records == whole + 1, size
        lagging = (noted(it.starts[whole]), noted(it.starts[2]), b"", b"\0" * 30, it.note[:-3], it.note[3:])
        for note in (None, lagging[size % len(lagging)]):
            verdict = judge(body, note)
            assert verdict.content == it.states[whole], size
            assert verdict.outcome == ("whole" if size == it.starts[whole] else "repaired"), size
            assert verdict.left == it.body[: it.starts[whole]]
            counts[verdict.outcome] += 1
        if whole >= 1 and size > it.starts[whole]:  # one record too few for what the note says
            assert judge(body, noted(it.starts[whole] + 1)).outcome == "refused"
    tally("damage-journal", f"truncations {shard}", truncations=len(cuts) * 3, repaired=counts["repaired"])
    assert counts["repaired"] > 10_000 // SHARDS


def test_a_journal_looked_at_without_writing_is_judged_alike_and_left_alone() -> None:
    it = journal()
    random = Random(4)
    for _ in range(1500):
        body = flipped(it.body, random.randrange(len(it.body) * 8))
        if random.random() < 0.5:
            body = body[: random.randrange(len(body))]
        for note in (it.note, None, noted(it.starts[3])):
            looked, opened = judge(body, note, writable=False), judge(body, note)
            assert looked.left == body
            assert (looked.outcome == "refused") == (opened.outcome == "refused")
            assert (looked.records, looked.content) == (opened.records, opened.content)
            if opened.outcome == "refused":
                assert opened.left == body, "a refusal changed the journal"


def test_every_flipped_bit_of_the_note_is_no_note() -> None:
    it = journal()
    for bit in range(len(it.note) * 8):
        verdict = judge(it.body, flipped(it.note, bit))
        assert (verdict.outcome, verdict.content) == ("whole", it.states[-1])
    tally("damage-journal", "note", flipped_bits=len(it.note) * 8)


def rearranged(random: Random, body: bytes) -> bytes:
    """Blocks duplicated, swapped, zeroed, removed, or taken from elsewhere; of lines, sectors or any size."""
    it = journal()
    if random.random() < 0.4:
        n = random.randrange(len(it.starts) - 1)
        m = random.randrange(len(it.starts) - 1)
        one, two = (it.starts[n], it.starts[n + 1]), (it.starts[m], it.starts[m + 1])
    else:
        size = random.choice((512, 1, 17, 64, 4096))
        a, b = (random.randrange(0, len(body)) // size * size for _ in range(2))
        one, two = (a, min(a + size, len(body))), (b, min(b + size, len(body)))
    first, second = body[slice(*one)], body[slice(*two)]
    way = random.randrange(7)
    if way == 0:
        return body[: one[1]] + first + body[one[1] :]
    if way == 1:
        return body[: one[0]] + bytes(len(first)) + body[one[1] :]
    if way == 2:
        return body[: one[0]] + body[one[1] :]
    if way == 3:
        return body[: one[0]] + second + body[one[1] :]
    if way == 4:
        return body + first
    if way == 5:
        return body[: one[0]] + bytes(len(first)) + body[one[0] :]
    (a0, a1), (b0, b1) = sorted((one, two))
    return body if a1 > b0 else body[:a0] + body[b0:b1] + body[a1:b0] + body[a0:a1] + body[b1:]


def told(body: bytes) -> int:
    """How far the journal was synced, by the word of the lines that are still whole."""
    found = 0
    for line in body.split(b"\n"):
        length, _, rest = line.partition(b" ")
        digest, _, content = rest.partition(b" ")
        if length == b"%d" % len(content) and hashlib.sha256(content).hexdigest().encode() == digest:
            found = max(found, json.loads(content)[1])
    return found


@pytest.mark.parametrize("shard", sampled(range(6)))
def test_blocks_moved_about_are_never_taken_for_what_they_are_not(shard: int) -> None:
    it = journal()
    counts: Counter[str] = Counter()
    seeds = range(shard * 1_000, (shard + 1) * 1_000)
    for seed in seeds:
        random = Random(seed)
        body = rearranged(random, it.body)
        if random.random() < 0.2:
            body = rearranged(random, body)
        # Where the acknowledged part ends is in the note; without one, in the last line that can be read.
        for note in (it.note, None):
            verdict = judge(body, note)
            if verdict.outcome == "refused":
                assert verdict.left == body
                good = it.body[: it.starts[verdict.records - 1]]
                assert body.startswith(good) or len(body) < len(it.body), "a good record was called bad"
            else:
                assert verdict.content == it.states[verdict.records], f"seed {seed}: other content was accepted"
                if note is not None:
                    assert verdict.records == len(it.states) - 1, f"seed {seed}: an acknowledged record is gone"
                else:
                    assert it.starts[verdict.records] >= told(body), f"seed {seed}: what a line tells of is gone"
            counts[verdict.outcome] += 1
    tally("damage-journal", f"blocks {shard}", (seeds.start, seeds.stop), rearrangements=2 * len(seeds), **counts)
    assert counts["refused"] > len(seeds) and counts["whole"] and counts["repaired"]


def test_lines_that_were_forged_whole_do_not_chain() -> None:
    """A record of another journal, an older record again, a record with a right sum and nonsense inside."""
    it = journal()
    lines = it.body.splitlines(keepends=True)
    nonsense = b'["x",1,{"not":"rows"}]'
    forged = b"%d %s %s\n" % (len(nonsense), hashlib.sha256(nonsense).hexdigest().encode(), nonsense)
    for n in range(len(lines)):
        for line in (forged, lines[0], lines[n - 1], b"\n", b" \n", b"0  \n", b"1 2 3\n", b"\xff" * 80 + b"\n"):
            if line == lines[n]:
                continue
            body = b"".join([*lines[:n], line, *lines[n:]])
            verdict = judge(body, it.note)
            assert verdict.outcome == "refused" and verdict.records == n + 1, (n, line[:20])
