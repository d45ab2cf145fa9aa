/** The store by itself: one contract for every backend, and what it does when the disk says no. */

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";

import { BadInput, Busy, Corrupt, StorageFailed } from "../errors.mjs";
import { digest } from "../keys.mjs";
import { b85decode, b85encode } from "../store/base85.mjs";
import { Fs, REAL, noteAt, readNote, storageFailed, writeNote } from "../store/fsio.mjs";
import { JsonlTables } from "../store/jsonl.mjs";
import { FileLock } from "../store/locks.mjs";
import { MemoryTables, successor } from "../store/memory.mjs";
import { DryObjects, FileObjects, INLINE_MAX } from "../store/objects.mjs";
import { OverlayTables } from "../store/overlay.mjs";
import { examine, mountOf } from "../store/filesystem_check.mjs";
import { SnapshotTables } from "../store/snapshot.mjs";
import { SqliteTables } from "../store/sqlite.mjs";
import { StoredState, holderIsDead, thisProcess } from "../store/state.mjs";
import { systemError } from "../store/system.mjs";

const root = fs.mkdtempSync(path.join(os.tmpdir(), "kfm-store-"));
after(() => fs.rmSync(root, { recursive: true, force: true }));
let folders = 0;
const fresh = () => {
  const folder = path.join(root, String((folders += 1)));
  fs.mkdirSync(folder);
  return path.join(folder, "state");
};

const KINDS = ["memory", "sqlite", "jsonl", "overlay-memory", "overlay-jsonl", "overlay-snapshot"];
function open(kind, name) {
  if (kind === "memory") return new MemoryTables();
  if (kind === "sqlite") return new SqliteTables(name, { busyMs: 20 });
  if (kind === "jsonl") return new JsonlTables(name);
  if (kind === "overlay-memory") return new OverlayTables(new MemoryTables());
  if (kind === "overlay-jsonl") return new OverlayTables(new JsonlTables(name));
  new SqliteTables(name).close();
  return new OverlayTables(new SnapshotTables(name));
}

function write(tables, rows, { table = "runs", durable = true } = {}) {
  tables.begin(durable);
  for (const [key, value] of Object.entries(rows)) {
    if (value === null) tables.delete(table, key);
    else tables.put(table, key, Buffer.from(value));
  }
  tables.commit();
}

const keys = (rows) => [...rows].map(([key]) => key);

// In the order of code points. UTF-16 would put the astral ones before U+E000; bytes of UTF-8 do not.
const ORDERED = [
  "", "\0", "\0a", "\x01", " ", "0", "9", "A", "Z", "_", "a", "a\0", "a/", "a0", "aa", "b", "~", "\x7f", "\x80", "\xe9",
  "\u0301", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufeff", "\uffff", "\u{10000}", "\u{1f5fa}", "\u{10fffe}",
  "\u{10ffff}", "\u{10ffff}\u{10ffff}",
];

for (const kind of KINDS) {
  test(`${kind}: a scan is in the order of code points, for every prefix, after and limit`, () => {
    const tables = open(kind, fresh());
    tables.begin();
    tables.putMany("runs", ORDERED.toReversed().map((key) => [key, Buffer.from(key)]));
    tables.commit();
    assert.deepEqual(keys(tables.scan("runs")), ORDERED);
    for (const reverse of [false, true]) {
      for (const prefix of ["", "a", "a/", "\0", "\ud7ff", "\ue000", "\uffff", "\u{10ffff}", "z"]) {
        for (const beyond of ["", "a", "a\0", "b", "\ud7ff", "\u{1f5fa}", "\u{10ffff}"]) {
          const at = ORDERED.indexOf(beyond);
          const side = (key) => !beyond || (reverse ? ORDERED.indexOf(key) < at : ORDERED.indexOf(key) > at);
          const expected = ORDERED.filter((key) => key.startsWith(prefix) && side(key));
          if (reverse) expected.reverse();
          for (const limit of [-1, 0, 1, 2, 500]) {
            const found = keys(tables.scan("runs", prefix, { after: beyond, reverse, limit }));
            assert.deepEqual(found, limit < 0 ? expected : expected.slice(0, limit));
          }
        }
      }
    }
    tables.close();
  });

  test(`${kind}: any bytes may be a value, and a rollback leaves everything as it was`, () => {
    const tables = open(kind, fresh());
    const values = [[255], [255, 255], [0], Buffer.from("null"), Buffer.from("deleted here"), [10], []];
    values.forEach((value, n) => write(tables, { [`k${n}`]: value }));
    values.forEach((value, n) => assert.deepEqual(tables.get("runs", `k${n}`), Buffer.from(value)));
    const before = [...tables.scan("runs")];
    tables.begin(false);
    tables.put("runs", "k0", Buffer.from("changed"));
    tables.delete("runs", "k1");
    tables.put("runs", "new", Buffer.from("1"));
    assert.equal(tables.get("runs", "k1"), null);
    assert.throws(() => tables.begin(), /a transaction is open already/);
    tables.rollback();
    assert.deepEqual([...tables.scan("runs")], before);
    assert.equal(tables.get("refs", "k0"), null);
    tables.close();
  });

  test(`${kind}: half a surrogate pair is no key`, () => {
    const tables = open(kind, fresh());
    tables.begin();
    for (const attempt of [
      () => tables.put("runs", "\ud800", Buffer.from("")),
      () => tables.get("runs", "a\udfff"),
      () => tables.delete("runs", "\udcff"),
      () => [...tables.scan("runs", "\ud800")],
    ]) {
      assert.throws(attempt, (problem) => problem instanceof BadInput && /a key is not valid Unicode/.test(problem.message));
    }
    tables.rollback();
    tables.close();
  });

  test(`${kind}: rows may be deleted and added while a scan goes on`, () => {
    const tables = open(kind, fresh());
    const names = Array.from({ length: 1200 }, (_, n) => String(n).padStart(5, "0"));
    tables.begin();
    tables.putMany("runs", names.map((name) => [name, Buffer.alloc(0)]));
    tables.commit();
    const seen = [];
    for (const [key] of tables.scan("runs")) {
      if (seen.length % 100 === 0) write(tables, { [key]: null, [`${key}x`]: "" }, { durable: false });
      seen.push(key);
    }
    assert.deepEqual(seen.filter((key) => !key.endsWith("x")), names);
    assert.deepEqual(seen, [...new Set(seen)].sort());
    tables.close();
  });
}

test("the text after all that begin with a prefix", () => {
  assert.equal(successor("a"), "b");
  assert.equal(successor("a\u{10ffff}"), "b");
  assert.equal(successor("\ud7ff"), "\ue000");
  assert.equal(successor("\uffff"), "\u{10000}");
  assert.equal(successor("\u{10ffff}"), "");
  assert.equal(successor(""), "");
});

test("bytes are written as Python writes them in base 85", () => {
  for (const [body, text] of [["", ""], ["00", "00"], ["ff", "{{"], ["ff010203", "{{aF6"], ["00ff10ab77", "0RIrHcK"]]) {
    assert.equal(b85encode(Buffer.from(body, "hex")), text);
    assert.equal(b85decode(text).toString("hex"), body);
  }
});

test("a note says nothing if it is not whole", () => {
  const name = fresh();
  const fd = REAL.openWrite(name);
  assert.equal(readNote(REAL, fd), 0);
  writeNote(REAL, fd, 1234567);
  assert.equal(fs.readFileSync(name, "latin1"), "00000000000001234567 290df5d5\n");
  assert.equal(readNote(REAL, fd), 1234567);
  REAL.writeAt(fd, Buffer.from("1"), 0);
  assert.equal(noteAt(REAL, name), 0);
  REAL.close(fd);
});

for (const kind of ["sqlite", "jsonl"]) {
  test(`${kind}: a second writer gets an error, and sees nothing unfinished`, (context) => {
    context.mock.method(Atomics, "wait", () => "timed-out"); // no test waits here
    const name = fresh();
    const [one, two] = [open(kind, name), open(kind, name)];
    one.begin();
    one.put("runs", "a", Buffer.from("1"));
    assert.throws(() => two.begin(), Busy);
    assert.equal(two.get("runs", "a"), null);
    one.commit();
    write(two, { b: "2" }, { durable: false });
    assert.deepEqual(keys(one.scan("runs")), ["a", "b"]);
    one.close();
    two.close();
    const again = open(kind, name);
    assert.deepEqual(keys(again.scan("runs")), ["a", "b"]);
    again.close();
  });

  test(`${kind}: a place that is a folder, or in none, is refused`, () => {
    const name = fresh();
    fs.mkdirSync(name);
    assert.throws(() => open(kind, name), StorageFailed);
    assert.throws(() => open(kind, "/proc/nowhere/state"), StorageFailed);
  });
}

test("after a failed sync the journal answers nothing, and is never synced again", () => {
  let [armed, fired, more] = [false, 0, 0];
  class Failing extends Fs {
    sync(fd) {
      if (fired) more += 1;
      if (armed) {
        fired += 1;
        throw systemError("EIO", "fdatasync");
      }
      super.sync(fd);
    }
  }
  const name = fresh();
  const tables = new JsonlTables(name, new Failing());
  write(tables, { a: "1" });
  armed = true;
  const text = "cannot write to the journal: the disk reported an I/O error";
  const failed = (problem) => problem instanceof StorageFailed && problem.message === text && problem.fields.errno === 5;
  assert.throws(() => write(tables, { b: "2" }), failed);
  armed = false;
  for (const attempt of [() => tables.get("runs", "a"), () => tables.scan("runs"), () => tables.begin()]) {
    assert.throws(attempt, failed);
  }
  tables.close();
  assert.deepEqual([fired, more], [1, 0]);
  const again = new JsonlTables(name);
  assert.equal(again.get("runs", "a").toString(), "1");
  again.close();
});

test("a line that was cut by a full disk is repaired by the next one", () => {
  class Full extends Fs {
    room = Infinity;
    write(fd, body) {
      super.write(fd, body.subarray(0, this.room));
      if (body.length > this.room) throw systemError("ENOSPC", "write");
    }
  }
  const name = fresh();
  const disk = new Full();
  const tables = new JsonlTables(name, disk);
  write(tables, { a: "1" });
  const other = new JsonlTables(name);
  disk.room = 50;
  assert.throws(() => write(tables, { b: "2" }), /cannot write to the journal: the disk is full/);
  write(other, { c: "3" });
  assert.equal(other.repairedBytes, 50);
  assert.deepEqual(keys(other.scan("runs")), ["a", "c"]);
  other.close();
});

test("a tail that was cut off by one who was killed then is cut off for good before anything is written", () => {
  let [syncs, killed] = [0, 0];
  class Killed extends Fs {
    truncate(fd, size) {
      super.truncate(fd, size);
      killed += 1;
      throw systemError("EIO", "killed here");
    }
  }
  class Counting extends Fs {
    sync(fd) {
      syncs += 1;
      super.sync(fd);
    }
  }
  const name = fresh();
  const marked = () => fs.readFileSync(`${name}.ack`, "latin1")[30] === "!";
  const open = new JsonlTables(name, new Counting());
  write(open, { a: "1" });
  for (const next of [() => open, () => new JsonlTables(name, new Counting())]) {
    fs.appendFileSync(name, "80 torn");
    assert.throws(() => new JsonlTables(name, new Killed()));
    assert.equal(marked(), true);
    syncs = 0;
    const tables = next();
    write(tables, { b: "2" }, { durable: false });
    assert.deepEqual([syncs, marked()], [1, false]);
    write(tables, { c: "3" });
  }
  assert.equal(killed, 2);
  open.close();
});

test("a look at a database leaves no file, and sees what is in its log only", () => {
  const name = fresh();
  const tables = new SqliteTables(name);
  write(tables, { a: "1" });
  for (let n = 0; n < 30; n += 1) write(tables, { [`k${n}`]: Buffer.alloc(20_000, n) }, { durable: n % 2 === 0 });
  const listed = fs.readdirSync(path.dirname(name)).sort();
  const stamps = listed.map((file) => fs.statSync(path.join(path.dirname(name), file)).mtimeMs);
  const look = new SnapshotTables(name);
  assert.deepEqual([...look.scan("runs")], [...tables.scan("runs")]);
  look.close();
  assert.deepEqual(fs.readdirSync(path.dirname(name)).sort(), listed);
  assert.deepEqual(listed.map((file) => fs.statSync(path.join(path.dirname(name), file)).mtimeMs), stamps);
  tables.close();
  const closed = new SnapshotTables(name);
  assert.equal([...closed.scan("runs")].length, 31);
  assert.throws(() => write(closed, { b: "2" }), /attempt to write a readonly database|read-only/);
  const nowhere = new SnapshotTables(path.join(root, "nothing", "here"));
  assert.deepEqual([...nowhere.scan("runs")], []);
  assert.equal(fs.existsSync(path.join(root, "nothing")), false);
});

test("large objects are files, small ones are rows, and a damaged object is reported at its end", () => {
  const name = fresh();
  const state = new StoredState(new SqliteTables(name), () => 0);
  const objects = new FileObjects(`${name}.objects`, state);
  const small = Buffer.alloc(INLINE_MAX, 1);
  const large = Buffer.alloc(INLINE_MAX + 1, 2);
  assert.equal(objects.put(small), digest(small));
  assert.equal(objects.put(large), digest(large));
  assert.deepEqual(objects.putStream([large.subarray(0, 100), large.subarray(100)]), [digest(large), large.length]);
  assert.equal(state.inlineObject(digest(large)), null);
  assert.deepEqual(fs.readdirSync(`${name}.objects/tmp`), []);
  for (const body of [small, large]) {
    const file = objects.open(digest(body));
    assert.deepEqual(Buffer.concat([file.read(10), file.read(), file.read()]), body);
    file.close();
    assert.deepEqual([objects.size(digest(body)), objects.has(digest(body))], [body.length, true]);
  }
  assert.throws(() => objects.read(digest(Buffer.from("x"))), /object sha256:2d71.* is missing/);
  assert.throws(() => objects.open("sha256:../x"), /'sha256:..\/x' is not a digest/);
  fs.renameSync(objects.path(digest(large)), `${name}.kept`);
  fs.mkdirSync(objects.path(digest(large)));
  assert.throws(() => objects.read(digest(large)), (problem) => problem instanceof Corrupt && /there is a folder in its place/.test(problem.message));
  fs.rmdirSync(objects.path(digest(large)));
  fs.renameSync(`${name}.kept`, objects.path(digest(large)));
  fs.chmodSync(objects.path(digest(large)), 0o600);
  fs.writeFileSync(objects.path(digest(large)), Buffer.alloc(INLINE_MAX + 1, 3));
  assert.throws(() => objects.read(digest(large)), Corrupt);
  const file = objects.open(digest(large));
  assert.equal(file.read(1 << 20).length, large.length);
  assert.throws(() => file.read(1 << 20), (problem) => problem instanceof Corrupt && /another digest/.test(problem.message));
  file.close();
  const dry = new DryObjects(objects);
  const made = dry.putStream([Buffer.from("new"), large]);
  assert.deepEqual([dry.has(made[0]), objects.has(made[0]), dry.size(made[0])], [true, false, large.length + 3]);
  state.close();
});

test("an object that cannot be written leaves nothing behind, and what the dead left is removed", () => {
  class Failing extends Fs {
    sync() {
      throw systemError("ENOSPC", "fdatasync");
    }
  }
  const name = fresh();
  const state = new StoredState(new MemoryTables(), () => 0);
  const scratch = `${name}.objects/tmp`;
  fs.mkdirSync(scratch, { recursive: true });
  fs.writeFileSync(`${scratch}/${os.hostname()}:${process.pid}:1-0-0`, "of a process that is gone");
  fs.writeFileSync(`${scratch}/elsewhere:1:1-0-0`, "who knows");
  const objects = new FileObjects(`${name}.objects`, state, new Failing());
  const staging = objects.stage();
  staging.write(Buffer.alloc(INLINE_MAX + 1));
  assert.throws(() => staging.commit(), /cannot store an object: the disk is full/);
  assert.deepEqual(fs.readdirSync(scratch), ["elsewhere:1:1-0-0"]);
  assert.equal(fs.existsSync(`${name}.objects/sha256`), false);
});

test("a transaction waits for nothing, and what is thrown in it takes everything along", () => {
  const state = new StoredState(new MemoryTables(), () => 5);
  assert.throws(() => state.transaction(null, {}, async (tx) => tx.touch()), /waits for nothing/);
  assert.throws(() =>
    state.transaction(null, {}, (tx) => {
      tx.acquire("a", "h:1:2", 10);
      throw new Error("no");
    }),
  );
  assert.equal(state.lease("a"), null);
  assert.deepEqual(state.acquire("a", "h:1:2", 10), { scope: "a", token: 1, holder: "h:1:2", expires_ms: 15, ttl_ms: 10 });
  state.tables.put("runs", "bad", Buffer.from('{"run_id":1}'));
  assert.throws(() => state.run("bad"), (problem) => {
    assert.equal(problem.message, "record runs/bad cannot be read: a field is not of its type");
    return problem instanceof Corrupt;
  });
});

test("a process knows itself, and who is certainly dead", () => {
  assert.equal(holderIsDead(thisProcess()), false);
  assert.equal(holderIsDead(`${os.hostname()}:${process.pid}:1`), true);
  for (const unknown of ["elsewhere:1:1", "", `${os.hostname()}:x:1`, `${os.hostname()}:1:`]) {
    assert.equal(holderIsDead(unknown), false);
  }
});

test("a lock is had by one at a time, and its file stays empty", () => {
  const name = `${fresh()}.lock`;
  const [one, two] = [new FileLock(name), new FileLock(name)];
  assert.deepEqual([one.take(), two.take(), two.take()], [true, false, false]);
  one.release();
  assert.deepEqual([two.take(), one.take()], [true, false]);
  two.close();
  assert.equal(one.take(), true);
  one.close();
  assert.deepEqual([fs.statSync(name).size, fs.statSync(name).mode & 0o777], [0, 0o600]);
  fs.writeFileSync(name, "x".repeat(2000));
  assert.throws(() => new FileLock(name).take(), /state.lock is not a lock file: it contains bytes/);
  assert.throws(() => new FileLock(path.dirname(name)).take(), { code: "EISDIR" });
});

test("an error of the system is reported in words", () => {
  const quota = Object.assign(new Error("Unknown system error -122"), { code: "Unknown system error -122", errno: -122 });
  assert.equal(storageFailed(quota, "write a file").message, "cannot write a file: the disk quota is used up");
  for (const [name, code, said] of [
    ["/nowhere/file", "ENOENT", "no such file or directory; see the system log"],
    ["/proc/self/stat/file", "ENOTDIR", "not a directory; see the system log"],
    ["/", "EISDIR", "illegal operation on a directory; see the system log"],
  ]) {
    assert.throws(() => REAL.openWrite(name), (problem) => {
      assert.equal(problem.code, code);
      assert.equal(String(storageFailed(problem, "open it")), `cannot open it: ${said}`);
      return true;
    });
  }
});

test("a place is known by its mount", () => {
  const table = fresh();
  const line = (point, kind, options) => `1 2 0:1 / ${point} rw,noatime - ${kind} src ${options}\n`;
  fs.writeFileSync(table, line("/", "ext4", "rw,nobarrier") + line(root.replaceAll("-", "\\055"), "tmpfs", "rw"));
  assert.deepEqual(mountOf(root, table), ["tmpfs", "rw,noatime,rw"]);
  assert.deepEqual(mountOf("/", table), ["ext4", "rw,noatime,rw,nobarrier"]);
  assert.deepEqual(mountOf("/", "/nowhere"), ["unknown", ""]);
  assert.deepEqual(examine(path.join(root, "not", "there")), examine(root));
});
