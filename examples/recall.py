"""Search an assistant's memories: in other words, by time, and while the language model is down.

The example uses the configured language model (see docs/how-to/llms.md), or else a simulated one.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from retrieval import connect
from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.apps.recall import DualRetriever, Recalled

MEMORIES = [
    {"id": "ann", "title": "Ann", "text": "Ann works at Acme as a designer.", "occurred_at": "2026-11-05T09:00Z"},
    {"id": "ben", "title": "Ben", "text": "Ben is one of my coworkers.", "occurred_at": "2026-11-08T09:00Z"},
    {"id": "cleo", "title": "Cleo", "text": "Cleo runs Globex, and plays chess.", "occurred_at": "2026-11-09T09:00Z"},
    {"id": "launch", "title": "Launch", "text": "The launch was moved.", "occurred_at": "2026-11-10T09:00Z"},
    {"id": "retro", "title": "Retro", "text": "The team met about the launch.", "occurred_at": "2026-11-17T09:00Z"},
]


def show(question: str, entities: Recalled) -> None:
    """Print the answer, the rewrites, the recognised time, and the failure of the model."""
    print(f"{question}: {', '.join(entity.id for entity in entities)}")
    if entities.queries:
        print(f"   rewrites: {', '.join(entities.queries)}")
    if entities.time is not None:
        print(f"   {entities.time.text}: from {entities.time.start} until {entities.time.end}")
    if entities.degraded:
        print(f"   {entities.degraded}")


async def main() -> None:
    """Ask in other words, ask by time, and ask while the model is down."""
    async with connect(tenant="recall") as platform:
        memories = await platform.collection("memories of an assistant")
        await memories.add(MEMORIES)
        llm = platform.llm or SimLLM(42)
        retriever = DualRetriever(memories, llm, seed=42, clock=lambda: datetime(2026, 11, 18, tzinfo=UTC))
        for question in ("Acme", "Who are my colleagues?", "Who do I know at Acme?", "the launch on 17 November"):
            show(question, await retriever.search(question, limit=3))
        unlucky = DualRetriever(memories, SimLLM(faults=SimFaults(fail_rate=1)))
        show("Who plays chess?", await unlucky.search("Who plays chess?", limit=1))


if __name__ == "__main__":
    asyncio.run(main())
