"""Arguments of wrong types and names: every call of a collection and of a platform names what it expects."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import retrieval.sync
from retrieval import (
    Collection,
    Context,
    EmbeddingSpace,
    Feedback,
    Item,
    Platform,
    Profile,
    Settings,
    connect,
    read_items,
)
from retrieval.domain.errors import InvalidProfileError, InvalidRequestError, RetrievalError
from retrieval.domain.items.chunking import Chunking
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.search.profile import _PARTS
from retrieval.domain.search.signals import SIGNALS

ITEM = {"id": "a", "title": "Database", "text": "connection timeout", "priority": "High"}

WRONG: Mapping[str, object] = {"int": 1.5, "float": "x", "str": 5, "bool": "x"}
"""A value of another type for each plain type; what takes several of them gets an object of no type at all."""

USUAL: Mapping[str, Any] = {
    "query": "database",
    "queries": ["database"],
    "text": "data",
    "items": [ITEM],
    "documents": [{"id": "d", "text": "text"}],
    "item": ITEM,
    "item_id": "a",
    "item_ids": ["a"],
    "document_ids": ["d"],
    "changes": {"title": "Other"},
    "decide": lambda _, item: item,
    "field": "kind",
    "days": 30.0,
    "events": [Feedback(helpful=True, item_id="a", collection="tests")],
    "attributes": {"priority": "text"},
    "names": ["priority"],
    "shown": [],
    "origin": "tests",
    "retrieval_time_ms": 1.0,
    "session": "s",
    "relevant": {},
    "lines": iter(()),
    "paths": [],
    "actor": "ann",
    "used": ["a"],
    "reward": 1.0,
    "tenant": "other",
    "view": "analytics_queries",
    "helpful": True,
    "collection": "tests",
    "name": "tests",
    "key_id": "k",
}


ALSO: Mapping[str, tuple[str, ...]] = {
    "search": ("query",),
    "feedback": ("helpful", "item_id", "collection"),
}
"""Arguments that may be missing, without which the others mean nothing."""


def methods(cls: type) -> dict[str, Callable[..., Any]]:
    """The public methods of the class, by name."""
    return {name: method for name, method in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def wrong_values(method: Callable[..., Any]) -> dict[str, object]:
    """A value for each of the method's arguments that no call can mean by it."""
    annotations = {name: str(parameter.annotation) for name, parameter in inspect.signature(method).parameters.items()}
    del annotations["self"]
    return {name: WRONG.get(kind.removesuffix(" | None"), object()) for name, kind in annotations.items()}


async def outcome_of(method: Callable[..., Any], name: str, value: object) -> object:
    """The outcome of the call with that value, and with usual values for the other required arguments."""
    arguments = {
        parameter.name: {"a": Profile(), "b": Profile()} if parameter.name == "profiles" else USUAL.get(parameter.name)
        for parameter in inspect.signature(method).parameters.values()
        if parameter.default is inspect.Parameter.empty or parameter.name in ALSO.get(method.__name__, ())
    }
    arguments[name] = value
    outcome = method(**arguments)
    if inspect.isasyncgen(outcome):
        return [row async for row in outcome]
    return await outcome if inspect.isawaitable(outcome) else outcome


@pytest.mark.parametrize("cls", [Collection, Platform])
async def test_values_of_other_types_are_refused(platform: Platform, subtests: pytest.Subtests, cls: type) -> None:
    """By an error that names a flag."""
    collection = await platform.collection("tests")
    await collection.add([ITEM])
    for name, method in methods(cls).items():
        for argument, value in wrong_values(method).items():
            with (
                subtests.test(method=name, argument=argument),
                pytest.raises(RetrievalError, match=argument if value == "x" else None),
            ):
                await outcome_of(getattr(collection if cls is Collection else platform, name), argument, value)


@pytest.mark.parametrize("cls", [Collection, Platform])
async def test_a_whole_number_of_numpy_is_one(platform: Platform, subtests: pytest.Subtests, cls: type) -> None:
    """In every place; a name or a collection that is not there is reported as with a plain number."""
    collection = await platform.collection("tests")
    await collection.add([ITEM])
    for name, method in methods(cls).items():
        for parameter in inspect.signature(method).parameters.values():
            if str(parameter.annotation).removesuffix(" | None") == "int":
                plain = parameter.default if isinstance(parameter.default, int) else 20
                with subtests.test(method=name, argument=parameter.name):
                    call = getattr(collection if cls is Collection else platform, name)
                    expected, outcome = [
                        await asyncio.gather(outcome_of(call, parameter.name, value), return_exceptions=True)
                        for value in (plain, np.int64(plain))
                    ]
                    assert type(outcome[0]) is type(expected[0]), outcome


async def test_a_profile_may_have_a_whole_number_of_numpy(platform: Platform) -> None:
    """It is stored as JSON."""
    collection = await platform.collection("tests")
    depth: Any = np.int64(30)
    profile = Profile(legs={"lexical": 1.0}, depth=depth)
    assert (await collection.stored_profile(await collection.set_profile(profile))).profile.depth == 30


HALF = "\ud800"
"""Half of a surrogate pair, which no connection can send."""


def text_arguments(cls: type) -> list[tuple[str, str, bool]]:
    """Each public method with each of its arguments that takes a text, or several, which is said, and no path."""
    return [
        (name, parameter.name, "Sequence[str]" in str(parameter.annotation))
        for name, method in methods(cls).items()
        for parameter in inspect.signature(method).parameters.values()
        if "str" in str(parameter.annotation) and "Path" not in str(parameter.annotation)
    ]


@pytest.mark.parametrize("cls", [Collection, Platform])
async def test_half_a_character_is_an_error_of_the_platform(
    platform: Platform, subtests: pytest.Subtests, cls: type
) -> None:
    """In no place Python's own error."""
    collection = await platform.collection("tests")
    await collection.add([ITEM])
    for name, argument, is_several in text_arguments(cls):
        with subtests.test(method=name, argument=argument), suppress(RetrievalError):
            called = getattr(collection if cls is Collection else platform, name)
            await outcome_of(called, argument, [HALF] if is_several else HALF)


@pytest.mark.parametrize(
    "argument", ["query", "facets", "syntax", "typos", "legs", "where", "tags", "snippet", "limit"]
)
async def test_an_array_in_the_place_of_another_argument_is_refused(platform: Platform, argument: str) -> None:
    """Above all a vector that is given as the query."""
    collection = await platform.collection("tests")
    with pytest.raises(InvalidRequestError, match="give a vector as vector=" if argument == "query" else None):
        await outcome_of(collection.search, argument, np.ones(8, dtype=np.float32))


@pytest.mark.parametrize(
    "value", [[], {}, np.array([1, 2]), np.array([["a"], ["b"]])], ids=["list", "dict", "1d", "2d"]
)
@pytest.mark.parametrize("cls", [Collection, Platform])
async def test_a_text_that_cannot_be_compared_is_refused(
    platform: Platform, subtests: pytest.Subtests, cls: type, value: object
) -> None:
    """A list has no hash, and an array of several numbers is neither true nor false; a list of no ids is none."""
    collection = await platform.collection("tests")
    await collection.add([ITEM])
    for name, argument, is_several in text_arguments(cls):
        called = getattr(collection if cls is Collection else platform, name)
        with subtests.test(method=name, argument=argument), suppress(RetrievalError):
            if not is_several:
                await outcome_of(called, argument, value)
                annotation = str(inspect.signature(called).parameters[argument].annotation)
                assert annotation.removesuffix(" | None") != "str", "a text is a text"


async def test_scopes_and_used_items_are_texts(platform: Platform) -> None:
    """Not even a value without a hash is looked up."""
    with pytest.raises(InvalidRequestError, match=r"scopes are texts such as \['read'\], not \[\]"):
        await platform.create_key("app", scopes=[[]])  # type: ignore[list-item]
    with pytest.raises(InvalidRequestError, match="used items are texts"):
        await platform.outcome(uuid4(), [{}], reward=1)  # type: ignore[list-item]


@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "d/" * 3000], ids=["NUL", "name", "path"])
async def test_a_path_that_no_file_can_have_is_refused(platform: Platform, tmp_path: Path, path: str) -> None:
    """Wherever a path is taken, before it is looked for."""
    collection = await platform.collection("tests")
    with pytest.raises(InvalidRequestError, match="path"):
        await platform.export_collection("tests", tmp_path / path)
    with pytest.raises(InvalidRequestError, match="path"):
        await platform.import_collection(path)
    with pytest.raises(InvalidRequestError, match="path"):
        await collection.ingest_documents([path])
    with pytest.raises(InvalidRequestError, match="path"):
        read_items(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"typos": "x"}, "typos is 'x'; it must be True or False"),
        ({"syntax": 0}, "syntax is 0; it must be True or False"),
        ({"facets": 0}, "facets come in a list"),
        ({"snippet": -1}, "snippet is -1"),
        ({"facets": ["item_id"]}, "the values of 'item_id' are not counted; name an attribute, or one of tags, kind"),
        ({"k": 5}, "search has no argument 'k'; did you mean 'limit'? There are: query, vector, where"),
        ({"filter": {}}, "no argument 'filter'; did you mean 'where'?"),
        ({"min_relevence": 1}, "did you mean 'min_relevance'?"),
        ({"zzz": 1}, "no argument 'zzz'; there are: query"),
    ],
)
async def test_a_search_says_what_it_takes(platform: Platform, arguments: Any, message: str) -> None:
    """The message is about an argument's value, or about its name."""
    collection = await platform.collection("tests")
    with pytest.raises(InvalidRequestError) as refused:
        await collection.search("database", **arguments)
    assert message in str(refused.value)


async def test_other_calls_name_the_argument_that_was_meant(platform: Platform) -> None:
    """The wrong name is reported first, even if a required argument is missing too."""
    collection = await platform.collection("tests")
    unchecked: Any = collection
    with pytest.raises(InvalidRequestError, match="add has no argument 'documents'; did you mean 'items'"):
        await unchecked.add(documents=[ITEM])
    anything: Any = platform
    with pytest.raises(InvalidRequestError, match="feedback has no argument 'user'; did you mean 'actor'"):
        await anything.feedback(user="ann")
    with pytest.raises(InvalidRequestError, match="connect has no argument 'dsn'; did you mean 'url'"):
        connect(dsn="postgresql://")  # type: ignore[call-arg]
    with pytest.raises(InvalidRequestError, match="connect has no argument 'dsn'; did you mean 'url'"):
        retrieval.sync.connect(dsn="postgresql://")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "kind",
    [Chunking, Context, EmbeddingSpace, Feedback, Item, Neighbours, Profile, *_PARTS.values(), *SIGNALS.values()],
)
def test_a_value_names_the_field_that_was_meant(kind: Any) -> None:
    """Every value that callers make, even if a required field is missing too."""
    name = next(iter(inspect.signature(kind).parameters))
    with pytest.raises(InvalidRequestError, match=f"^{kind.__name__} has no argument .*; did you mean {name!r}"):
        kind(**{f"{name}s": 1})


def test_names_are_checked_without_another_signature() -> None:
    """A program that reads signatures sees the arguments that there are."""
    parameters = inspect.signature(Collection.add).parameters
    assert list(parameters) == ["self", "items", "embeddings"]
    assert parameters["items"].default is inspect.Parameter.empty
    assert inspect.signature(Collection.search).parameters["query"].default is None


def test_the_other_kind_of_with_is_named(settings: Settings) -> None:
    """The message of each platform says how to open it."""
    with pytest.raises(InvalidRequestError, match=r"async with retrieval\.connect\(\)"), connect(settings=settings):
        pass


async def test_a_platform_without_await_is_not_awaited(settings: Settings) -> None:
    """The message names the right one."""
    opened: Any = retrieval.sync.connect(settings=settings)
    with pytest.raises(InvalidRequestError, match="this platform is not awaited"):
        async with opened:
            pass


@pytest.mark.parametrize("legs", [[], (), "dense", 5])
async def test_legs_that_are_none_are_refused_by_their_name(platform: Platform, legs: Any) -> None:
    """No profile was given, so the message speaks of none."""
    with pytest.raises(InvalidRequestError, match=r"^legs must be a list of names such as .*, not "):
        await (await platform.collection("tests")).search("database", legs=legs)


@pytest.mark.parametrize("part", ["legs", "fusion", "refining", "diversity", "learned", "exploration", "recording"])
@pytest.mark.parametrize("value", [5, "x", None, []])
def test_the_parts_of_a_profile_have_their_types(part: str, value: object) -> None:
    """Whichever part it is."""
    arguments: dict[str, Any] = {part: value}
    with pytest.raises(InvalidProfileError, match=part):
        Profile(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"path": 5}, {"path": None}, {"columns": 5}, {"columns": {5: "a"}}, {"clean": "x"}, {"texts": 5}, {"header": 5}],
)
def test_a_file_is_read_by_what_can_be_meant(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """Before it is opened."""
    file = tmp_path / "a.csv"
    file.write_text("_id,text\n1,a\n")
    with pytest.raises(RetrievalError):
        read_items(**{"path": file, **arguments})
