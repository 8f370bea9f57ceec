"""Conversations: turns that are indexed together with their neighbours.

Each turn is an item. Its title names the speaker and the date, because questions name both; its neighbours are the
turns before and after it in the same session, because the answer to a question may be a turn that says only "yes".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from retrieval.domain.checks import checked_time, checked_whole, is_whole
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.frozen import Frozen
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.items.item import Item
from retrieval.domain.items.memory import checked_name
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.search.time_expressions import MONTHS

CONVERSATION_PROFILE = Profile(
    legs=Frozen({"dense": 0.3, "lexical": 0.7}),
    fusion=Fusion(kind=FusionKind.WEIGHTED_SUM),
    learned=Learned(combination=Combination.LOGIT_STACK),
)
"""Words weigh more than meaning, because turns are short and full of names. Tuned with the local model only."""

CONVERSATION_NEIGHBOURS = Neighbours(sequence="session", order="turn", before=2, after=2, own_weight=2)
"""Two turns on each side, and the turn itself counted twice."""

CONVERSATION_FILTERABLE: Mapping[str, str] = MappingProxyType({"conversation": "text", "session": "text"})
"""The attributes that searches filter and group by."""


def turn_item(conversation: str, session: str | int, turn: int, *, speaker: str, text: str, at: datetime) -> Item:
    """A turn as an item with the id ``conversation/session/turn``, with ``%2F`` for a slash within a name.

    ``turn`` is its number within the session; ``at`` is its time, with a time zone, in which the title has the day.
    Raises ``InvalidItemError`` for invalid names, numbers and times, and for texts that no item can hold.
    """
    checked_name("conversation", conversation)
    checked_name("speaker", speaker)
    if not is_whole(session):
        checked_name("session", session)
    checked_whole("turn", turn, error=InvalidItemError)
    checked_time("at", at, error=InvalidItemError)
    place = f"{_in_key(conversation)}/{_in_key(str(session))}"
    return Item(
        item_id=f"{place}/{turn}",
        kind="turn",
        title=f"{speaker}, {at.day} {MONTHS[at.month - 1].capitalize()} {at.year}",
        body=text,
        attributes={"conversation": conversation, "session": place, "turn": turn, "speaker": speaker},
        occurred_at=at,
    )


def _in_key(name: str) -> str:
    """The name without slashes; different names stay different."""
    return name.replace("%", "%25").replace("/", "%2F")
