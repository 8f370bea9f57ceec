"""What a profile says about recording: which of its searches are kept, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.profile_numbers import check_share, check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Which searches are recorded. Raises ``InvalidProfileError`` for a number outside its range."""

    rate: float = 1.0
    """The share of searches, 0 (none) to 1 (all)."""
    pool: int = 100
    """Candidates kept with each, 0 to 1000, for replay and off-policy evaluation."""
    wait: bool = False
    """Whether a search answers only once its record is durable; otherwise it is stored behind the answer."""

    def __post_init__(self) -> None:
        check_share("recording rate", self.rate)
        check_whole("recording pool", self.pool, 0, 1000)
        if not isinstance(self.wait, bool):
            raise InvalidProfileError(f"recording wait is {self.wait!r:.80}; it must be true or false")

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}
