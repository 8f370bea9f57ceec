"""The README's example as an async program: three tickets, one search, explained hits."""

from __future__ import annotations

import asyncio

from retrieval import connect

ITEMS = [
    {
        "id": "T-1",
        "title": "Database connection times out",
        "text": "Since the upgrade every second request waits 30 s for a connection and then fails.",
        "metadata": {"priority": "High"},
    },
    {
        "id": "T-2",
        "title": "Log files fill the disk",
        "text": "Rotation is off, so the volume is full after a day.",
        "metadata": {"priority": "Low"},
    },
    {
        "id": "T-3",
        "title": "Cannot reach the database after a failover",
        "text": "Clients keep the old address until they are restarted.",
        "metadata": {"priority": "High"},
    },
]


async def main() -> None:
    """Add and search."""
    async with connect(tenant="quickstart") as platform:
        tickets = await platform.collection("tickets")
        await tickets.add(ITEMS)
        hits = await tickets.search("database connection timeout", where={"priority": "High"}, limit=5)
        for hit in hits:
            print(hit.rank, hit.id, hit.title)
            print("  ", hit.explanation)


if __name__ == "__main__":
    asyncio.run(main())
