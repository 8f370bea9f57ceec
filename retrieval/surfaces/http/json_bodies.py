"""JSON in requests and responses: bodies, items, names in paths, preconditions, and where in a request an error is.

FastAPI accepts UTF-16, repeated members and NaN, and it parses and validates bodies on the event loop. A route of
``JSONBodies`` parses by ``json_of`` instead. A large body it parses and validates in a thread, and passes FastAPI the
instance of the model, which FastAPI accepts unchanged.

Few large searches run at the same time, because the garbage collector visits all objects of all searches while nothing
else runs, and because each search holds a connection. Writes are not limited in this way.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, get_args
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Header, Path, Query
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from retrieval.adapters.aside import LONG_BODY, aside, without_collector
from retrieval.adapters.readers import item_from_record
from retrieval.adapters.readers.records import FIELD_NAMES
from retrieval.apps.tickets.ticket_item import with_ticket_parts
from retrieval.collection import Collection, handle_of
from retrieval.domain.checks import JSONTextError, json_of, written
from retrieval.domain.errors import (
    EmptyQueryError,
    InvalidFilterError,
    InvalidItemError,
    InvalidLimitError,
    InvalidRequestError,
    InvalidVectorError,
)
from retrieval.domain.items.item import ABSENT, ANY, Item
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.domain.search.profile import Profile
from retrieval.engine.conditions import parsed_filter
from retrieval.surfaces.http.limits import is_large_write
from retrieval.surfaces.http.problems import MalformedBodyError, MediaTypeError


class JSONAnswer(JSONResponse):
    """A response of plain JSON values; NaN and infinity become ``null``."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return to_json(content, inf_nan_mode="null")


def members_at(kind: Any, location: Sequence[str | int]) -> list[str]:
    """The names of the members that a body of that type has at this location; empty if no model defines them."""
    models = list(_models(kind))
    for step in location:
        inner = [annotation for model in models if (annotation := _members(model).get(str(step)))]
        # Positions in lists and keys of mappings lead to no other model.
        models = [model for part in inner for model in _models(part)] if inner else models
    return list(dict.fromkeys(name for model in models for name in _members(model)))


def _members(model: type[BaseModel]) -> dict[str, Any]:
    """The types of a model's members, by their names in a body."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The models in an annotation: itself, or within lists, mappings and unions."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


After = Annotated[str, Query(description="`next` of the previous page.")]

WhereParameter = Annotated[
    str | None, Query(description="A filter as a JSON object.", examples=['{"priority": "High"}'])
]


def where_of(text: str | None) -> Filter | None:
    """The filter in the parameter ``where``. Raises ``InvalidFilterError``."""
    try:
        return None if text is None else parse_where(json_of(text))
    except JSONTextError as error:
        raise InvalidFilterError(f"the parameter where cannot be read: {error}") from None
    except InvalidFilterError as error:
        # The location is in the parameter, not in a body.
        error.location = ()
        raise


def object_of(name: str, text: str | None) -> dict[str, Any]:
    """The JSON object in the parameter of that name; empty if it is left out. Raises ``InvalidRequestError``."""
    try:
        value = {} if text is None else json_of(text)
    except JSONTextError as error:
        raise InvalidRequestError(f"the parameter {name} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequestError(f"the parameter {name} must be a JSON object, not {written(text)}")
    return value


Location = tuple[str | int, ...]


@contextmanager
def at(*location: str | int) -> Iterator[None]:
    """Add the location to an error that is raised within the block."""
    try:
        yield
    except InvalidRequestError as error:
        error.location = (*location, *error.location)
        raise


async def filter_at(name: str | int, where: Mapping[str, Any] | None, collection: Collection) -> Filter | None:
    """The filter in the member of that name. Raises ``InvalidFilterError``."""
    with at(name):
        return await parsed_filter(where, handle_of(collection).shared.bounds)


async def filters_at(
    name: str, where: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, collection: Collection
) -> list[Filter]:
    """The filters in the member of that name, which holds one or a list. Raises ``InvalidFilterError``."""
    if where is None or isinstance(where, Mapping):
        return [parsed] if (parsed := await filter_at(name, where, collection)) is not None else []
    with at(name):
        found = [await filter_at(number, condition, collection) for number, condition in enumerate(where)]
    return [parsed for parsed in found if parsed is not None]


def sent_profile(profile: Mapping[str, Any] | None) -> Profile | None:
    """The profile in the member of that name. Raises ``InvalidProfileError``."""
    with at("profile"):
        return None if profile is None else Profile.from_dict(profile)


_PLACES: dict[type[InvalidRequestError], str] = {
    InvalidFilterError: "where",
    InvalidVectorError: "vector",
    EmptyQueryError: "query",
    InvalidLimitError: "limit",
}
"""The members of a search that errors of these classes are about."""
_OF_EACH = {"vector": "vectors", "query": "queries"}
"""The names of the members in a batch."""


@contextmanager
def members_of(body: BaseModel) -> Iterator[None]:
    """Point an error of a search, raised in the block, at the member of its body that it is about."""
    try:
        yield
    except InvalidRequestError as error:
        first, *rest = error.location or next(_locations_in(body, error), ("",))
        first = first if hasattr(body, str(first)) else _OF_EACH.get(str(first), first)
        error.location = (first, *rest) if first else ()
        raise


def _locations_in(body: BaseModel, error: InvalidRequestError) -> Iterator[Location]:
    """The locations that name the field of the error; then the usual member of its class."""
    if isinstance(error, InvalidFilterError) and error.field:
        for name in ("where", "prefer", "group_by"):
            yield from _locations_of(getattr(body, name, None), error.field, (name,))
    yield from ((name,) for kind, name in _PLACES.items() if isinstance(error, kind))


def _locations_of(part: object, field: str, location: Location) -> Iterator[Location]:
    if part in (field, f"attributes.{field}"):
        yield location
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key in (field, f"attributes.{field}"):
                yield (*location, key)
            elif key in ("and", "or", "not"):
                yield from _locations_of(value, field, (*location, key))
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _locations_of(inner, field, (*location, number))


MOST_ERRORS = 100
"""The greatest number of errors in a body that a response lists; each costs as much time as a hit."""

MOST_VALUES = 150_000
"""The greatest number of values in the body of a search: more than 100 vectors of 1,024 dimensions."""

MOST_MEMBERS = 20_000
"""The greatest number of members of objects in the body of a search: 100 searches with 100 conditions, and more."""

LARGE_AT_ONCE = 4
"""The number of large searches that one process runs at the same time."""

LARGE_PAGE = 100
"""A search of this many hits is large: each hit takes about 20 µs to encode, and its text may have megabytes."""

_HAS_ROOM = "has_room_for_large"


@asynccontextmanager
async def room_for_large(request: Request, *, is_large: bool) -> AsyncIterator[None]:
    """Wait for room for a large request, if the request is large and has none yet."""
    if not is_large or getattr(request.state, _HAS_ROOM, False):
        yield
        return
    large: asyncio.Semaphore = request.app.state.large
    async with large:
        setattr(request.state, _HAS_ROOM, True)
        yield


class JSONBodies(APIRoute):
    """A route whose body is parsed by ``json_of``; a large body is parsed and validated in a thread."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of a request."""
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler
        annotation = self.body_field.field_info.annotation
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None

        async def handle(request: Request) -> Response:
            parsed = _ReadRequest(request.scope, request.receive)
            body = await parsed.body()
            if not body:
                return await handler(parsed)
            content_type = request.headers.get("content-type", "")
            kind = content_type.partition(";")[0].strip().lower()
            if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
                raise MediaTypeError(content_type)
            is_long = len(body) >= LONG_BODY
            is_large = is_long and model is not None and not is_large_write(request.scope)
            if is_large:
                _check_values(body)
            async with room_for_large(request, is_large=is_large):
                parsed.value = await aside(lambda: _read(body, model), is_long=is_long)
                return await handler(parsed)

        return handle


class _ReadRequest(Request):
    """A request whose body is parsed."""

    value: Any = None
    """The value of the body; an instance of the route's model if the body is large."""

    async def json(self) -> Any:
        """The value, for the framework."""
        return self.value


def _check_values(body: bytes) -> None:
    """Refuse a body of too many values, counted by their separators, including those within texts."""
    for characters, most, separators in ((b",[{", MOST_VALUES, "commas and brackets"), (b":", MOST_MEMBERS, "colons")):
        if (count := len(body) - len(body.translate(None, characters))) > most:
            raise MalformedBodyError(
                f"the body has {count:,} {separators}; a search may have {most:,}: send fewer values, "
                "or several searches"
            )


def _read(body: bytes, model: type[BaseModel] | None) -> Any:
    """The value of a body, as FastAPI accepts it. Raises ``MalformedBodyError`` and ``RequestValidationError``."""
    try:
        if len(body) < LONG_BODY:
            return json_of(body)
        with without_collector():
            value = json_of(body)
    except JSONTextError as error:
        raise MalformedBodyError(f"the body cannot be read: {error}") from None
    try:
        return value if model is None else model.model_validate(value)
    except ValidationError as error:
        if (count := error.error_count()) > MOST_ERRORS:
            raise MalformedBodyError(
                f"the body has {count:,} errors, too many to list; try a smaller one, and see /openapi.json"
            ) from None
        details = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors(include_url=False)]
        raise RequestValidationError(details, body=value) from None


_ENCODED = re.compile(r"%(?:2F|2f|0A|0a)")
_STAND_INS = {"%2f": "%ED%B0%AF", "%0a": "%ED%B0%8A"}
"""The encoded slashes and line breaks in names, and in their place lone surrogates, which no name can hold."""
_RESTORED = {0xDC2F: "/", 0xDC0A: "\n"}


def path_of_names(scope: Scope) -> str | None:
    """The decoded path with stand-ins for the encoded slashes and line breaks in names; None if there are none.

    In the path that the server has decoded, a slash in a name and a slash between parts look the same. Raises
    ``InvalidRequestError`` for a path or query that is not UTF-8.
    """
    if query := scope.get("query_string"):
        check_utf8(query, "query")
    raw_path: bytes | None = scope.get("raw_path")
    if raw_path is None or b"%" not in raw_path:
        return None
    check_utf8(raw_path, "path")
    path = raw_path.decode("latin-1")
    return with_stand_ins(path) if _ENCODED.search(path) else None


def check_utf8(encoded: bytes, part: str) -> None:
    """Raise ``InvalidRequestError`` if a part of a URL is not UTF-8: different names would become the same."""
    try:
        unquote_to_bytes(encoded).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError(
            f"the {part} is not UTF-8; percent-encode each name as UTF-8, such as M%C3%BCller"
        ) from None


def with_stand_ins(path: str) -> str:
    """The decoded path, with stand-ins for the slashes and line breaks that are parts of names."""
    return unquote(_ENCODED.sub(lambda found: _STAND_INS[found[0].lower()], path), errors="surrogatepass")


def restore(name: str) -> str:
    """The name in a path, with the original characters for the stand-ins."""
    return name.translate(_RESTORED)


CollectionName = Annotated[
    str, BeforeValidator(restore), Path(description="The collection's name, percent-encoded.", examples=["tickets"])
]
ItemId = Annotated[
    str,
    BeforeValidator(restore),
    Path(description="The item's or document's id, percent-encoded; its slashes need no encoding.", examples=["T-1"]),
]

_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*')

IfMatch = Annotated[
    str | None,
    Header(description="Only if the item still has this version: the `ETag` of an earlier response, or `*` for any."),
]
IfNoneMatch = Annotated[str | None, Header(description="Only if there is no such item: `*`.")]
IfChanged = Annotated[
    str | None,
    Header(
        alias="If-None-Match", description="The `ETag` of an earlier response: if it is unchanged, the response is 304."
    ),
]


def etag(version: str) -> str:
    """The version as a strong entity tag."""
    return f'"{version}"'


def expected_version(if_match: str | None, if_none_match: str | None = None) -> str | None:
    """The precondition of a write, as ``Collection.put`` accepts it; None: none.

    Raises ``InvalidRequestError`` for headers that are invalid or do not apply to writes.
    """
    if if_none_match is not None:
        if if_match is not None or if_none_match.strip() != ANY:
            raise InvalidRequestError("with a write If-None-Match must be *, and without If-Match")
        return ABSENT
    if if_match is None or if_match.strip() == ANY:
        return if_match and ANY
    tags = _tags(if_match)
    if len(tags) != 1:
        raise InvalidRequestError('If-Match must be the ETag of one version, such as "mZ0CqVvWbX1m3y5K", or *')
    weak, version = tags[0]
    # A weak tag must match nothing: no version has a name with this prefix.
    return f"W/{version}" if weak else version or "W/"


def is_known(if_none_match: str | None, version: str) -> bool:
    """Whether the client has that version already."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == ANY or version in [tag for _, tag in _tags(if_none_match)]


def _tags(header: str) -> list[tuple[bool, str]]:
    """Whether each entity tag of a list is weak, and the tag. Raises ``InvalidRequestError`` for anything else."""
    matches = [_TAG.fullmatch(part) for part in header.split(",")]
    tags = [(match[1] is not None, match[2]) for match in matches if match is not None]
    if len(tags) != len(matches):
        raise InvalidRequestError('an entity tag must be in quotes, as in the header ETag, such as "mZ0CqVvWbX1m3y5K"')
    return tags


_SERVICE_FIELDS = ("version", "created_at", "updated_at")
"""The fields that the service adds to a stored item."""


_TWO_NAMES = (("text", "body"), ("metadata", "attributes"), ("occurred_at", "event_time"))
"""Each pair names one part."""

_FIELDS = frozenset(name for names in FIELD_NAMES.values() for name in names)


def sent_item(record: Mapping[str, Any]) -> Item:
    """The item in a request; one that was received before is read without the fields that the service added.

    Raises ``InvalidItemError`` for an item that cannot be stored, that has one of these fields of its own, or that
    gives one part two values.
    """
    if isinstance(record, Mapping):
        if all(name in record for name in ("metadata", *_SERVICE_FIELDS)):
            record = {name: value for name, value in record.items() if name not in _SERVICE_FIELDS}
        if (fault := _fault_in({name: value for name, value in record.items() if value is not None})) is not None:
            key = next((str(record[name]) for name in FIELD_NAMES["item_id"] if record.get(name) is not None), None)
            raise InvalidItemError(fault, item_id=key)
    return received_item(item_from_record(record))


def _fault_in(record: Mapping[str, Any]) -> str | None:
    """A member that would silently become an attribute, or have no effect beside another one; None: there is none."""
    for name in _SERVICE_FIELDS:
        if name in record:
            return f"{name!r} is set by the service; leave it out, or put your own in 'metadata'"
    for name, other in _TWO_NAMES:
        if name in record and record.get(other, record[name]) != record[name]:
            return f"{name!r} and {other!r} are two names of one field, but have different values; give one"
    metadata = record.get("metadata", record.get("attributes"))
    for name, value in record.items() if isinstance(metadata, Mapping) else ():
        if name not in _FIELDS and metadata.get(name) not in (None, value):
            return f"{written(name, 60)} has different values inside and outside the metadata; give one"
    return None


_STEP = re.compile(r"(?:\A|/)\.\.?(?:/|\Z)")


def path_id(item_id: str) -> str:
    """The id. Raises ``InvalidItemError`` for one with which a path would name something else, as the collection."""
    if _STEP.search(item_id):
        raise InvalidItemError(
            f"the id {written(item_id)} has a step '.' or '..', which clients remove from a path; choose another id",
            item_id=item_id,
        )
    return item_id


def received_item(item: Item) -> Item:
    """The item, with a ticket's hours under the attribute that they have in an ingested file of tickets.

    Raises ``InvalidItemError`` as ``path_id`` does.
    """
    path_id(item.item_id)
    try:
        return with_ticket_parts(item)
    except InvalidItemError:
        # It may not be a ticket at all.
        return item
