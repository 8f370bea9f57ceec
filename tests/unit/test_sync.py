"""The sync door's shape, and where it refuses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import retrieval.sync
from retrieval.apps import memories, metaphors, recall, tickets
from retrieval.apps.principles import PrincipleStore
from retrieval.collection import Collection
from retrieval.domain.errors import InvalidRequestError, RunningLoopError
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
"""The applications' async classes, each with what the sync door has for it."""

TWINS = [(Platform, SyncPlatform), (Collection, SyncCollection), *MIRRORS]

ONLY_ASYNC = {"database", "embedder", "home_loop", "llm", "rewrite_cache", "workplace"}
"""The open database, its loop, what works on it in the background, the models and what they said speak async alone."""


def members(cls: type, kind: Callable[[Any], bool]) -> dict[str, Any]:
    """The public members of a class that are of that kind, its bases' among them, by name."""
    every = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return {name: value for name, value in every.items() if kind(value) and not name.startswith("_")}


def is_property(value: object) -> bool:
    """Whether a class's member is a property."""
    return isinstance(value, property)


@pytest.mark.parametrize(("awaited", "plain"), TWINS)
def test_both_have_the_same_methods_and_properties(awaited: type, plain: type) -> None:
    """What one learns of the async API holds for the sync door."""
    assert set(members(plain, inspect.isfunction)) == set(members(awaited, inspect.isfunction))
    properties = set(members(awaited, is_property)) | ({"settings"} if awaited is Platform else set())
    assert set(members(plain, is_property)) == properties - ONLY_ASYNC


@pytest.mark.parametrize(
    ("awaited", "plain", "name"),
    [(awaited, plain, name) for awaited, plain in TWINS for name in members(awaited, inspect.isfunction)],
)
def test_signatures_are_equal(awaited: type, plain: type, name: str) -> None:
    """Parameters, defaults and annotations are the same; only the door's own classes are named for it."""
    wanted = inspect.signature(getattr(awaited, name))
    found = inspect.signature(getattr(plain, name))

    assert found.parameters == wanted.parameters
    awaited_returns = wanted.return_annotation.replace("AsyncIterator", "Iterator")
    assert re.sub(r"\bSync(?=Collection|Platform)", "", found.return_annotation) == awaited_returns
    assert not inspect.iscoroutinefunction(getattr(plain, name))


def test_both_are_made_and_connected_alike() -> None:
    """``connect`` and the platforms take the same arguments."""
    assert inspect.signature(retrieval.sync.connect).parameters == inspect.signature(connect).parameters
    assert inspect.signature(retrieval.sync.open).parameters == inspect.signature(connect).parameters
    assert inspect.signature(retrieval.open).parameters == inspect.signature(connect).parameters
    assert inspect.signature(SyncPlatform).parameters == inspect.signature(Platform).parameters


def test_every_mirror_is_compared() -> None:
    """None that the door shows is left out of these tests."""
    shown = [value for name in retrieval.sync.__all__ if isinstance(value := getattr(retrieval.sync, name), type)]
    assert {one for one in shown if issubclass(one, Mirror)} == {plain for _, plain in MIRRORS}


@pytest.mark.parametrize(("awaited", "plain"), MIRRORS)
def test_mirrors_are_made_as_what_they_mirror(awaited: type, plain: type) -> None:
    """The same arguments with the same defaults; a sync platform or collection takes the async one's place."""
    wanted = inspect.signature(awaited).parameters.values()
    found = inspect.signature(plain).parameters.values()
    assert [(one.name, one.kind, one.default) for one in found] == [(one.name, one.kind, one.default) for one in wanted]
    assert [str(one.annotation).replace("Sync", "") for one in found] == [str(one.annotation) for one in wanted]


@pytest.mark.parametrize(("awaited", "plain"), TWINS)
def test_every_method_names_the_one_it_stands_for(awaited: type, plain: type) -> None:
    """The door's help leads to the async method's, which holds for both."""
    for name, method in members(plain, inspect.isfunction).items():
        assert f"See ``{awaited.__name__}.{name}``" in (inspect.getdoc(method) or "")


async def test_it_refuses_to_open_inside_a_running_loop() -> None:
    """Blocking there would freeze the loop; the message names the way out."""
    with pytest.raises(RunningLoopError, match=r"await the async API there: async with retrieval\.connect\(\)"):
        retrieval.sync.connect(settings=Settings()).__enter__()


def test_it_refuses_to_be_used_before_it_is_opened() -> None:
    """The message shows the ``with`` block that is missing."""
    with pytest.raises(InvalidRequestError, match=r"with connect\(\) as platform, or: .* = retrieval.sync.open"):
        retrieval.sync.connect(settings=Settings()).collection("tickets")


def test_arguments_go_before_the_settings() -> None:
    """The address and the tenant that are given replace the configured ones."""
    platform = retrieval.sync.connect("postgresql://db.example/app", tenant="acme", settings=Settings())

    assert platform.settings.tenant == "acme"
    assert platform.settings.database_url is not None
    assert platform.settings.database_url.get_secret_value() == "postgresql://db.example/app"
