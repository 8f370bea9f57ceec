"""The options of a search, and the conditions of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from retrieval.domain.checks import JSONTextError, json_of, parse_value
from retrieval.domain.errors import InvalidFilterError, InvalidRequestError
from retrieval.domain.search.filters import FIELDS, NUMBER_FIELDS
from retrieval.surfaces.cli.options import flag, option

if TYPE_CHECKING:
    from retrieval.collection import Collection
    from retrieval.domain.search.profile import Profile


def entities_of(pairs: Sequence[str]) -> dict[str, list[str]] | None:
    """Entities by type, from ``questions:q1`` and the like; None without any. Raises ``InvalidRequestError``."""
    entities: dict[str, list[str]] = {}
    for pair in pairs:
        kind, _, name = (part.strip() for part in pair.partition(":"))
        if not (kind and name):
            raise InvalidRequestError(f"cannot read --entity {pair!r}: write TYPE:ID, such as questions:q1")
        entities.setdefault(kind, []).append(name)
    return entities or None


async def profile_named(collection: Collection, name: str) -> Profile:
    """The profile of that name: a stored version, ``active``, or a JSON file.

    Raises ``NotFoundError``, ``InvalidProfileError``.
    """
    from retrieval.collection import handle_of
    from retrieval.services.compare import named_profile

    handle = handle_of(collection)
    database, tenant_id, _ = await handle.place()
    return (await named_profile(database, tenant_id, await collection.refresh(), name)).profile


_CONDITION = re.compile(r"([^=<>!]+)(==|=|!=|>=|<=|>|<)(.*)", re.DOTALL)
_OPERATOR = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_TEXTS = FIELDS - NUMBER_FIELDS
"""The fields whose values are texts, as typed."""


def where_of(conditions: Sequence[str] | None) -> dict[str, Any] | None:
    """The conditions as one mapping for ``Collection.search``; None without any.

    A condition is ``FIELD=VALUE``, or with ``!=``, ``>``, ``>=``, ``<``, ``<=``; or a whole mapping of
    ``retrieval.domain.search.filters`` as a JSON object. A value that is a JSON number, ``true`` or ``false`` is
    compared as such, and equals both that and the same text: ``year=2024`` finds 2024 and "2024". Spaces
    around the field and the value are ignored. Raises ``InvalidFilterError`` for anything else.
    """
    parsed = [condition_of(text) for text in conditions or ()]
    return {"and": parsed} if len(parsed) > 1 else parsed[0] if parsed else None


def condition_of(text: str) -> dict[str, Any]:
    """One condition as a mapping. Raises ``InvalidFilterError``."""
    if text.lstrip().startswith("{"):
        try:
            mapping: dict[str, Any] = json_of(text)
        except JSONTextError as error:
            raise InvalidFilterError(f"cannot read the condition {text[:60]!r}: {error}") from None
        return mapping
    match = _CONDITION.fullmatch(text)
    field, operator, value = (part.strip() for part in match.groups()) if match else ("", "", "")
    if not field:
        raise InvalidFilterError(
            f"cannot read the condition {text!r}: write FIELD=VALUE, with = != > >= < or <=, "
            """such as priority=High, or a JSON object such as '{"priority": ["High", "Low"]}'"""
        )
    parsed = value if field in _TEXTS else parse_value(value)
    if operator in _OPERATOR:
        return {field: {_OPERATOR[operator]: parsed}}
    # The ``26`` of an attribute may be a number or a text.
    values = [parsed] if parsed is value or field in FIELDS else [parsed, value]
    if operator == "!=":
        return {field: {"nin": values}}
    return {field: {"in": values}} if len(values) > 1 else {field: parsed}


CONDITION_HELP = (
    "Only items where this holds: priority=High, hours>=24, tags=urgent, kind!=note, or a JSON object. "
    "Repeated: all of them."
)
Limit = Annotated[int, option("N", "Hits wanted, 1 to 1000.", "--limit", "-n")]
Where = Annotated[list[str] | None, option("COND", CONDITION_HELP, "--where", "-w")]
ProfileName = Annotated[
    str | None,
    option("PROFILE", "A stored version such as 3, or a JSON file; else the one in use.", "--profile", "-p"),
]
Plain = Annotated[bool, flag("Treat quotes, minus and star in the query as text.", "--plain")]
Typos = Annotated[bool, flag("Replace words that no item contains by the most similar known words.", "--typos")]
MinScore = Annotated[float | None, option("SCORE", "Leave out hits of a lower score.", "--min-score")]
MinRelevance = Annotated[
    float | None,
    option("P", "Leave out hits with a lower probability of relevance, 0 to 1.", "--min-relevance"),
]
