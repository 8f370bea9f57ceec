"""A number that is among an item's attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.profile_numbers import check_share
from retrieval.domain.signals.signal import Asked, Facts, Signal
from retrieval.domain.storable import is_storable


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeValue(Signal):
    """The attribute's number, cut to 0 to 1; ``missing`` where there is none.

    A profile may have one for each of several attributes: it is called ``attribute:concreteness`` there. Raises
    ``InvalidProfileError`` for a name that no attribute can have, or a ``missing`` outside 0 to 1.
    """

    name: ClassVar[str] = "attribute"
    reads: ClassVar[frozenset[str]] = frozenset({"attributes"})
    attribute: str = "concreteness"
    missing: float = 0.5
    """What an item without the attribute is worth, or with one that is no number: the middle."""

    def __post_init__(self) -> None:
        if not is_storable(self.attribute) or not self.attribute:
            raise InvalidProfileError(
                f"the attribute of signal 'attribute' is {self.attribute!r:.80}; name one, without NUL bytes"
            )
        Signal.__post_init__(self)
        check_share(f"what signal {self.key!r} takes for a missing number", self.missing)

    @property
    def key(self) -> str:
        """``attribute:`` and the attribute's name."""
        return f"{self.name}:{self.attribute}"

    def value(self, facts: Facts, asked: Asked) -> float:
        """The number, 0 to 1."""
        number = facts.attributes.get(self.attribute)
        if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
            return self.missing
        return min(1.0, max(0.0, number))
