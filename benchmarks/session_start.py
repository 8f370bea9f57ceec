"""The time that a session waits for its principles: whole processes, from their start to their end, in turns.

    python benchmarks/session_start.py [--quick] [--server URL]

Each turn runs, in a new random order, an empty Python program, one that imports the driver alone, and
``retrieval session-start`` in a repository of a thousand commits, with few and with many principles; and
``session-end``. The database is warm. Milliseconds differ with the machine and with what else runs on it: the
processor's time differs less, and ratios within a run least. Results go to
``benchmarks/results/session_start.{json,md}``.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from command import machine, parser_of, write
from report import table
from server import running, settle

from retrieval import Feedback, Item, Settings, connect
from retrieval.apps.principles import PrincipleStore

ROOT = Path(__file__).parents[1]
MOST_MS = 1000
"""The longest that a session may wait on a quiet machine, at the median."""

EMPTY, DRIVER = "empty program", "import of the driver"
WORDS = ("sql", "testing", "react", "python", "security", "performance", "api", "docs", "errors", "cache")


@dataclass(frozen=True, slots=True)
class Extent:
    """The settings of the measurement."""

    few: int = 200
    many: int = 2_000
    commits: int = 1_000
    turns: int = 20


NORMAL = Extent()
QUICK = Extent(few=20, many=100, commits=8, turns=2)


class RunTimes(NamedTuple):
    """The time of a process, in milliseconds."""

    wall: float
    processor: float


def run(extent: Extent, server_url: str | None) -> dict[str, Any]:
    """Measure; gives what the JSON file holds."""
    with running(server_url) as server, tempfile.TemporaryDirectory() as folder:
        url = server.database("session_start", platform=True)
        for tenant, number in (("few", extent.few), ("many", extent.many)):
            asyncio.run(_fill(url, tenant, number))
        settle(url)
        _repository(Path(folder), extent.commits)
        programs = _programs(extent)
        load = os.getloadavg()[0]
        times = _in_turns(programs, Path(folder), {"RETRIEVAL_DATABASE_URL": url}, extent.turns)
        about = {
            **machine(),
            "turns": extent.turns,
            "commits": extent.commits,
            "load": round(load, 1),
            "priority": _priority(),
            "server": dict(server.settings()),
        }
    return {"about": about, "rows": _rows(times)}


def _priority() -> str:
    """Whether the run comes before whatever else the machine does, as ``chrt -f 10`` lets it."""
    if not hasattr(os, "sched_getscheduler"):
        return "ordinary"
    return "ordinary" if os.sched_getscheduler(0) == os.SCHED_OTHER else "real-time"


async def _fill(url: str, tenant: str, number: int) -> None:
    """Principles with tags and verdicts, some of them new, and traces of late."""
    chance, now = random.Random(7), datetime.now(UTC)  # noqa: S311 - repeatable data
    async with connect(url, settings=Settings(tenant=tenant, embedder="none")) as platform:
        store = await PrincipleStore.open(platform)
        collection = await platform.collection("principles")
        items = [
            Item(
                item_id=f"p-{place}",
                kind="principle",
                title=f"Principle {place}: {' '.join(chance.choices(WORDS, k=6))}",
                body="What it is about.\nAnd at length, why.",
                tags=tuple(chance.sample(WORDS, 3)),
                status="candidate" if place % 20 == 0 else "active",
                occurred_at=now - timedelta(days=chance.randrange(100)),
            )
            for place in range(number)
        ]
        for start in range(0, number, 1000):
            part = items[start : start + 1000]
            await collection.add(part)
            await platform.feedback_each(
                Feedback(collection="principles", item_id=hit.item_id, helpful=chance.random() < 0.6)
                for hit in part
                for _ in range(chance.randrange(10))
            )
        for place in range(20):
            await store.add_trace(f"Trace {place}", chance.sample(WORDS, 2), at=now - timedelta(hours=place))


def _repository(folder: Path, commits: int) -> None:
    """A repository of that many commits, with a manifest."""
    (folder / "package.json").write_text('{"dependencies": {"react": "19", "express": "5"}}')
    lines = [
        b"commit refs/heads/main\ncommitter A <a@example.org> %d +0000\n" % (1_700_000_000 + n) for n in range(commits)
    ]
    parts = []
    for place, head in enumerate(lines):
        message, text = b"Cache the pages of query %d" % place, b"x = %d\n" % place
        body = b"M 100644 inline src/module_%d.py\ndata %d\n%s\n" % (place % 50, len(text), text)
        parts.append(head + b"data %d\n%s\n" % (len(message), message) + body)
    for command, stdin in (("init", b""), ("fast-import", b"".join(parts)), ("symbolic-ref", b"")):
        more = {"init": ["-q"], "fast-import": ["--quiet"], "symbolic-ref": ["HEAD", "refs/heads/main"]}[command]
        subprocess.run(["git", "-C", str(folder), command, *more], input=stdin, check=True, capture_output=True)  # noqa: S607


def _programs(extent: Extent) -> dict[str, list[str]]:
    """Arguments of the interpreter by measured program."""
    program = "from retrieval.surfaces.cli import main; main()"
    return {
        EMPTY: ["-c", "pass"],
        DRIVER: ["-c", "import psycopg"],
        f"session-start, {extent.few:,} principles": ["-c", program, "--tenant", "few", "session-start"],
        f"session-start, {extent.many:,} principles": ["-c", program, "--tenant", "many", "session-start"],
        "session-end": ["-c", program, "--tenant", "few", "session-end", "--session", "one"],
    }


def _in_turns(
    programs: Mapping[str, Sequence[str]], folder: Path, variables: Mapping[str, str], turns: int
) -> dict[str, list[RunTimes]]:
    """The time of each program in each turn; the first turn warms up and does not count."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVAL_")}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "RETRIEVAL_EMBEDDER": "none",
        "RETRIEVAL_SESSION_START_SECONDS": "60",
        **variables,
    }
    times: dict[str, list[RunTimes]] = {name: [] for name in programs}
    chance = random.Random(1)  # noqa: S311 - an order
    for turn in range(turns + 1):
        for name in chance.sample(list(programs), len(programs)):
            timed = _timed([sys.executable, *programs[name]], folder, environment)
            if turn:
                times[name].append(timed)
    return times


def _timed(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> RunTimes:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.stderr:
        raise RuntimeError(f"{' '.join(command)}: {process.stderr.decode()}")
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return RunTimes(1000 * wall, 1000 * used)


def _rows(times: Mapping[str, Sequence[RunTimes]]) -> list[dict[str, Any]]:
    driver = times[DRIVER]
    return [
        {
            "process": name,
            "median ms": round(statistics.median(run.wall for run in each)),
            "fastest ms": round(min(run.wall for run in each)),
            "processor ms": round(statistics.median(run.processor for run in each)),
            "to the driver": round(
                statistics.median(run.processor / other.processor for run, other in zip(each, driver, strict=True)), 2
            ),
        }
        for name, each in times.items()
    ]


def page(result: Mapping[str, Any]) -> str:
    """The page that tells the result."""
    about = result["about"]
    server = ", ".join(f"{name} {value}" for name, value in about["server"].items())
    text = (
        f"Whole processes from start to end, {about['turns']} of each in turns, in a repository of "
        f"{about['commits']:,} commits; Python {about['python']}, {about['cores']} cores, load {about['load']} as it "
        f"began, {about['priority']} priority, {about['date']}. `to the driver` is the processor's time as a multiple "
        "of what importing the driver alone takes, turn by turn: it depends least on what else the machine does."
    )
    return "\n\n".join(["# Starting a session", text, table(result["rows"]), f"Server: {server}."]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the files, print the page; 1 if a session waits for too long."""
    options = parser_of(__doc__, "few principles and turns, to try it out").parse_args(arguments)
    result = run(QUICK if options.quick else NORMAL, options.server)
    write("session_start", result, page(result), options.out)
    starts = [row for row in result["rows"] if row["process"].startswith("session-start")]
    return 0 if options.quick or starts[0]["median ms"] <= MOST_MS else 1


if __name__ == "__main__":
    sys.exit(main())
