"""Lists of results that also have attributes, such as the id of the recorded answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, dataclass
from typing import TypeVar
from uuid import UUID

T = TypeVar("T")


@dataclass(eq=False, repr=False)
class ResultList(list[T]):
    """A list, whose subclasses have further fields. It is equal to a list of the same elements."""

    results: InitVar[Iterable[T]] = ()

    def __post_init__(self, results: Iterable[T]) -> None:
        self.extend(results)


@dataclass(eq=False, repr=False, kw_only=True)
class AnswerList(ResultList[T]):
    """The results of a search."""

    retrieval_id: UUID | None = None
    """The id of the recorded answer, for feedback, figures and replay; None: it is not recorded."""
    notes: tuple[str, ...] = ()
    """Notes for the caller, such as about a leg that could not run, or why nothing was generated."""
