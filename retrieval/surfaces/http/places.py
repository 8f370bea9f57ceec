"""Where in a request an error lies: filters and profiles of a body are read here, so that their errors tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from retrieval.collection import Collection
from retrieval.domain.errors import InvalidFilterError, InvalidRequestError
from retrieval.domain.filters import Filter
from retrieval.domain.profile import Profile
from retrieval.engine.collection_handle import parsed_filter

Place = tuple[str | int, ...]


@contextmanager
def at(*place: str | int) -> Iterator[None]:
    """An error of what is read within lies there, or further in."""
    try:
        yield
    except InvalidRequestError as error:
        error.place = (*place, *error.place)
        raise


async def filter_at(name: str, where: Mapping[str, Any] | None, collection: Collection) -> Filter | None:
    """The filter that the member of that name says. Raises ``InvalidFilterError``."""
    with at(name):
        return await parsed_filter(where, collection.bounds)


async def filters_at(
    name: str, where: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, collection: Collection
) -> list[Filter]:
    """The filters that the member of that name says, of one or of a list. Raises ``InvalidFilterError``."""
    if where is None or isinstance(where, Mapping):
        return [one for one in (await filter_at(name, where, collection),) if one is not None]
    found = []
    for number, each in enumerate(where):
        with at(name, number):
            if (one := await parsed_filter(each, collection.bounds)) is not None:
                found.append(one)
    return found


def profile_at(place: Place, profile: Mapping[str, Any] | None) -> Profile | None:
    """The profile that stands there. Raises ``InvalidProfileError``."""
    if profile is None:
        return None
    with at(*place):
        return Profile.from_dict(profile)


@contextmanager
def fields_of(**filters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | None) -> Iterator[None]:
    """An error about a field, from within, lies where one of these filters, or a field alone, names it first."""
    try:
        yield
    except InvalidFilterError as error:
        if error.field and not error.place:
            found = (place for name, where in filters.items() for place in _named(where, error.field, (name,)))
            error.place = next(found, ())
        raise


def _named(part: object, field: str, place: Place) -> Iterator[Place]:
    if part in (field, f"attributes.{field}"):
        yield place
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key in (field, f"attributes.{field}"):
                yield (*place, key)
            elif key in ("and", "or", "not"):
                yield from _named(value, field, (*place, key))
    elif isinstance(part, list):
        for number, one in enumerate(part):
            yield from _named(one, field, (*place, number))
