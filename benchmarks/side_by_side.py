"""The platform beside its peers, on the same server, with the same vectors and texts, interleaved in one run.

    python benchmarks/side_by_side.py [DATA] [--peers-python PATH] [--quick]

DATA is the folder that holds scifact in BEIR's format; without it hybrid quality is not measured. ``--peers-python`` is
the Python of the environment that ``requirements-peers.txt`` was installed into; without it only the platform and
pgvector by hand are compared. Results go to ``benchmarks/results/side_by_side.{json,md}``.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import headline
import numpy as np
from command import RESULTS, machine, parser_of, say, write, write_json
from corpora import QuestionCorpus, clustered
from hybrid_quality import measure_quality
from interleaved import Call, K, measure
from numpy.typing import NDArray
from overhead import measure_overhead
from peers import FOREIGN, PEERS
from report import side_by_side_page
from server import Server, running, settle, table_bytes
from targets import side_by_side_targets
from workers import FOLDER, PeerError, Worker, installed

Keep = Callable[[Mapping[str, Any]], None]

CACHE = FOLDER / ".cache"

FILTERS: Mapping[str, str] = {
    "0.1 %": "thousandth-0",
    "0.5 %": "two-hundredth-0",
    "1 %": "hundredth-0",
    "2 %": "fiftieth-0",
    "10 %": "tenth-0",
    "50 %": "half-0",
}
"""The category by the share of the items that have it, independent of the question."""

FAR = "2 %, far from the question"
ALL = "100 %"


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the measurement."""

    items: int
    dimensions: int
    questions: int
    """Unfiltered; a filter and a hybrid search get half of them."""
    warm_up: int
    filters: tuple[str, ...] = (*FILTERS, FAR)

    @property
    def fewer(self) -> int:
        """Questions of a filter, of hybrid search."""
        return max(1, self.questions // 2)


NORMAL = Size(items=20_000, dimensions=384, questions=200, warm_up=20)
QUICK = Size(items=400, dimensions=32, questions=6, warm_up=1, filters=("2 %", FAR))


_PEERS = ("langchain", "llama", "faiss", "pgvector", "lancedb", "chromadb")


def run(size: Size, data: Path | None, peers_python: str | None, server_url: str | None, keep: Keep) -> dict[str, Any]:
    """Measure everything and return the content of the JSON file. ``keep`` gets the result so far after each part."""
    corpus = clustered(size.items, size.dimensions, size.questions)
    names = [name for name in PEERS if installed(name, peers_python)]
    with running(server_url) as server, contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(name, peers_python)) for name in names]
        result: dict[str, Any] = {"about": about(server, size, peers_python)}
        result["ingest"] = ingest(server, workers, corpus)
        keep(result)
        result |= searches(workers, corpus, size)
        keep(result)
        result["overhead"] = measure_overhead(server, corpus, size.questions)
        keep(result)
        result["quality"] = measure_quality(server, data, peers_python, CACHE, say)
    result["targets"] = side_by_side_targets(result)
    return result


def ingest(server: Server, workers: Sequence[Worker], corpus: QuestionCorpus) -> list[dict[str, Any]]:
    """Load every system, one after the other: seconds until both indexes answer, and PostgreSQL's bytes an item."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        corpus.corpus.save(Path(folder))
        for number, worker in enumerate(workers):
            url = server.database(f"peer_{number}", platform=worker.name == "ours")
            stages = worker.load(url, Path(folder))
            say(f"{worker.name}: {len(corpus.corpus):,} items in {stages['total']:.1f} s")
            settle(url)
            size = round(table_bytes(url) / len(corpus.corpus)) or None
            seconds = {name: round(seconds, 2) for name, seconds in stages.items()}
            rows.append({"system": worker.name, "bytes_an_item": size, **seconds})
            worker.call("open")
    return rows


def searches(workers: Sequence[Worker], corpus: QuestionCorpus, size: Size) -> dict[str, Any]:
    """Unfiltered, by filter, hybrid."""
    plain = measure(workers, lambda worker: worker.plain, plain_calls(corpus), warm_up=size.warm_up)
    say("plain dense search measured")
    filtered = {}
    for name in size.filters:
        calls = filtered_calls(corpus, name, size.fewer)
        units = measure(workers, lambda worker: worker.filtered, calls, warm_up=size.warm_up // 4)
        filtered[name] = [unit.row() for unit in units]
        say(f"filter {name} measured")
    hybrid = measure(
        workers, lambda worker: worker.fusions, hybrid_calls(corpus, size.fewer), warm_up=size.warm_up // 4
    )
    say("hybrid search measured")
    return {
        "plain": [unit.row() for unit in plain],
        "filtered": filtered,
        "hybrid": [unit.row() for unit in hybrid],
    }


def plain_calls(corpus: QuestionCorpus) -> list[Call]:
    """Each question's vector, without a filter."""
    return [
        Call("dense", (question.vector, K, {}), truth=corpus.corpus.nearest(question.vector, K))
        for question in corpus.questions
    ]


def filtered_calls(corpus: QuestionCorpus, name: str, count: int) -> list[Call]:
    """Each question's vector, with the filter of that name."""
    calls = []
    masks: dict[str, NDArray[np.bool_]] = {}
    for question in corpus.questions[:count]:
        attribute, value = ("region", question.far_region) if name == FAR else ("category", FILTERS[name])
        if value not in masks:
            masks[value] = corpus.corpus.matching({attribute: value})
        truth = corpus.corpus.nearest(question.vector, K, masks[value])
        calls.append(Call("dense", (question.vector, K, {attribute: value}), truth=truth))
    return calls


def hybrid_calls(corpus: QuestionCorpus, count: int) -> list[Call]:
    """Each question's words and vector."""
    return [Call("hybrid", (question.text, question.vector, K)) for question in corpus.questions[:count]]


def about(server: Server, size: Size, peers_python: str | None) -> dict[str, Any]:
    """The measured figures, and the machine."""
    return {
        **machine(),
        "items": size.items,
        "dimensions": size.dimensions,
        "questions": size.questions,
        "server": dict(server.settings()),
        "peers": peer_versions() if peers_python else {},
        "skipped": [name for name in FOREIGN if not installed(name, peers_python)],
    }


def peer_versions() -> dict[str, str]:
    """The pinned versions of the compared systems."""
    lines = (FOLDER / "requirements-peers.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if "==" in line]
    return {name: version for name, version in pins if name.startswith(_PEERS)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_of(__doc__, "a few items, to see that it runs")
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--peers-python", help="the Python of the peers' environment")
    parser.add_argument("--items", type=int, default=NORMAL.items)
    parser.add_argument("--questions", type=int, default=NORMAL.questions)
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else replace(NORMAL, items=options.items, questions=options.questions)
    try:
        result = run(
            size,
            options.data,
            options.peers_python,
            options.server,
            lambda part: write_json("side_by_side", part, options.out),
        )
        write("side_by_side", result, side_by_side_page(result, RESULTS), options.out)
        if options.out == RESULTS and not options.quick and not result["about"]["skipped"]:
            headline.write(result, headline.commit_of(FOLDER.parent))
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    say(f"written: {options.out / 'side_by_side.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
