"""The cost of single writes, eight writers at once and a first load, beside SQL by hand.

    python benchmarks/writes.py [--quick] [--server URL] [--beside TREE]

20,000 × 384 items with texts and two attributes, of which none is declared. By hand: one table with HNSW, GIN over
``to_tsvector`` and two B-tree indexes, one prepared statement a write. Everything is durable. The systems take turns in
one run, each in processes and a database of its own on one server. Beside the time that passes stands processor time,
of Python and of all of PostgreSQL's processes, which other work on the machine changes less. ``--beside``
measures another tree of this project too, by its own environment. Results go to
``benchmarks/results/writes.{json,md}``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from command import machine, parser_of, write
from corpora import clustered
from report import table, target_table
from server import Server, ServerTime, running, settle
from targets import target
from workers import FOLDER, Process

OURS, BY_HAND = "ours", "by hand"
OPERATIONS = ("add", "change", "remove")


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of the measurement."""

    items: int = 20_000
    dimensions: int = 384
    rounds: int = 4
    """Turns of each system."""
    calls: int = 40
    """Calls of each operation in a turn."""
    writers: int = 8
    seconds: float = 4.0
    """The seconds that they write in a turn."""
    fresh: int = 1500
    """New items for a writer in a turn: a vector that is stored already would cost an index nothing."""
    loads: int = 2
    """First loads of each system."""


NORMAL = Extent()
QUICK = Extent(items=300, dimensions=32, rounds=1, calls=2, writers=2, seconds=0.1, fresh=500, loads=1)


def _written(extent: Extent) -> int:
    """The number of items written after the first load."""
    return extent.rounds * (extent.writers * extent.fresh + 2 * extent.calls)


def _process(name: str, tree: Path) -> Process:
    """One system in a process of its own (``write_systems.py``), by the environment of its tree if it has one."""
    python = tree / ".venv/bin/python"
    kind = BY_HAND if name == BY_HAND else "platform"
    command = [str(python) if python.exists() else sys.executable, str(FOLDER / "write_systems.py"), kind]
    return Process(name, command, tree)


def run(extent: Extent, server_url: str | None, beside: Path | None) -> dict[str, Any]:
    """Measure; gives what the JSON file holds."""
    trees = {OURS: FOLDER.parent, BY_HAND: FOLDER.parent} | ({_commit(beside): beside} if beside else {})
    with tempfile.TemporaryDirectory(prefix="retrieval-writes-") as folder, running(server_url) as server:
        clustered(extent.items + _written(extent), extent.dimensions, 1).corpus.save(Path(folder))
        Path(folder).chmod(0o755)
        load = os.getloadavg()[0]
        spent = ServerTime(server.url)
        bench = _Bench(extent, server, folder, trees, spent)
        loads = bench.loads()
        for name in trees:
            settle(server.url_of(_database(name)))
        single, together = bench.turns()
        about = {
            "items": extent.items, "dimensions": extent.dimensions, "writers": extent.writers, "rounds": extent.rounds,
            "calls": extent.calls * extent.rounds, "seconds": extent.seconds,
            **machine(), "load": round(load, 1), "server": dict(server.settings()),
        }  # fmt: skip
    return {"about": about, "single": single, "together": together, "loads": loads}


def _commit(tree: Path) -> str:
    """The name of the rows of another tree."""
    command = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return f"commit {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()}"


def _database(name: str) -> str:
    return f"writes_{name.replace(' ', '_')}"


@dataclass(frozen=True, slots=True)
class _Bench:
    extent: Extent
    server: Server
    folder: str
    trees: Mapping[str, Path]
    spent: ServerTime

    def loads(self) -> list[dict[str, Any]]:
        """Each system's first loads, by turns; the last one's database is kept."""
        rows = []
        for turn in range(self.extent.loads):
            for name in _ordered(list(self.trees), turn):
                with _process(name, self.trees[name]) as process:
                    url = self.server.database(_database(name))
                    process.call("install", url)
                    process.call("read", self.folder)
                    begun = self.spent.seconds()
                    times, worked = process.call("load", url, self.extent.items)
                    server = self.spent.seconds() - begun
                rows.append({"system": name, "s": times[0] / 1e3, "python cpu s": worked, "server cpu s": server})
        return [
            {"system": name, **{key: _middle(rows, name, key) for key in ("s", "python cpu s", "server cpu s")}}
            for name in self.trees
        ]

    def turns(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Single writes, and writers together, by turns."""
        single: list[dict[str, Any]] = []
        together: list[dict[str, Any]] = []
        with ExitStack() as stack:
            processes = {name: stack.enter_context(self._writers(name)) for name in self.trees}
            for turn in range(self.extent.rounds):
                for name in _ordered(list(self.trees), turn):
                    single += [self._single(name, processes[name][0], what, turn) for what in OPERATIONS]
                    together.append(self._together(name, processes[name], turn))
                    print(together[-1], file=sys.stderr, flush=True)
        return _summed(single, self.trees), _compare(together, self.trees)

    @contextlib.contextmanager
    def _writers(self, name: str) -> Iterator[list[Process]]:
        """The writers, and last a searcher; all have warmed up."""
        with ExitStack() as stack:
            processes = [stack.enter_context(_process(name, self.trees[name])) for _ in range(self.extent.writers + 1)]
            for process in processes:
                process.ask("read", self.folder)
            for number, process in enumerate(processes):
                process.answer()
                process.call("open", self.server.url_of(_database(name)))
                keys = [f"warm-{number}-{place}" for place in range(10)]
                for what in (*OPERATIONS, "search"):
                    process.call("each", what, keys, list(range(10)))
            yield processes

    def _single(self, name: str, process: Process, what: str, turn: int) -> dict[str, Any]:
        calls = range(self.extent.calls)
        keys = [f"single-{turn}-{place}" for place in calls]
        # The first items that are not loaded; a different one for a change.
        shift = self.extent.items + (2 * turn + (what == "change")) * self.extent.calls
        places = [shift + place for place in calls]
        begun = self.spent.seconds()
        times, worked = process.call("each", what, keys, places)
        server = self.spent.seconds() - begun
        return {"system": name, "what": what, "times": times, "python": worked, "server": server}

    def _together(self, name: str, processes: Sequence[Process], turn: int) -> dict[str, Any]:
        """Searches alone, then during all writes."""
        *writers, searcher = processes
        quiet, _ = searcher.call("until", "search", self.extent.seconds / 2, "q", turn * 10_000)
        begun, server = time.perf_counter(), self.spent.seconds()
        after = self.extent.items + 2 * self.extent.rounds * self.extent.calls
        for number, writer in enumerate(writers):
            first = after + (turn * len(writers) + number) * self.extent.fresh
            writer.ask("until", "add", self.extent.seconds, f"together-{turn}-{number}", first, self.extent.fresh)
        searcher.ask("until", "search", self.extent.seconds, "b", turn * 10_000 + 5_000)
        answers = [writer.answer() for writer in writers]
        busy, _ = searcher.answer()
        seconds, server = time.perf_counter() - begun, self.spent.seconds() - server
        times = [answer for times_of_writer, _ in answers for answer in times_of_writer]
        return {
            "system": name, "items": len(times), "items/s": len(times) / seconds,
            "p50 ms": float(np.percentile(times, 50)), "p95 ms": float(np.percentile(times, 95)),
            "cpu ms an item": (server + sum(worked for _, worked in answers)) * 1e3 / len(times),
            "search alone p50 ms": float(np.percentile(quiet, 50)),
            "search beside p50 ms": float(np.percentile(busy, 50)),
            "search alone p95 ms": float(np.percentile(quiet, 95)),
            "search beside p95 ms": float(np.percentile(busy, 95)),
        }  # fmt: skip


def _ordered(names: list[str], turn: int) -> list[str]:
    return names if turn % 2 == 0 else names[::-1]


def _middle(rows: Sequence[Mapping[str, Any]], name: str, key: str) -> float:
    return round(float(np.median([row[key] for row in rows if row["system"] == name])), 2)


def _summed(rows: Sequence[Mapping[str, Any]], names: Mapping[str, Path]) -> list[dict[str, Any]]:
    sums = []
    for what in OPERATIONS:
        for name in names:
            mine = [row for row in rows if row["system"] == name and row["what"] == what]
            times = [time_ for row in mine for time_ in row["times"]]
            sums.append(
                {
                    "write": what, "system": name,
                    "p50 ms": round(float(np.percentile(times, 50)), 2),
                    "p95 ms": round(float(np.percentile(times, 95)), 2),
                    "python cpu ms": round(sum(row["python"] for row in mine) * 1e3 / len(times), 2),
                    "server cpu ms": round(sum(row["server"] for row in mine) * 1e3 / len(times), 2),
                }
            )  # fmt: skip
    return sums


def _compare(rows: Sequence[Mapping[str, Any]], names: Mapping[str, Path]) -> list[dict[str, Any]]:
    keys = [key for key in rows[0] if key not in {"system", "items"}]
    return [{"system": name, **{key: _middle(rows, name, key) for key in keys}} for name in names]


def targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each target with its figure, and whether the figure meets it."""

    def of(part: str, name: str, **where: str) -> Mapping[str, Any]:
        rows = [row for row in result[part] if row["system"] == name]
        match: Mapping[str, Any] = next(row for row in rows if all(row[key] == what for key, what in where.items()))
        return match

    checks = []
    for what in OPERATIONS:
        for key in ("p50 ms", "processor"):
            costs = [_cost(of("single", name, write=what), key) for name in (OURS, BY_HAND)]
            checks.append((f"one item, {what}, {key}, times by hand", "≤", 2.0, costs[0] / max(costs[1], 0.01)))
    ours, by_hand = of("together", OURS), of("together", BY_HAND)
    checks += [
        (
            f"{result['about']['writers']} writers, items/s, times by hand",
            "≥",
            0.7,
            ours["items/s"] / by_hand["items/s"],
        ),
        (
            "a search beside them, p50, times alone",
            "≤",
            1.5,
            ours["search beside p50 ms"] / ours["search alone p50 ms"],
        ),
        ("first load, s", "≤", 7.0, of("loads", OURS)["s"]),
    ]
    return [target(what, round(reached, 2), goal, rule, at_least=rule == "≥") for what, rule, goal, reached in checks]


def _cost(row: Mapping[str, Any], key: str) -> float:
    return float(row[key]) if key != "processor" else float(row["python cpu ms"] + row["server cpu ms"])


def page(result: Mapping[str, Any]) -> str:
    """The figures for people."""
    about = result["about"]
    server = about["server"]
    opening = (
        f"{about['items']:,} × {about['dimensions']} items of about 100 words with two attributes; "
        f"{about['cores']} cores, {about['date']}, PostgreSQL {server['server_version']}, `fsync` {server['fsync']}, "
        f"`synchronous_commit` {server['synchronous_commit']}. Load of the machine before the run, of other work: "
        f"{about['load']}. By hand: one table with HNSW, GIN over `to_tsvector` and two B-tree indexes, a prepared "
        "statement a write; it keeps no BM25 and no isolation. The systems take turns in one run."
    )
    parts = [
        "# Writes",
        opening,
        "## One item",
        (
            f"{about['calls']} of each, every one durable when the call returns. Processor: of the calling process, "
            "and of all of the server's."
        ),
        table(result["single"]),
        f"## {about['writers']} writers into one collection",
        (
            f"Each a process that adds one item after the other, {about['seconds']:g} s a turn, {about['rounds']} "
            "turns, while another one searches by words and vector (20 candidates of each, fused by ranks); the "
            "platform finds items with any of the words, by hand with all of them, and the platform records its "
            "searches. All share the cores with the server."
        ),
        table(result["together"]),
        "## First load",
        "Seconds until every item can be found by both indexes.",
        table(result["loads"]),
        "## Targets",
        target_table(result["targets"]),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_of(__doc__, "a few items, to see that it works")
    parser.add_argument("--beside", type=Path, help="another tree of this project, measured too")
    options = parser.parse_args(arguments)
    result = run(QUICK if options.quick else NORMAL, options.server, options.beside)
    result["targets"] = targets(result)
    write("writes", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
