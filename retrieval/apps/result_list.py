"""Lists of results that also have attributes, such as the id of the recorded answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import InitVar, dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(eq=False, repr=False)
class ResultList(list[T]):
    """A list, whose subclasses have further fields. It is equal to a list of the same elements."""

    results: InitVar[Iterable[T]] = ()

    def __post_init__(self, results: Iterable[T]) -> None:
        self.extend(results)
