"""LangGraph's store on a collection beside LangGraph's own on PostgreSQL: filters by type, full pages, paging.

    python benchmarks/graph_store.py --peers-python PATH [--quick] [--server URL] [--out DIRECTORY]

PATH is the Python of the environment that ``requirements-peers.txt`` was installed into. Both have the same items and
vectors, each its own defaults. Results go to ``benchmarks/results/graph_store.{json,md}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from command import parser_of, write
from peers.graph_cases import MadeUp, answers, fill
from pydantic import SecretStr
from server import running
from workers import printed

from retrieval import Settings
from retrieval.surfaces.langchain import LangChainEmbedder, RetrievalStore
from retrieval.sync import connect

ITEMS, QUICK = 20_000, 600


def of_ours(url: str, items: int) -> Mapping[str, Any]:
    """Measure the answers of the store on a collection."""
    settings = Settings(database_url=SecretStr(url), embedder="none")
    with connect(settings=settings, embedder=LangChainEmbedder.of(MadeUp())) as platform:
        store = RetrievalStore(platform.collection("memory"), index={"fields": ["text"]})
        fill(store, items)
        return answers(store)


def report_of(results: Mapping[str, Mapping[str, Any]], items: int) -> str:
    """The report."""
    names = list(results)
    lines = [
        f"# Stores of LangGraph on PostgreSQL: {items:,} items of ten namespaces, each with its defaults",
        "",
        f"| | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        *(f"| {case} | {' | '.join(str(results[name][case]) for name in names)} |" for case in results[names[0]]),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_of(__doc__, "a few items, to see that it runs")
    parser.add_argument("--peers-python", required=True, help="the Python of the peers' environment")
    options = parser.parse_args(arguments)
    items = QUICK if options.quick else ITEMS
    with running(options.server) as server:
        results = {
            "RetrievalStore": of_ours(server.database("graph_ours", platform=True), items),
            "PostgresStore": printed(
                options.peers_python, "peers.langgraph_made", server.database("graph_peer"), str(items)
            ),
        }
    write("graph_store", {"items": items, **results}, report_of(results, items), options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
