"""The options before the command, those that several commands share, and the values that they name."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import JSONTextError, json_of, parse_value
from retrieval.domain.errors import InvalidFilterError, InvalidRequestError, InvalidVectorError
from retrieval.domain.search.filters import FIELDS, NUMBER_FIELDS, parse_where

if TYPE_CHECKING:
    from retrieval.collection import Collection
    from retrieval.domain.search.profile import Profile
    from retrieval.settings import Settings


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """The options before the command, and the command's own ``--json``."""

    tenant: str | None = None
    debug: bool = False
    as_json: bool = False


PROGRAM: ContextVar[ProgramOptions] = ContextVar("PROGRAM", default=ProgramOptions())  # noqa: B039 - it is frozen
"""The options of the present run of the program."""


def wants_json() -> bool:
    """Whether standard output is to be only JSON."""
    return PROGRAM.get().as_json


def program_settings() -> Settings:
    """The settings of the environment, changed by the options before the command.

    Raises ``InvalidRequestError`` for values that cannot work.
    """
    from retrieval.settings import Settings

    tenant = PROGRAM.get().tenant
    return Settings() if tenant is None else Settings().changed(tenant=tenant)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a command that cannot be undone, unless ``yes``.

    Raises ``InvalidRequestError`` for the answer no, and without a terminal to ask at.
    """
    check_terminal(question, yes=yes)
    if not yes and not typer.confirm(question, err=True):
        raise InvalidRequestError("the answer was no: nothing was done")


def has_terminal() -> bool:
    """Whether a person can answer questions on standard input."""
    return sys.stdin is not None and sys.stdin.isatty()


def check_terminal(question: str, *, yes: bool) -> None:
    """Raise ``InvalidRequestError`` if there is no terminal to ask at, unless ``yes``."""
    if not yes and (wants_json() or not has_terminal()):
        raise InvalidRequestError(f"{question} There is no terminal to ask at; to go on, give --yes")


def argument(metavar: str, about: str, **settings: Any) -> Any:
    """An argument with the name of its value and a help text."""
    return typer.Argument(metavar=metavar, help=about, **settings)


def option(metavar: str, about: str, *names: str, **settings: Any) -> Any:
    """An option with the name of its value and a help text; without ``names`` it has the parameter's."""
    return typer.Option(*names, metavar=metavar, help=about, **settings)


def flag(about: str, *names: str) -> Any:
    """An option without a value, with its help text."""
    return typer.Option(*names, help=about)


Json = Annotated[bool, flag("Print only JSON on standard output.", "--json")]
Quiet = Annotated[bool, flag("No progress and no summary.", "--quiet", "-q")]
Yes = Annotated[bool, flag("Do not ask.", "--yes", "-y")]
CollectionName = Annotated[str, argument("COLLECTION", "The collection's name.")]


OneCollection = Annotated[str | None, option("NAME", "This collection; else all of the tenant.", "--collection", "-c")]
RetrievalId = Annotated[str, argument("RETRIEVAL_ID", "The identifier in the search's result.")]
Queries = Annotated[
    Path, option("FILE", "Queries, one JSON object a line: id, text, metadata; or CSV, without --qrels.", "--queries")
]
Judgements = Annotated[Path | None, option("FILE", "Judgements: query id, item id, score, by tabs.", "--qrels")]
WhereFromOption = Annotated[
    list[str] | None,
    option(
        "EXPR", "Narrow each query by its own metadata: metadata.as_of>=occurred_at. May be repeated.", "--where-from"
    ),
]
DropSelfOption = Annotated[
    str | None, option("NAME", "Leave out the item named in the query's metadata.NAME.", "--drop-self")
]
LimitQueries = Annotated[int | None, option("N", "Use only the first N judged queries.", min=1)]


def filterable_of(pairs: Sequence[str]) -> dict[str, str]:
    """Types by attribute, from ``priority:text`` and the like.

    Raises ``InvalidRequestError``, also for an attribute that is given twice.
    """
    types: dict[str, str] = {}
    for pair in pairs:
        name, _, kind = (part.strip() for part in pair.rpartition(":"))
        if not (name and kind):
            raise InvalidRequestError(f"cannot read {pair!r}: write ATTRIBUTE:TYPE, such as priority:text")
        if name in types:
            raise InvalidRequestError(f"attribute {name!r} is given twice; give it one type")
        types[name] = kind
    return types


def by_commas(text: str) -> tuple[str, ...]:
    """The parts between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def legs_of(text: str | None) -> tuple[str, ...] | None:
    """Leg names from ``dense,lexical``; None for no option.

    Raises ``InvalidProfileError`` for an unknown leg, and ``InvalidRequestError`` for none.
    """
    from retrieval.domain.search.profile import leg_name

    if text is None:
        return None
    names = tuple(leg_name(part).value for part in by_commas(text))
    if not names:
        raise InvalidRequestError("--legs names no leg; write for example --legs dense,lexical")
    return names


def json_file(option: str, file: str | None) -> Any:
    """The JSON value in a file; None for no file. Raises ``InvalidRequestError``, which names the option."""
    if file is None:
        return None
    try:
        value = json_of(Path(file).read_bytes())
    except (OSError, JSONTextError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidRequestError(f"cannot read {option} {file!r}: {reason}") from None
    if value is None:  # it would pass for an option that was not given
        raise InvalidRequestError(f"cannot read {option} {file!r}: it contains null")
    return value


def vector_file(option: str, file: str | None) -> list[float] | None:
    """The vector in a JSON file; None for no file. Raises ``InvalidRequestError`` and ``InvalidVectorError``."""
    value = json_file(option, file)
    if value is None or (isinstance(value, list) and all(type(number) in (int, float) for number in value)):
        return value
    raise InvalidVectorError(f"{option} {file!r} holds no vector; write a JSON list of numbers, such as [0.1, -0.2]")


def examples(*lines: str) -> str:
    """The examples at the end of a help text, each on a line of its own."""
    shown = [line.replace("[", "\\[") for line in lines]
    return "\n\n".join(["Example:" if len(lines) == 1 else "Examples:", *shown])


Command = Callable[..., None]


def command(
    app: typer.Typer, *lines: str, name: str | None = None, hidden: bool = False
) -> Callable[[Command], Command]:
    """Makes a function a command of the app with ``--json`` and with examples in its help text.

    The command has the function's name, or the given one.
    """

    def add(function: Command) -> Command:
        @wraps(function)
        def run(*, as_json: bool = False, **arguments: Any) -> None:
            PROGRAM.set(replace(PROGRAM.get(), as_json=as_json))
            function(**arguments)

        # typer reads the options from the signature.
        signature = inspect.signature(function, eval_str=True)
        json_option = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
        vars(run)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), json_option])
        return app.command(name, epilog=examples(*lines), hidden=hidden)(run)

    return add


def group(app: typer.Typer, name: str, about: str, *lines: str) -> typer.Typer:
    """A new group of commands of the app, with its help text and examples."""
    added = typer.Typer(no_args_is_help=True)
    app.add_typer(added, name=name, help=about, epilog=examples(*lines))
    return added


Actor = Annotated[str, option("NAME", "Who asks.", "--actor")]
Session = Annotated[str, option("NAME", "A name of related searches: a conversation, a run.", "--session")]
Domain = Annotated[str, option("NAME", "What the question is about, in a word.", "--domain")]
Complexity = Annotated[float | None, option("C", "How hard the problem is, 0 to 1.", "--complexity")]
Backtracks = Annotated[int, option("N", "Earlier attempts at the same problem.", "--backtracks")]
Generated = Annotated[bool, flag("A model has already made candidates for this problem.", "--generated")]


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
    database, tenant_id, *_ = await handle.place()
    return (await named_profile(database, tenant_id, await collection.refresh(), name)).profile


_CONDITION = re.compile(r"([^=<>!]+)(==|=|!=|>=|<=|>|<)(?![=<>!])(.*)", re.DOTALL)
"""A value that begins as an operator does, such as that of ``hours=>24``, is rather a mistyped one."""
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
    where = {"and": parsed} if len(parsed) > 1 else parsed[0] if parsed else None
    parse_where(where)  # before the database is opened, which may take seconds
    return where


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
    str | None, option("PROFILE", "A stored version such as 3, or a JSON file; else the one in use.", "--profile", "-p")
]
Plain = Annotated[bool, flag("Treat quotes, minus and star in the query as text.", "--plain")]
Typos = Annotated[bool, flag("Replace words that no item contains by the most similar known words.", "--typos")]
MinScore = Annotated[float | None, option("SCORE", "Leave out hits of a lower score.", "--min-score")]
MinRelevance = Annotated[
    float | None, option("P", "Leave out hits with a lower probability of relevance, 0 to 1.", "--min-relevance")
]
