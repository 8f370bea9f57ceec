"""LangGraph's own store on PostgreSQL, asked what ``graph_store.py`` asks.

python -m peers.langgraph_made URL ITEMS
"""

from __future__ import annotations

import sys

import psycopg
from langgraph.store.postgres import PostgresStore

from peers.graph_cases import DIMENSIONS, MadeUp, fill, tell


def main(url: str, items: int) -> None:
    """Make the store as its documentation says, fill it, and print its answers."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    index = {"dims": DIMENSIONS, "embed": MadeUp(), "fields": ["text"]}
    with PostgresStore.from_conn_string(url, index=index) as store:
        store.setup()
        fill(store, items)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        tell(store)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
