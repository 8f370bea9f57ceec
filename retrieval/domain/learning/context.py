"""The situation of a search, as far as feedback is learned by it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from retrieval.domain.checks import is_finite
from retrieval.domain.errors import InvalidRequestError

MAX_NAME_LENGTH = 200
"""Characters of a domain's, an actor's or a session's name."""

MAX_BACKTRACKS = 2**31 - 1
"""What a record can hold."""

ANYWHERE = ""
"""The bucket that every context is in: the item by itself."""


class ComplexityRange(StrEnum):
    """Thirds of the scale."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Who asks, and in what situation. Everything is optional.

    Raises ``InvalidRequestError`` for a name that is too long or holds a NUL, a complexity outside 0 to 1, or a
    number of backtracks outside 0 to 2³¹ - 1.
    """

    domain: str = ""
    """What the question is about, in the application's own words; empty: not said."""
    complexity: float | None = None
    """How hard the problem is, 0 to 1; None: not said."""
    actor: str = ""
    """Who asks: a user, an agent. Kept as given; it can be made a pseudonym later."""
    session: str = ""
    """What belongs together: a conversation, a run."""
    backtracks: int = 0
    """How often the caller has come back for another answer to the same problem."""
    generated: bool = False
    """Whether the caller had candidates made by a model for this problem."""

    def __post_init__(self) -> None:
        for name in ("domain", "actor", "session"):
            _check_name(name, getattr(self, name))
        if self.complexity is not None:
            _check_complexity(self.complexity)
        _check_backtracks(self.backtracks)

    def buckets(self, cluster: int | None = None) -> tuple[str, ...]:
        """The context buckets that an event in this context counts in; the first is ``ANYWHERE``.

        ``cluster`` is the embedding cluster of the query; None: not known.
        """
        found = [ANYWHERE]
        if self.domain:
            found.append(f"domain={self.domain}")
        if self.complexity is not None:
            found.append(f"complexity={complexity_range(self.complexity)}")
        if cluster is not None:
            found.append(f"cluster={cluster}")
        return tuple(found)


def complexity_range(complexity: float) -> ComplexityRange:
    """The third of the scale from 0 to 1 that the complexity lies in."""
    if complexity < 1 / 3:
        return ComplexityRange.LOW
    return ComplexityRange.MEDIUM if complexity < 2 / 3 else ComplexityRange.HIGH


def _check_name(name: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH or "\x00" in value:
        raise InvalidRequestError(
            f"{name} is {value!r:.80}; it must be a text of at most {MAX_NAME_LENGTH} characters without NUL"
        )
    if value != value.encode(errors="replace").decode():
        raise InvalidRequestError(f"{name} holds half of a surrogate pair; remove it")


def _check_complexity(value: object) -> None:
    if not is_finite(value) or not 0 <= value <= 1:
        raise InvalidRequestError(f"complexity is {value!r:.80}; it must be a number from 0 to 1")


def _check_backtracks(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_BACKTRACKS:
        raise InvalidRequestError(
            f"backtracks is {value!r:.40}; it must be a whole number of at least 0 and at most {MAX_BACKTRACKS}"
        )


def checked_context(context: object) -> Context:
    """The context, if it is one. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(context, Context):
        raise InvalidRequestError(f"context is a {type(context).__name__}; it must be a retrieval.Context")
    return context
