"""Similar tickets: search by a new ticket, exclude it from its own results, and try other weights before using them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from retrieval import connect
from retrieval.apps.tickets import TICKET_FILTERABLE, RetrievalRequest, RetrievalService, ticket_item

HISTORY = (
    ("JIRA-MM-042", "Connection pool exhausted", "The service holds every database connection.", "High", 4.5, "MM"),
    ("JIRA-MM-051", "Database connection timeout", "Requests wait for a connection and time out.", "Low", 96, "MM"),
    ("JIRA-MM-077", "Members are asked twice", "The form is sent again after a slow answer.", "Medium", 30, "MM"),
    ("JIRA-CIW-007", "Timeout of the report database", "Reports time out at night.", "Critical", 2, "CIW"),
    ("JIRA-CIW-019", "Login authentication failure", "Users are unable to authenticate.", "Critical", 1, "CIW"),
)
NAMES = ("ticket_id", "title", "description", "priority", "resolution_time_hours", "domain")


async def main() -> None:
    """Store, search, search as of an earlier day, preview."""
    async with connect(tenant="tickets") as platform:
        collection = await platform.collection("tickets", filterable=TICKET_FILTERABLE)
        created = {"created": "2024-05-01T08:00:00Z"}
        await collection.add([ticket_item(created | dict(zip(NAMES, row, strict=True))) for row in HISTORY])
        service = RetrievalService(platform=platform)

        new = {"title": "Database connection timeout", "description": "Timeouts during peak hours."}
        answer = await service.process(RetrievalRequest(**new, domain_filter="MM", top_k=2))
        print(answer.search_metadata)
        for ticket in answer.similar_tickets:
            print(f"{ticket.ticket_id}: {ticket.similarity_score:.2%} ({ticket.priority}, {ticket.title})")

        then = datetime(2024, 5, 2, tzinfo=UTC)
        earlier = await service.process(RetrievalRequest(**new, as_of=then, exclude_self="JIRA-MM-051"))
        is_known = [(ticket.ticket_id, ticket.resolution_time_known) for ticket in earlier.similar_tickets]
        print("as of 2 May, whether each resolution is known:", is_known)

        weightings = {"weightings": ["semantic_match", "priority_focused"], "top_k": 2, "candidates": 5}
        preview = await service.preview_search(**new, config=weightings)
        for weighted in preview.previews:
            print(weighted.summary)
            for moved in weighted.tickets:
                print(f"  {moved.rank}. {moved.ticket.ticket_id}: {moved.why}")


if __name__ == "__main__":
    asyncio.run(main())
