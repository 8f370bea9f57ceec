"""What a value of one of the item's attributes is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.profile_numbers import check_share
from retrieval.domain.signals.signal import Asked, Facts, Signal

PRIORITIES = MappingProxyType({"Critical": 1.0, "High": 0.8, "Medium": 0.5, "Low": 0.3})
"""What a ticket's priority is worth, unless a profile says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority(Signal):
    """The worth of the item's priority, whatever its case and the spaces around it; ``unknown`` for any other.

    Raises ``InvalidProfileError`` for a worth outside 0 to 1.
    """

    name: ClassVar[str] = "priority"
    reads: ClassVar[frozenset[str]] = frozenset({"attributes"})
    attribute: str = "priority"
    values: Mapping[str, float] = field(default_factory=lambda: PRIORITIES)
    unknown: float = 0.5
    """What a priority that is missing or not named is worth: the middle."""
    _by_name: Mapping[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        if not isinstance(self.values, Mapping):
            raise InvalidProfileError("the values of signal 'priority' are a mapping such as {\"High\": 0.8}")
        for name, worth in self.values.items():
            check_share(f"the worth of priority {name!r:.80}", worth)
        check_share("the worth of an unknown priority", self.unknown)
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        by_name = {name.strip().casefold(): worth for name, worth in self.values.items()}
        object.__setattr__(self, "_by_name", by_name)

    def value(self, facts: Facts, asked: Asked) -> float:
        """The worth, 0 to 1."""
        given = facts.attributes.get(self.attribute)
        if not isinstance(given, str):
            return self.unknown
        return self._by_name.get(given.strip().casefold(), self.unknown)
