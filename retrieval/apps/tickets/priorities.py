"""What a priority is worth."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field

from retrieval.apps.tickets.weights import Share

UNKNOWN = 0.5
"""What a priority that is missing or not named is worth: the middle, as Medium."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "Blocker": "Critical",
        "Highest": "Critical",
        "Major": "Medium",
        "Minor": "Low",
        "Lowest": "Low",
        "Trivial": "Low",
    }
)
"""Jira's other names, older and newer, each with the name whose weight it has. Major is what Jira gives to a ticket
that nobody judged, so it stands in the middle; Critical, High, Medium and Low are themselves."""


class PriorityWeights(BaseModel):
    """The weight of each priority, 0 to 1. Any further name may be given one: ``PriorityWeights(Blocker=1.0)``.

    Names are compared whatever their case. One of ``ALIASES`` that is not given has the weight of its model; any
    other is worth 0.5, and so is a ticket without a priority.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Share] = Field(init=False)

    Critical: Share = 1.0
    High: Share = 0.8
    Medium: Share = 0.5
    Low: Share = 0.3

    def by_name(self) -> dict[str, float]:
        """Every name that has a weight, with its weight."""
        own: dict[str, float] = self.model_dump()
        given = {name.strip().casefold() for name in own}
        aliases = {alias: own[name] for alias, name in ALIASES.items() if alias.casefold() not in given}
        return aliases | own
