"""The sync door's shape, and where it refuses."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_type

import pytest

import retrieval.sync
from retrieval.apps import memories, metaphors, recall, tickets
from retrieval.apps.memories.store import MemoryPage
from retrieval.apps.principles import PrincipleStore
from retrieval.collection import Collection
from retrieval.domain.errors import InvalidRequestError, RunningLoopError
from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import SearchResult
from retrieval.platform import Platform, connect
from retrieval.settings import Settings
from retrieval.sync import SyncCollection, SyncPlatform
from retrieval.sync.mirror import Mirror

MIRRORS = [
    (memories.MemoryStore, retrieval.sync.MemoryStore),
    (PrincipleStore, retrieval.sync.PrincipleStore),
    (recall.DualRetriever, retrieval.sync.DualRetriever),
    (recall.Memory, retrieval.sync.Memory),
    (memories.RetrievalEngine, retrieval.sync.RetrievalEngine),
    (metaphors.MetaphorCorpus, retrieval.sync.MetaphorCorpus),
    (metaphors.MetaphorRetriever, retrieval.sync.MetaphorRetriever),
    (metaphors.RetrievalModel, retrieval.sync.RetrievalModel),
    (tickets.RetrievalService, retrieval.sync.RetrievalService),
]
"""The applications' async classes, each with its counterpart of the sync door."""

TWINS = [(Platform, SyncPlatform), (Collection, SyncCollection), *MIRRORS]

ONLY_ASYNC = {"database", "embedder", "reranker", "workplace"}
"""The open database, what works on it in the background, and models that no application takes speak async alone."""


if TYPE_CHECKING:

    def checked_by_mypy(platform: SyncPlatform, collection: SyncCollection) -> None:
        """A mirrored call has the async one's parameters, and gives without ``await`` what that gives."""
        assert_type(platform.collection("a", create=False), SyncCollection)
        assert_type(platform.collections(), list[SyncCollection])
        assert_type(platform.of_tenant("b").tenant_id, int)
        assert_type(collection.search("disk", limit=5), SearchResult)
        assert_type(next(collection.scan(batch=1)), Item)
        assert_type(collection.unrecorded().name, str)
        collection.search(1)  # type: ignore[arg-type]
        collection.search("disk", limt=1)  # type: ignore[call-arg]
        assert_type(retrieval.sync.MemoryStore(platform).list_memories("p"), MemoryPage)
        assert_type(retrieval.sync.DualRetriever(collection, None).needs_deep_search("why"), bool)


def members(cls: type, kind: Callable[[Any], bool]) -> dict[str, Any]:
    """The public members of a class that are of that kind, its bases' among them, by name."""
    every = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return {name: value for name, value in every.items() if kind(value) and not name.startswith("_")}


def is_property(value: object) -> bool:
    """Whether a class's member is a property."""
    return isinstance(value, property)


def annotation_of(cls: type, name: str) -> str:
    """The type of a property, as it is written."""
    written = cls.__annotations__.get(name) or inspect.signature(vars(cls)[name].fget).return_annotation
    return str(written)


@pytest.mark.parametrize(("awaited", "plain"), TWINS)
def test_both_have_the_same_methods_and_properties(awaited: type, plain: type) -> None:
    """Both APIs have the same members."""
    assert set(members(plain, inspect.isfunction)) == set(members(awaited, inspect.isfunction))
    properties = set(members(awaited, is_property)) | ({"settings"} if awaited is Platform else set())
    assert set(members(plain, is_property)) == properties - ONLY_ASYNC
    for name in members(plain, is_property):
        annotation = annotation_of(plain, name).replace("Sync", "")
        assert name == "settings" or annotation == annotation_of(awaited, name)


@pytest.mark.parametrize(("awaited", "plain"), TWINS)
def test_signatures_are_equal(awaited: type, plain: type) -> None:
    """Parameters, defaults and annotations are the same, except that the sync door's own classes are named."""
    for name in members(awaited, inspect.isfunction):
        expected = inspect.signature(getattr(awaited, name))
        signature = inspect.signature(getattr(plain, name))

        assert signature.parameters == expected.parameters, name
        awaited_returns = expected.return_annotation.replace("AsyncIterator", "Iterator")
        assert re.sub(r"\bSync(?=Collection|Platform)", "", signature.return_annotation) == awaited_returns, name
        assert not inspect.iscoroutinefunction(getattr(plain, name)), name


def test_both_are_made_and_connected_alike() -> None:
    """``connect`` and the platforms take the same arguments."""
    assert inspect.signature(retrieval.sync.connect).parameters == inspect.signature(connect).parameters
    assert inspect.signature(retrieval.sync.open).parameters == inspect.signature(connect).parameters
    assert inspect.signature(retrieval.open).parameters == inspect.signature(connect).parameters
    assert inspect.signature(SyncPlatform).parameters == inspect.signature(Platform).parameters


def test_every_mirror_is_compared() -> None:
    """Every public class of the sync package is compared by these tests."""
    values = [value for name in retrieval.sync.__all__ if isinstance(value := getattr(retrieval.sync, name), type)]
    assert {mirror for mirror in values if issubclass(mirror, Mirror)} == {plain for _, plain in TWINS}


@pytest.mark.parametrize(("awaited", "plain"), MIRRORS)
def test_mirrors_are_made_as_what_they_mirror(awaited: type, plain: type) -> None:
    """The same arguments with the same defaults; a sync platform or collection takes the async one's place."""
    expected = inspect.signature(awaited).parameters.values()
    parameters = inspect.signature(plain).parameters.values()
    assert [(parameter.name, parameter.kind, parameter.default) for parameter in parameters] == [
        (parameter.name, parameter.kind, parameter.default) for parameter in expected
    ]
    assert [str(parameter.annotation).replace("Sync", "") for parameter in parameters] == [
        str(parameter.annotation) for parameter in expected
    ]


@pytest.mark.parametrize(("awaited", "plain"), TWINS)
def test_help_is_as_whole_as_the_async_ones(awaited: type, plain: type) -> None:
    """Each method and property has the async one's docstring; what a method of ``with`` says may differ."""
    own = {"open", "close", "of_tenant"} if awaited is Platform else set()
    for kind in (inspect.isfunction, is_property):
        for name, member in members(plain, kind).items():
            if name not in own and hasattr(awaited, name):
                assert inspect.getdoc(member) == inspect.getdoc(getattr(awaited, name)), name
    assert all("See ``" not in (inspect.getdoc(getattr(plain, name)) or "") for name in own)


def test_help_shows_what_a_sync_search_takes() -> None:
    """The parameters with their types, and the whole description."""
    text = pydoc.render_doc(SyncCollection.search, renderer=vars(pydoc)["plaintext"])
    assert "rewrites: 'Sequence[str]' = ()" in text
    assert "``prefer``: a filter; items that pass it rank higher" in text
    assert "-> 'SearchResult'" in text


@pytest.mark.parametrize(("awaited", "plain"), TWINS)
def test_class_and_methods_say_that_they_do_not_wait(awaited: type, plain: type) -> None:
    """A traceback, a log line or a type checker's message names the class of the sync door."""
    assert plain.__name__ == f"Sync{awaited.__name__}"
    for name, method in members(plain, inspect.isfunction).items():
        (home,) = (base for base in plain.__mro__ if vars(base).get(name) is method)
        assert method.__qualname__ == f"{home.__name__}.{name}"
        assert method.__module__.startswith("retrieval.sync.")


async def test_opening_inside_a_running_loop_is_refused() -> None:
    """Blocking there would freeze the loop; the message names the way out."""
    with pytest.raises(RunningLoopError, match=r"await the async API there: async with retrieval\.connect\(\)"):
        retrieval.sync.connect(settings=Settings()).__enter__()


def test_use_before_opening_is_refused() -> None:
    """The message shows the ``with`` block that is missing."""
    with pytest.raises(InvalidRequestError, match=r"with connect\(\) as platform, or: .* = retrieval.sync.open"):
        retrieval.sync.connect(settings=Settings()).collection("tickets")


def test_arguments_go_before_the_settings() -> None:
    """The given address and tenant override the configured ones."""
    platform = retrieval.sync.connect("postgresql://db.example/app", tenant="acme", settings=Settings())

    assert platform.settings.tenant == "acme"
    assert platform.settings.database_url is not None
    assert platform.settings.database_url.get_secret_value() == "postgresql://db.example/app"
