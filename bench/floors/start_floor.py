"""What ten unchanged files cost before any of our own code: python bench/floors/start_floor.py [ROUNDS]

A bare interpreter; one that loads the three libraries that reading a state, a record and a digest need; and one that
also opens a SQLite database, reads and hashes ten small files, asks ten rows about them and syncs ten small files and
their folder, as receipts are. Each in turn; the least and the median of their processor time.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile

LIBRARIES = "import apsw, hashlib, msgspec"
WORK = f"""{LIBRARIES}, os
db = apsw.Connection("state.db")
db.execute("create table if not exists done(digest text primary key, body blob)")
for i in range(10):
    name = hashlib.sha256(open(f"in{{i}}", "rb").read()).hexdigest()
    db.execute("insert or ignore into done values (?, ?)", (name, b"x" * 900))
    list(db.execute("select body from done where digest = ?", (name,)))
    with open(f"receipt{{i}}", "wb") as file:
        file.write(b"x" * 1100)
        file.flush()
        os.fdatasync(file.fileno())
    folder = os.open(".", os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
os._exit(0)
"""


def seconds(code: str, folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    codes = {"bare interpreter": "pass", "the libraries": LIBRARIES, "the libraries and the work": WORK}
    times: dict[str, list[float]] = {name: [] for name in codes}
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for i in range(10):
            with open(f"{folder}/in{i}", "w") as file:
                file.write(f"a,b\n{i},1\n" * 100)
        for _ in range(rounds):
            for name, code in codes.items():
                times[name].append(seconds(code, folder))
    bare = statistics.median(times["bare interpreter"])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"{name}: {median * 1000:.1f} ms (least {min(found) * 1000:.1f}), {median / bare:.1f} x")


if __name__ == "__main__":
    main()
