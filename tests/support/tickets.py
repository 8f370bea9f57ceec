"""Historical tickets for tests: few, with every kind of gap in them."""

from __future__ import annotations

from typing import Any

TICKETS: tuple[dict[str, Any], ...] = (
    {
        "ticket_id": "MM-1",
        "title": "Database connection timeout",
        "description": "Connections to the member database time out during peak hours.",
        "priority": "Critical",
        "labels": ["Code Fix", "#MM_ALDER"],
        "resolution_time_hours": 10,
        "domain": "MM",
        "resolution": "Raised the size of the connection pool",
        "created": "2024-01-10T08:00:00Z",
    },
    {
        "ticket_id": "MM-2",
        "title": "Connection pool exhausted",
        "description": "The database connection pool is exhausted and requests time out.",
        "priority": "High",
        "labels": ["#MM_ALDER"],
        "resolution_time_hours": 4.5,
        "domain": "MM",
        "resolution": "Closed leaked connections",
        "created": "2024-02-10T08:00:00Z",
    },
    {
        "ticket_id": "CIW-1",
        "title": "Database timeout in reports",
        "description": "Reports wait for the database and time out.",
        "priority": "Low",
        "labels": [],
        "resolution_time_hours": 250,
        "domain": "CIW",
        "resolution": "Added an index",
        "created": "2024-03-10T08:00:00Z",
    },
    {
        "ticket_id": "CIW-2",
        "title": "Login authentication failure",
        "description": "Users are unable to authenticate since the certificate expired.",
        "priority": "Medium",
        "labels": ["Certificates"],
        "resolution_time_hours": 1,
        "domain": "CIW",
        "created": "2024-04-10T08:00:00Z",
    },
    {
        "ticket_id": "SP-1",
        "title": "External API calls time out",
        "description": "Calls to the external API exceed their timeout.",
        "priority": "Somewhat urgent",
        "domain": "Specialty",
        "created": "2024-05-10T08:00:00Z",
    },
    {
        "ticket_id": "SP-2",
        "title": "Timeout of the database connection",
        "description": "A connection to the database could not be had in time.",
        "resolution_time_hours": -3,
        "created": "2024-06-10T08:00:00Z",
    },
)
"""By the names of the file ``historical_tickets.csv``."""
