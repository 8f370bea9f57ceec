"""LangGraph's store in compiled graphs, with ``await`` and without."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

import retrieval.sync
from retrieval import Platform, Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.platform import loop_of
from retrieval.surfaces.langchain import RetrievalStore


class State(TypedDict, total=False):
    """The state of the graph."""

    said: str
    remembered: list[str]


def graph(store: BaseStore, **nodes: Any) -> Any:
    """A compiled graph with these nodes in sequence."""
    builder = StateGraph(State)
    for name, node in nodes.items():
        builder.add_node(name, node)
    path = [START, *nodes, END]
    for first, second in pairwise(path):
        builder.add_edge(first, second)
    return builder.compile(store=store)


async def test_nodes_that_await_remember_across_runs(platform: Platform) -> None:
    """One run's node puts, the next run's finds, by meaning and namespace."""

    async def remember(state: State, *, store: BaseStore) -> State:
        await asyncio.gather(store.aput(("ada",), state["said"], {"text": state["said"]}), store.aget(("ada",), "x"))
        return {}

    async def recall(state: State, *, store: BaseStore) -> State:
        items = await store.asearch(("ada",), query=state["said"], limit=2)
        return {"remembered": [item.key for item in items]}

    compiled = graph(RetrievalStore(await platform.collection("graph")), remember=remember, recall=recall)
    await compiled.ainvoke({"said": "I ride bicycles"})
    assert (await compiled.ainvoke({"said": "bicycles"}))["remembered"] == ["bicycles", "I ride bicycles"]


def test_without_await_it_works_from_any_thread_and_any_loop(database_url: str, settings: Settings) -> None:
    """A graph that runs without ``await``, its store used directly, from a loop that is another and the door's own."""

    def remember(state: State, *, store: BaseStore) -> State:
        store.put(("ada",), "k", {"text": state["said"]}, ttl=5)
        item = store.get(("ada",), "k")
        return {"remembered": [] if item is None else [item.value["text"]]}

    with retrieval.sync.connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
        store = RetrievalStore(platform.collection("graph"))
        assert graph(store, remember=remember).invoke({"said": "hello"})["remembered"] == ["hello"]
        assert [item.key for item in store.search(("ada",), query="hello")] == ["k"]
        assert store.list_namespaces() == [("ada",)]
        assert store.sweep_ttl() == 0
        assert asyncio.run(graph(store, remember=remember).ainvoke({"said": "again"}))["remembered"] == ["again"]
        assert asyncio.run(store.aget(("ada",), "k")) == store.get(("ada",), "k")
        assert platform.door.portal is not None
        assert platform.door.portal.call(store.aget, ("ada",), "k") == store.get(("ada",), "k")
        store.delete(("ada",), "k")
        assert store.get(("ada",), "k") is None


async def test_a_store_that_was_made_in_another_loop_works_in_the_platforms(platform: Platform) -> None:
    """The platform remembers which loop opened it."""
    collection = await platform.collection("graph")

    async def made() -> RetrievalStore:
        return RetrievalStore(collection)

    store = await asyncio.to_thread(asyncio.run, made())
    await store.aput(("ada",), "k", {"text": "hello"})
    assert await asyncio.to_thread(store.get, ("ada",), "k") == await store.aget(("ada",), "k")
    assert loop_of(platform) is asyncio.get_running_loop()
