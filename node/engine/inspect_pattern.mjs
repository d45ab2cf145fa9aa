/**
 * Refuses regular expressions that a hostile value could keep busy for ever.
 *
 * Twin of src/kfm/inspection/backtracking.py, which says how: the two must refuse the same patterns, so the
 * automaton is built, and the work counted, step by step alike.
 */

import { parse, patternFlaw } from "../patterns.mjs";

const UNROLLED = 8; // repeats up to this are written out, longer ones count as loops
const MAX_WORK = 200_000;

const HINT = "rewrite it so that its repeats cannot take the same text, or make them possessive (`++`, `*+`)";

class TooHard extends Error {}

/** What may be spent on judging one pattern, the groups inside it too. */
class Work {
  #left = MAX_WORK;

  spend(work) {
    this.#left -= work;
    if (this.#left < 0) throw new TooHard("is too intricate to be judged");
  }
}

/** Why a pattern cannot be used, or empty. */
export function patternProblem(pattern) {
  const flaw = patternFlaw(pattern);
  if (flaw) return flaw;
  try {
    judge(parse(pattern), new Work());
  } catch (problem) {
    if (problem instanceof TooHard) return `${problem.message}; ${HINT}`;
    throw problem;
  }
  return "";
}

function judge(node, work, { atomic = false } = {}) {
  const automaton = new Automaton(node, work, atomic);
  const core = automaton.core();
  const reach = new Map();
  for (const position of core) reach.set(position, automaton.reach([position], core));
  if (automaton.doubled(core, reach)) throw new TooHard("can take one text in very many ways");
  if (automaton.hasLongChain(core, reach)) {
    throw new TooHard("has three or more open-ended repeats that can take the same text");
  }
}

/** A fragment is [where it may begin, where it may end, whether it may be empty], each in how many ways. */
class Automaton {
  #atomicInside;
  #work;
  #bounds;
  #any;

  /**
   * `atomic`: it matters which of several ways is found first, and engines differ in how they go round what may be
   * empty.
   */
  constructor(node, work, atomic) {
    this.#atomicInside = atomic;
    this.takes = []; // per position the characters it takes, as bits
    this.edges = []; // per position what may come next, and in how many ways
    this.#work = work;
    this.#bounds = [...boundsOf(node)].sort((a, b) => a - b);
    this.#any = (1n << BigInt(this.#bounds.length)) - 1n;
    this.#fragment(node);
  }

  // -- from the parsed pattern

  #fragment(node) {
    switch (node.kind) {
      case "chars":
        return this.#position(this.#bits(node.ranges));
      case "sequence":
        return this.#sequence(node.parts);
      case "choice":
        return this.#choice(node.parts);
      case "repeat":
        return this.#repeat(node);
      case "atomic":
        return this.#atomic(node.body);
      case "look":
        judge(node.body, this.#work, { atomic: this.#atomicInside });
    }
    return [new Map(), new Map(), 1];
  }

  #atomic(inner) {
    const isRepeat = inner.kind === "repeat";
    // A greedy loop that may end at once takes what it can and is done: only its body is tried in ways.
    judge(isRepeat && inner.least <= 1 && !inner.lazy ? inner.body : inner, this.#work, { atomic: true });
    if (isRepeat && inner.most !== 0 && mayBeEmpty(inner.body)) {
      throw new TooHard("repeats what may be empty");
    }
    const fragment = this.#position(this.#any);
    return [fragment[0], fragment[1], mayBeEmpty(inner) ? 1 : 0];
  }

  #sequence(parts) {
    let first = new Map();
    let last = new Map();
    let empty = 1;
    for (const part of parts) {
      const fragment = this.#fragment(part);
      this.#link(last, fragment[0]);
      first = sum(first, fragment[0], empty);
      last = sum(fragment[1], last, fragment[2]);
      empty = Math.min(2, empty * fragment[2]);
    }
    return [first, last, empty];
  }

  #choice(parts) {
    let first = new Map();
    let last = new Map();
    let empty = 0;
    for (const part of parts) {
      const fragment = this.#fragment(part);
      first = sum(first, fragment[0], 1);
      last = sum(last, fragment[1], 1);
      empty = Math.min(2, empty + fragment[2]);
    }
    return [first, last, empty];
  }

  #repeat(node) {
    if (node.most === 0) return [new Map(), new Map(), 1];
    const fragment = this.#fragment(node.body);
    const empty = Math.min(2, fragment[2] + (node.least === 0 ? 1 : 0));
    if (node.most === 1 && !(fragment[2] && this.#atomicInside)) return [fragment[0], fragment[1], empty];
    if (fragment[2]) throw new TooHard("repeats what may be empty");
    if (node.most === null || node.most > UNROLLED) {
      this.#link(fragment[1], fragment[0]);
      return [fragment[0], fragment[1], empty];
    }
    let last = node.least <= 1 ? fragment[1] : new Map();
    let before = fragment;
    for (let count = 2; count <= node.most; count += 1) {
      const following = this.#fragment(node.body);
      this.#link(before[1], following[0]);
      if (count >= node.least) last = sum(last, following[1], 1);
      before = following;
    }
    return [fragment[0], last, empty];
  }

  #position(characters) {
    this.#work.spend(20);
    this.takes.push(characters);
    this.edges.push(new Map());
    const here = this.takes.length - 1;
    return [new Map([[here, 1]]), new Map([[here, 1]]), 0];
  }

  #link(before, after) {
    this.#work.spend(before.size * after.size);
    for (const [one, ways] of before) {
      const edges = this.edges[one];
      for (const [other, more] of after) edges.set(other, Math.min(2, (edges.get(other) ?? 0) + ways * more));
    }
  }

  /** A set of characters as bits: one for each stretch of them that no set in the pattern divides. */
  #bits(ranges) {
    let bits = 0n;
    let at = 0;
    for (const [low, high] of ranges) {
      while (at < this.#bounds.length && this.#bounds[at] < low) at += 1;
      while (at < this.#bounds.length && this.#bounds[at] <= high) {
        bits |= 1n << BigInt(at);
        at += 1;
      }
    }
    return bits;
  }

  // -- what the automaton tells

  /** Positions on a loop, or between loops: the others are peeled off from both ends. */
  core() {
    const left = new Set(this.takes.keys());
    const before = this.takes.map(() => new Set());
    this.edges.forEach((edges, position) => {
      for (const other of edges.keys()) before[other].add(position);
    });
    const after = this.edges.map((edges) => new Set(edges.keys()));
    for (const [inward, outward] of [[before, after], [after, before]]) {
      const ends = [...left].filter((position) => disjoint(left, inward[position]));
      while (ends.length) {
        const gone = ends.pop();
        left.delete(gone);
        for (const p of outward[gone]) if (left.has(p) && disjoint(left, inward[p])) ends.push(p);
      }
    }
    return left;
  }

  /** What can be come to by at least one edge, reading only characters in `taking`. */
  reach(starts, within, taking = this.#any) {
    const found = new Set();
    const open = [...starts];
    while (open.length) {
      const edges = this.edges[open.pop()];
      this.#work.spend(edges.size + 1);
      for (const other of edges.keys()) {
        if (within.has(other) && !found.has(other) && this.takes[other] & taking) {
          found.add(other);
          open.push(other);
        }
      }
    }
    return found;
  }

  /** Whether some text leads from a position back to itself in two ways. */
  doubled(core, reach) {
    const count = this.takes.length;
    const onward = (p) => [...this.edges[p].keys()].filter((q) => core.has(q) && reach.get(q).has(p));
    const alike = [...core].filter((p) => reach.get(p).has(p)).map((p) => p * count + p);
    for (const p of core) {
      for (const [q, ways] of this.edges[p]) if (ways > 1 && reach.get(q)?.has(p)) return true;
    }
    const following = new Map(); // of pairs, each as one number
    let open = alike.slice();
    while (open.length) {
      const pair = open.pop();
      if (following.has(pair)) continue;
      const ones = onward(Math.floor(pair / count));
      const twos = onward(pair % count);
      this.#work.spend(ones.length * twos.length + 1);
      const next = [];
      for (const a of ones) for (const b of twos) if (this.takes[a] & this.takes[b]) next.push(a * count + b);
      following.set(pair, next);
      open.push(...next);
    }
    const back = new Map();
    for (const [pair, nexts] of following) {
      for (const other of nexts) {
        if (back.has(other)) back.get(other).push(pair);
        else back.set(other, [pair]);
      }
    }
    const returning = new Set();
    open = alike.slice();
    while (open.length) {
      for (const pair of back.get(open.pop()) ?? []) {
        if (returning.has(pair)) continue;
        if (Math.floor(pair / count) !== pair % count) return true;
        returning.add(pair);
        open.push(pair);
      }
    }
    return false;
  }

  /** Whether three loops follow one another, each joined to the next by text that both could take. */
  hasLongChain(core, reach) {
    const loops = [];
    for (const position of [...core].sort((a, b) => a - b)) {
      if (reach.get(position).has(position) && !loops.some((loop) => loop.has(position))) {
        loops.push(new Set([...reach.get(position)].filter((p) => reach.get(p).has(position))));
      }
    }
    const taken = loops.map((loop) => [...loop].reduce((bits, position) => bits | this.takes[position], 0n));
    const joined = loops.map((loop, one) =>
      loops.flatMap((there, other) => {
        const shared = taken[one] & taken[other];
        return one !== other && shared && !disjoint(there, this.reach(loop, core, shared)) ? [other] : [];
      }),
    );
    return joined.some((ends) => ends.some((middle) => joined[middle].length > 0));
  }
}

function disjoint(one, other) {
  const [few, many] = one.size < other.size ? [one, other] : [other, one];
  for (const item of few) if (many.has(item)) return false;
  return true;
}

function sum(ways, more, times) {
  if (!times || !more.size) return ways;
  const made = new Map(ways);
  for (const [p, n] of more) made.set(p, Math.min(2, (ways.get(p) ?? 0) + n * times));
  return made;
}

/** The first characters of the stretches that no set in a pattern divides. */
function boundsOf(node) {
  const found = new Set([0]);
  const open = [node];
  while (open.length) {
    const one = open.pop();
    if (one.kind === "chars") {
      for (const [low, high] of one.ranges) {
        found.add(low);
        found.add(high + 1);
      }
    } else if (one.parts) open.push(...one.parts);
    else if (one.body) open.push(one.body);
  }
  found.delete(0x110000);
  return found;
}

function mayBeEmpty(node) {
  switch (node.kind) {
    case "chars":
      return false;
    case "sequence":
      return node.parts.every(mayBeEmpty);
    case "choice":
      return node.parts.some(mayBeEmpty);
    case "repeat":
      return node.least === 0 || mayBeEmpty(node.body);
    case "atomic":
      return mayBeEmpty(node.body);
  }
  return true;
}
