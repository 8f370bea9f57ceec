"""JSON in requests and answers: bodies, items, names in paths, conditions, and where in a request an error lies.

FastAPI accepts UTF-16, repeated members and NaN, and it parses and validates bodies on the event loop. A route of
``JSONBodies`` parses by ``json_of``; a large body it also validates, in a thread, and hands FastAPI the model's
instance, which FastAPI takes as it is.

A large search waits for one of few places, because the garbage collector looks at everything that all searches hold
while nothing else runs, and each search holds a connection. A write waits for no place.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, get_args
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Header, Path
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
from retrieval.domain.checks import JSONTextError, json_of
from retrieval.domain.errors import InvalidFilterError, InvalidItemError, InvalidRequestError
from retrieval.domain.items.item import ABSENT, ANY, Item
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.domain.search.profile import Profile
from retrieval.engine.collection_handle import parsed_filter
from retrieval.surfaces.http.limits import is_write
from retrieval.surfaces.http.problems import MalformedBodyError, MediaTypeError


class JSONAnswer(JSONResponse):
    """Plain JSON values as an answer; NaN and infinity become ``null``."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return to_json(content, inf_nan_mode="null")


def members_at(kind: Any, place: Sequence[str | int]) -> list[str]:
    """The names of the members that a body of that type has at this place; none where no model says them."""
    models = list(_models(kind))
    for step in place:
        inner = [annotation for model in models if (annotation := _members(model).get(str(step)))]
        # Positions in lists and keys of mappings lead to no other model.
        models = [model for part in inner for model in _models(part)] if inner else models
    return list(dict.fromkeys(name for model in models for name in _members(model)))


def _members(model: type[BaseModel]) -> dict[str, Any]:
    """The types of a model's members, by the names that a body gives them."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The models within an annotation: itself, of a list, of a mapping, of several."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)


def where_of(text: str | None) -> Filter | None:
    """The filter that the parameter ``where`` says. Raises ``InvalidFilterError``."""
    if text is None:
        return None
    try:
        mapping = json_of(text)
    except JSONTextError as error:
        raise InvalidFilterError(
            f'the parameter where is a JSON object such as {{"priority": "High"}}, percent-encoded, not {text!r:.80}: '
            f"{error}"
        ) from None
    try:
        return parse_where(mapping)
    except InvalidFilterError as error:
        # The place is in the parameter, not in a body.
        error.place = ()
        raise


def object_of(name: str, text: str | None) -> dict[str, Any]:
    """The JSON object that the parameter of that name says; empty where it is left out.

    Raises ``InvalidRequestError``.
    """
    try:
        found = {} if text is None else json_of(text)
    except JSONTextError as error:
        raise InvalidRequestError(f"the parameter {name} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise InvalidRequestError(f"the parameter {name} is a JSON object, percent-encoded, not {text!r:.80}")
    return found


Place = tuple[str | int, ...]


@contextmanager
def at(*place: str | int) -> Iterator[None]:
    """Add the place to an error that is raised within the block."""
    try:
        yield
    except InvalidRequestError as error:
        error.place = (*place, *error.place)
        raise


async def filter_at(name: str, where: Mapping[str, Any] | None, collection: Collection) -> Filter | None:
    """The filter that the member of that name says. Raises ``InvalidFilterError``."""
    with at(name):
        return await parsed_filter(where, handle_of(collection).parts.bounds)


async def filters_at(
    name: str, where: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, collection: Collection
) -> list[Filter]:
    """The filters that the member of that name says, of one or of a list. Raises ``InvalidFilterError``."""
    if where is None or isinstance(where, Mapping):
        return [parsed for parsed in (await filter_at(name, where, collection),) if parsed is not None]
    found = []
    for number, each in enumerate(where):
        with at(name, number):
            if (parsed := await parsed_filter(each, handle_of(collection).parts.bounds)) is not None:
                found.append(parsed)
    return found


def profile_at(place: Place, profile: Mapping[str, Any] | None) -> Profile | None:
    """The profile at that place. Raises ``InvalidProfileError``."""
    if profile is None:
        return None
    with at(*place):
        return Profile.from_dict(profile)


@contextmanager
def fields_of(**filters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | None) -> Iterator[None]:
    """Point an error about a field, raised in the block, at the first of these filters or fields that names it."""
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
        for number, inner in enumerate(part):
            yield from _named(inner, field, (*place, number))


MOST_ERRORS = 100
"""The most wrong places of a body that an answer lists; each costs as much time as a hit."""

MOST_VALUES = 150_000
"""The most values in the body of a search: 100 vectors of 1,024 dimensions and more."""

MOST_MEMBERS = 20_000
"""The most members of objects in the body of a search, such as 100 searches with 100 conditions each."""

LARGE_AT_ONCE = 4
"""Large searches that one process answers at the same time."""

LARGE_PAGE = 100
"""The number of hits from which a search is large: each takes some 20 µs to encode, and a text may have megabytes."""

_HAS_PLACE = "has_place_of_large"


@asynccontextmanager
async def place_of_large(request: Request, *, is_large: bool) -> AsyncIterator[None]:
    """Wait for one of the few places for large requests, if the request is large and has none yet."""
    if not is_large or getattr(request.state, _HAS_PLACE, False):
        yield
        return
    places: asyncio.Semaphore = request.app.state.large
    async with places:
        setattr(request.state, _HAS_PLACE, True)
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
            read = _ReadRequest(request.scope, request.receive)
            body = await read.body()
            if not body:
                return await handler(read)
            _check_media_type(request.headers.get("content-type", ""))
            is_long = len(body) >= LONG_BODY
            is_large = is_long and model is not None and not is_write(request.scope)
            if is_large:
                _check_values(body)
            async with place_of_large(request, is_large=is_large):
                read.value = await aside(lambda: _read(body, model), is_long=is_long)
                return await handler(read)

        return handle


class _ReadRequest(Request):
    """A request whose body was read."""

    value: Any = None
    """The value that the body holds; an instance of the route's model where the body is large."""

    async def json(self) -> Any:
        """The same, for the framework."""
        return self.value


def _check_media_type(content_type: str) -> None:
    """Raise ``MediaTypeError`` for a body that is not sent as JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise MediaTypeError(content_type)


def _check_values(body: bytes) -> None:
    """Refuse a body of too many values, counted by the separators between them, those within texts too."""
    for characters, most, named in (
        (b",[{", MOST_VALUES, "commas and brackets"),
        (b":", MOST_MEMBERS, "colons"),
    ):
        if (found := len(body) - len(body.translate(None, characters))) > most:
            raise MalformedBodyError(
                f"the body has {found:,} {named}; a search may have {most:,}: send fewer values, or several searches"
            )


def _read(body: bytes, model: type[BaseModel] | None) -> Any:
    """The value of a body, as FastAPI takes it. Raises ``MalformedBodyError`` and ``RequestValidationError``."""
    try:
        if len(body) < LONG_BODY:
            return json_of(body)
        with without_collector():
            sent = json_of(body)
    except JSONTextError as error:
        raise MalformedBodyError(f"the body cannot be read: {error}") from None
    try:
        return sent if model is None else model.model_validate(sent)
    except ValidationError as error:
        raise _told(error, sent) from None


def _told(error: ValidationError, sent: Any) -> Exception:
    if (wrong := error.error_count()) > MOST_ERRORS:
        return MalformedBodyError(
            f"the body is wrong in {wrong:,} places, too many to tell; try with a smaller one, and see /openapi.json"
        )
    found = [{**refusal, "loc": ("body", *refusal["loc"])} for refusal in error.errors(include_url=False)]
    return RequestValidationError(found, body=sent)


_ENCODED = re.compile(rb"%(?:2F|2f|0A|0a)")
_STAND_INS = {b"%2f": chr(0xDC2F), b"%0a": chr(0xDC0A)}
"""Halves of surrogate pairs, which no name can hold, in place of encoded slashes and line breaks of names."""
_RESTORED = {0xDC2F: "/", 0xDC0A: "\n"}


def path_of_names(scope: Scope) -> str | None:
    """The path with the encoded slashes of names kept apart from the slashes between parts; None: there are none.

    The server gives the path decoded, in which the two look the same, and as it came. Raises ``InvalidRequestError``
    for a path or query that is not UTF-8.
    """
    raw_path: bytes | None = scope.get("raw_path")
    if query := scope.get("query_string"):
        check_text(query, "query")
    if raw_path is None or b"%" not in raw_path:
        return None
    check_text(raw_path, "path")
    return told_apart(raw_path) if _ENCODED.search(raw_path) else None


def check_text(encoded: bytes, part: str) -> None:
    """Raise ``InvalidRequestError`` where a part of an address is no UTF-8: different names would become the same."""
    try:
        unquote_to_bytes(encoded).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError(
            f"the {part} is not UTF-8; percent-encode each name as UTF-8, such as M%C3%BCller"
        ) from None


def told_apart(raw_path: bytes) -> str:
    """The path decoded, with other characters in place of the slashes and line ends that are parts of names."""
    # None of them is part of another character in UTF-8, so the pieces can be decoded by themselves.
    pieces = [unquote(piece.decode("latin-1")) for piece in _ENCODED.split(raw_path)]
    stand_ins = [_STAND_INS[found.lower()] for found in _ENCODED.findall(raw_path)]
    return "".join(piece + stand_in for piece, stand_in in zip(pieces, [*stand_ins, ""], strict=True))


def restored(name: Any) -> Any:
    """The name that a path holds, as it was before it was encoded."""
    return name.translate(_RESTORED) if isinstance(name, str) else name


CollectionName = Annotated[
    str, BeforeValidator(restored), Path(description="The collection's name, percent-encoded.", examples=["tickets"])
]
ItemId = Annotated[
    str,
    BeforeValidator(restored),
    Path(description="The item's id, percent-encoded; its slashes may stand as they are.", examples=["T-1"]),
]


DocumentId = Annotated[
    str,
    BeforeValidator(restored),
    Path(
        description="The document's id, percent-encoded; its slashes may stand as they are.",
        examples=["handbook/leave.md"],
    ),
]

_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*')

IfMatch = Annotated[
    str | None,
    Header(description="Only if the item is still in this version: the `ETag` that came with it, or `*` for any."),
]
IfNoneMatch = Annotated[str | None, Header(description="Only if there is no such item: `*`.")]
IfChanged = Annotated[
    str | None,
    Header(alias="If-None-Match", description="The `ETag` that is known: without a change the answer is 304."),
]


def etag(version: str) -> str:
    """The version as a strong entity tag."""
    return f'"{version}"'


def wanted_version(if_match: str | None, if_none_match: str | None = None) -> str | None:
    """The version that a write names, as ``Collection.put`` takes it; None: any.

    Raises ``InvalidRequestError`` for headers that cannot be read, or that no write can be asked for.
    """
    if if_none_match is not None:
        if if_match is not None or if_none_match.strip() != ANY:
            raise InvalidRequestError("If-None-Match takes * with a write, and goes without If-Match")
        return ABSENT
    if if_match is None or if_match.strip() == ANY:
        return if_match and ANY
    tags = _tags(if_match)
    if len(tags) != 1:
        raise InvalidRequestError('If-Match takes the ETag of one version, such as "mZ0CqVvWbX1m3y5K", or *')
    weak, version = tags[0]
    # A weak tag matches nothing here; no version has a name like this.
    return f"W/{version}" if weak else version or "W/"


def is_known(if_none_match: str | None, version: str) -> bool:
    """Whether the client has that version already."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == ANY or version in [known for _, known in _tags(if_none_match)]


def _tags(header: str) -> list[tuple[bool, str]]:
    """The entity tags of a list, each with whether it is weak. Raises ``InvalidRequestError`` for anything else."""
    found = [_TAG.fullmatch(part) for part in header.split(",")]
    tags = [(match[1] is not None, match[2]) for match in found if match is not None]
    if len(tags) != len(found):
        raise InvalidRequestError(
            'an entity tag stands in quotes, as the header ETag has it, such as "mZ0CqVvWbX1m3y5K"'
        )
    return tags


_TOLD = ("version", "created_at", "updated_at")
"""The fields that the service adds to a stored item."""

_ATTRIBUTES = ("metadata", "attributes")
_TWO_NAMES = (("text", "body"), _ATTRIBUTES, ("occurred_at", "event_time"))
"""The names of one part each."""

_VECTORS = ("embedding", "vector")
_FIELDS = frozenset(name for names in FIELD_NAMES.values() for name in names)


def sent_item(record: Mapping[str, Any]) -> Item:
    """The item that was sent. The hours of a ticket get the attribute that they have in an ingested file of tickets.

    Raises ``InvalidItemError`` for an item that cannot be stored, or that gives one field two values.
    """
    record = _without_told(record)
    _check_told_once(record)
    return with_ticket_hours(item_from_record(record))


def with_ticket_hours(item: Item) -> Item:
    """The item; of a ticket, its hours have the attribute that they have in an ingested file of tickets."""
    try:
        return with_ticket_parts(item)
    except InvalidItemError:
        # It may be no ticket at all.
        return item


def _without_told(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The item of an answer that is sent back, without the fields that the service added."""
    if isinstance(record, Mapping) and all(name in record for name in ("metadata", *_TOLD)):
        return {name: value for name, value in record.items() if name not in _TOLD}
    return record


def _check_told_once(record: Mapping[str, Any]) -> None:
    if not isinstance(record, Mapping):
        return
    for name in _TOLD:
        if record.get(name) is not None:
            raise _refused(record, f"{name!r} is the service's; leave it out, or send one of your own in 'metadata'")
    for name, other in _TWO_NAMES:
        if record.get(name) is not None and record.get(other) is not None and record[name] != record[other]:
            raise _refused(record, f"{name!r} and {other!r} are two names of one thing, and say two things; give one")
    for name in _VECTORS:
        if _is_vector(record.get(name)):
            raise _refused(record, f"{name!r} is no attribute; send vectors to POST .../items as 'embeddings'")
    _check_attributes(record)


def _check_attributes(record: Mapping[str, Any]) -> None:
    within = next((found for name in _ATTRIBUTES if isinstance(found := record.get(name), Mapping)), {})
    for name in within.keys() & record.keys() - _FIELDS:
        if None not in (within[name], record[name]) and within[name] != record[name]:
            raise _refused(record, f"{name!r:.60} is in the metadata and beside them, with two values; give one")


def _is_vector(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(number) in (int, float) for number in value)


def _refused(record: Mapping[str, Any], reason: str) -> InvalidItemError:
    key = next((found for name in FIELD_NAMES["item_id"] if (found := record.get(name)) is not None), None)
    return InvalidItemError(reason, item_id=None if key is None else str(key))
