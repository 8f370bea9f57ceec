"""How long a lexical search takes inside the database: EXPLAIN ANALYZE of ``lexical_search`` on SciFact's test queries.

    python benchmarks/lexical_latency.py DATA

DATA holds the folder scifact in BEIR's format. Acts as the application role, on one warm connection, with the budget
that a search of the collection has. The result goes to ``benchmarks/results/lexical_latency.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

import numpy as np
from tasks import SCIFACT

from retrieval import Platform, connect
from retrieval.adapters.store.lexical_leg import match_budget
from retrieval.settings import Settings

RESULTS = Path(__file__).parent / "results"
EXPLAIN = "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) SELECT * FROM lexical_search(%s, %s, %s, 100)"
ROUNDS = 3
"""The first only warms up."""


async def measure(platform: Platform, data: Path) -> dict[str, float]:
    """Planning and execution in milliseconds over all queries."""
    collection = await SCIFACT.ingested(platform, data)
    stored = await collection.refresh()
    queries, _ = SCIFACT.queries(data)
    times = []
    async with platform.database.transaction(platform.tenant_id) as connection:
        for round_ in range(ROUNDS):
            for query in queries:
                parameters = (stored.collection_id, query.text, match_budget(stored.documents))
                row = await (await connection.execute(EXPLAIN, parameters)).fetchone()
                plan = row[0][0] if row else {}
                if round_:
                    times.append(plan["Planning Time"] + plan["Execution Time"])
    p50, p95 = np.percentile(times, [50, 95])
    return {"queries": len(queries), "p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}


async def main(data: Path) -> None:
    """Measure, print, write. Words alone: no vectors are needed."""
    settings = Settings().changed(embedder="none", tenant="lexical latency")
    async with connect(settings=settings) as platform:
        result = await measure(platform, data)
    print(json.dumps(result))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "lexical_latency.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    arguments = parser.parse_args()
    if not (arguments.data / "scifact").is_dir():
        sys.exit(f"{arguments.data} holds no scifact folder; give the folder of the test collections")
    asyncio.run(main(arguments.data))
