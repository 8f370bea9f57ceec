"""Figures about searches and feedback: the views, the queries and their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, overload
from uuid import UUID

from retrieval.domain.checks import checked_limit, checked_time
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.frozen import Frozen
from retrieval.domain.notebook import table_html, text_html
from retrieval.domain.serialization import Serializable


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsColumn:
    """A column of a view of figures."""

    name: str
    type: str
    """The type's name in PostgreSQL."""
    about: str
    """The column's meaning, in a sentence; empty where the name says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsView(Serializable):
    """A view of figures, as the database describes it."""

    internal_fields = frozenset({"is_function"})

    name: str
    """The name, without the prefix ``analytics_`` of the database."""
    about: str
    columns: tuple[AnalyticsColumn, ...]
    is_function: bool
    """True if the view sums up a period, given as arguments; False if it is a list with a column of time."""

    @property
    def time_column(self) -> AnalyticsColumn | None:
        """The column of a list that a period applies to: its first time or day."""
        times = (column for column in self.columns if column.type in ("timestamp with time zone", "date"))
        return None if self.is_function else next(times, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewQuestion:
    """A query of a view. Raises ``InvalidRequestError`` for a time that is wrong, ``InvalidLimitError`` for a limit."""

    collection: str | None = None
    """None: all of the tenant's."""
    since: datetime | timedelta | None = None
    """A time, or how long before ``until``, or before now."""
    until: datetime | None = None
    limit: int | None = None
    """The most rows; None: all."""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            time = getattr(self, name)
            if time is not None and not (name == "since" and isinstance(time, timedelta)):
                checked_time(name, time)
        if isinstance(self.since, timedelta) and self.since < timedelta():
            raise InvalidRequestError(f"since is {self.since}; as an age it must be 0 or more")
        if isinstance(self.since, datetime) and self.until is not None and self.since > self.until:
            raise InvalidRequestError(
                f"since, {self.since.isoformat()}, is after until, {self.until.isoformat()}; exchange them"
            )
        if self.limit is not None:
            checked_limit(self.limit, 2**31 - 1)

    def begins(self, default: timedelta | None, now: datetime) -> datetime | None:
        """The beginning; None: open. ``default``: its length with only an end. Raises ``InvalidRequestError``."""
        since = self.since if self.since is not None or self.until is None else default
        if not isinstance(since, timedelta):
            return since
        try:
            return (self.until or now) - since
        except OverflowError:
            end = "now" if self.until is None else "until"
            raise InvalidRequestError(f"since is {since} before {end}, which is before all times") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsTable(Sequence[Mapping[str, Any]]):
    """The rows of a view: reads like a list of mappings by column, which cannot be changed."""

    view: str
    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(index, slice):
            return [self._row(values) for values in self.values[index]]
        return self._row(self.values[index])

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return map(self._row, self.values)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Plain JSON values: times in ISO 8601."""
        return [{name: _plain(value) for name, value in row.items()} for row in self]

    def _repr_html_(self) -> str:
        rows = ([text_html("" if value is None else str(value)) for value in values] for values in self.values)
        return table_html(rows, self.columns)

    def _row(self, values: tuple[Any, ...]) -> Mapping[str, Any]:
        return Frozen(zip(self.columns, values, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value
