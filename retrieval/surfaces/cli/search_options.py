"""The options of a search, and the conditions of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import JSONTextError, is_unicode, json_of, parse_value
from retrieval.domain.errors import InvalidFilterError, InvalidRequestError, InvalidVectorError, NotFoundError
from retrieval.domain.search.filters import FIELDS, NUMBER_FIELDS, parse_where
from retrieval.surfaces.cli.options import complete_legs, complete_profile

if TYPE_CHECKING:
    from retrieval.collection import Collection
    from retrieval.domain.search.profile import Profile
    from retrieval.platform import Platform


def vector_of(option: str, file: str | None) -> list[float] | None:
    """The vector in a JSON file, a list of numbers; None without a file.

    Raises ``NotFoundError`` for a missing file, ``InvalidVectorError`` for any other content.
    """
    if file is None:
        return None
    try:
        value = json_of(Path(file).read_bytes())
    except OSError as error:
        raise NotFoundError(f"cannot read {option} {file!r}: {error.strerror or error}; name a JSON file") from error
    except JSONTextError:
        value = None
    if not isinstance(value, list) or not all(type(number) in (int, float) for number in value):
        raise InvalidVectorError(
            f"{option} {file!r} does not contain a vector; write a JSON list of numbers, such as [0.1, -0.2]"
        )
    return value


def entities_of(pairs: Sequence[str]) -> dict[str, list[str]] | None:
    """Entities by type, from ``questions:q1`` and the like; None without any. Raises ``InvalidRequestError``."""
    entities: dict[str, list[str]] = {}
    for pair in pairs:
        kind, _, name = (part.strip() for part in pair.partition(":"))
        if not (kind and name):
            raise InvalidRequestError(f"cannot read --entity {pair!r}: write TYPE:ID, such as questions:q1")
        entities.setdefault(kind, []).append(name)
    return entities or None


def moment_of(text: str | None) -> datetime | None:
    """The moment of ``--as-of``; None without one. Raises ``InvalidRequestError``."""
    from retrieval.surfaces.since import time_of

    return None if text is None else time_of("--as-of", text)


async def profiles_named(platform: Platform, collection: Collection, names: Sequence[str]) -> dict[str, Profile]:
    """The profiles by name: a stored version, ``active``, or a JSON file.

    Raises ``InvalidRequestError`` for one that is named twice, ``NotFoundError``, ``InvalidProfileError``.
    """
    from retrieval.services.compare import named_profile

    if len(set(names)) < len(names):
        raise InvalidRequestError(f"a profile is named twice: {', '.join(names)}; name each once")
    place = (platform.database, platform.tenant_id, await collection.refresh())
    return {name: (await named_profile(*place, name)).profile for name in names}


async def profile_named(platform: Platform, collection: Collection, name: str | None) -> Profile | None:
    """The one profile of that name; None without one: the collection's own."""
    return None if name is None else (await profiles_named(platform, collection, [name]))[name]


_CONDITION = re.compile(r"([^=<>!]+)(==|=|!=|>=|<=|>|<)(.*)", re.DOTALL)
_OPERATOR = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_TEXTS = FIELDS - NUMBER_FIELDS
"""The fields whose values are texts, as typed."""


def where_of(conditions: Sequence[str]) -> dict[str, Any] | None:
    """The conditions as one mapping for ``Collection.search``; None without any.

    A condition is ``FIELD=VALUE``, or with ``!=``, ``>``, ``>=``, ``<``, ``<=``; or a whole mapping of
    ``retrieval.domain.search.filters`` as a JSON object. A value that is a JSON number, ``true`` or ``false`` is
    compared as such, and equals both that and the same text: ``year=2024`` finds 2024 and "2024". Spaces
    around the field and the value are ignored. Raises ``InvalidFilterError`` for anything else.
    """
    parsed = [condition_of(text) for text in conditions]
    where = {"and": parsed} if len(parsed) > 1 else parsed[0] if parsed else None
    parse_where(where)
    return where


def condition_of(text: str) -> dict[str, Any]:
    """One condition as a mapping. Raises ``InvalidFilterError``."""
    if "\x00" in text or not is_unicode(text):
        raise InvalidFilterError(f"cannot read the condition {text!r}: it contains bytes that no item can have")
    if text.lstrip().startswith("{"):
        return _json_mapping(text)
    match = _CONDITION.fullmatch(text)
    field, operator, value = (part.strip() for part in match.groups()) if match else ("", "", "")
    if not field:
        raise InvalidFilterError(
            f"cannot read the condition {text!r}: write FIELD=VALUE, with = != > >= < or <=, "
            """such as priority=High, or a JSON object such as '{"priority": ["High", "Low"]}'"""
        )
    if operator in _OPERATOR:
        return {field: {_OPERATOR[operator]: parse_value(value) if field not in _TEXTS else value}}
    values = _spellings(field, value)
    if operator == "!=":
        return {field: {"nin": values}}
    return {field: {"in": values}} if len(values) > 1 else {field: values[0]}


def _spellings(field: str, value: str) -> list[Any]:
    """The values that the text may mean: the ``26`` of an attribute may be a number or a text."""
    parsed = value if field in _TEXTS else parse_value(value)
    return [parsed] if parsed is value or field in FIELDS else [parsed, value]


def _json_mapping(text: str) -> dict[str, Any]:
    try:
        mapping: dict[str, Any] = json_of(text)  # an object, because it begins with a brace
    except JSONTextError as error:
        raise InvalidFilterError(f"cannot read the condition {text[:60]!r}: {error}") from None
    return mapping


CONDITION_HELP = (
    "Only items where this holds: priority=High, hours>=24, tags=urgent, kind!=note, or a JSON object. "
    "Repeated: all of them."
)
_QUERY_HELP = (
    'The words to search for: "a phrase", -excluded, begin*. Put -- before a query that starts with a minus. '
    "Optional with --vector, or if the profile needs none."
)

Query = Annotated[str | None, typer.Argument(metavar="QUERY", help=_QUERY_HELP)]
VectorFile = Annotated[
    str | None, typer.Option("--vector", metavar="FILE", help="A vector to search with: a JSON list of numbers.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Hits wanted, 1 to 1000.")]
Where = Annotated[list[str] | None, typer.Option("--where", "-w", metavar="COND", help=CONDITION_HELP)]
Legs = Annotated[
    str | None,
    typer.Option(
        "--legs",
        "-l",
        metavar="LEGS",
        help="The legs to use, such as dense,lexical; else the profile's.",
        autocompletion=complete_legs,
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        metavar="PROFILE",
        help="A stored version such as 3, or a JSON file; else the one in use.",
        autocompletion=complete_profile,
    ),
]
Plain = Annotated[bool, typer.Option("--plain", help="Treat quotes, minus and star in the query as text.")]
Typos = Annotated[
    bool, typer.Option("--typos", help="Replace words that no item contains by the most similar known words.")
]
SnippetSize = Annotated[
    int | None,
    typer.Option(
        "--snippet", min=20, max=2000, metavar="N", help="Show N characters of each hit around the query's words."
    ),
]
Facets = Annotated[
    list[str] | None,
    typer.Option("--facet", metavar="FIELD", help="Count the values of the field among all items that pass --where."),
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="CURSOR", help="Page by page: '' for the first, then the last page's cursor."),
]
AfterWrite = Annotated[
    str | None,
    typer.Option(
        "--after-write", metavar="TOKEN", help="Read at least the state of a write's token, on a replica too."
    ),
]
GroupBy = Annotated[
    str | None, typer.Option("--group-by", "-g", metavar="FIELD", help="Only the best hit of each value of the field.")
]
Rewrites = Annotated[
    list[str] | None, typer.Option("--rewrite", metavar="WORDS", help="Another wording. Repeated: several.")
]
Prefer = Annotated[
    list[str] | None,
    typer.Option("--prefer", metavar="COND", help="As --where, but matching items rank higher, and none is left out."),
]
Entities = Annotated[
    list[str] | None,
    typer.Option("--entity", metavar="TYPE:ID", help="What the question is about: questions:q1. Repeated: several."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="What the question is about, by tag. Repeated: several."),
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="Signals' reference time: 2026-03-01T12:00:00+00:00.")
]
MinScore = Annotated[
    float | None, typer.Option("--min-score", metavar="SCORE", help="Leave out hits of a lower score.")
]
MinRelevance = Annotated[
    float | None,
    typer.Option("--min-relevance", metavar="P", help="Leave out hits with a lower probability of relevance, 0 to 1."),
]
About = Annotated[
    str | None,
    typer.Option("--about", metavar="FILE", help="A vector, as --vector, only for the question's cluster."),
]
