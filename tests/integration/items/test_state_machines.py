"""After any order of operations, items, verdicts and memories equal those of a plain model in Python.

``RETRIEVAL_TEST_EXAMPLES=500`` runs longer, with other runs each time.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from retrieval import Feedback, Platform, Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import Compiled
from retrieval.apps.memories import MemoryStore
from retrieval.domain.errors import UnknownItemError
from tests.conftest import EXAMPLES

STEPS = 25
WORDS = ("alpha", "beta", "gamma")
IDS = tuple(f"i{number}" for number in range(5))
ACTORS = ("ann", "bob")
START = datetime(2026, 1, 1, tzinfo=UTC)
ARMS = Compiled("""
    SELECT item_id, uses, raw_successes, successes, failures FROM arms
    WHERE collection_id = %(id)s AND context = '' AND uses > 0
""")

ids, actors, words = st.sampled_from(IDS), st.sampled_from(ACTORS), st.sampled_from(WORDS)
texts = st.lists(words, min_size=1, max_size=4).map(" ".join)
texts_or_none = st.just("") | texts


class Machine(RuleBasedStateMachine):
    """A platform of a tenant of its own, on a loop of its own."""

    def __init__(self, url: str, settings: Settings) -> None:
        super().__init__()
        changed = settings.changed(database_url=url, tenant=f"machine-{uuid.uuid4()}", pool_size=2)
        self.runner = asyncio.Runner()
        self.platform = Platform(changed, embedder=HashingEmbedder(), chance=random.Random(1))
        self.run(self.platform.open())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do it on the loop."""
        return self.runner.run(work)

    def teardown(self) -> None:
        """Close the resources."""
        self.run(self.platform.close())
        self.runner.close()


class Items(Machine):
    """Items and verdicts of one collection, compared with dictionaries."""

    @initialize()
    def begin(self) -> None:
        """Make the collection."""
        self.docs = self.run(self.platform.collection("docs", filterable={"n": "number"}))
        self.items: dict[str, tuple[str, int, bool]] = {}
        self.verdicts: dict[tuple[str, str], tuple[datetime, float]] = {}
        self.keys: dict[uuid.UUID, tuple[str, str, float]] = {}
        self.held: set[str] = set()
        self.verdict_count, self.half_life = 0, 30.0
        self.add(
            {key: (text, n) for n, (key, text) in enumerate(zip(IDS, ("alpha beta", "beta", "alpha"), strict=False))}
        )
        self.tell([("i0", "ann", 0.5, 3), ("i0", "bob", 1.0, 20), ("i1", "ann", 0.0, 9), ("i0", "ann", 0.25, 1)])

    @rule(batch=st.dictionaries(ids, st.tuples(texts_or_none, st.integers(0, 3)), min_size=1, max_size=3))
    def add(self, batch: dict[str, tuple[str, int]]) -> None:
        """New ones and others in the place of former ones; an archived one is active again."""
        self.run(self.docs.add([{"_id": key, "text": text, "n": n} for key, (text, n) in batch.items()]))
        self.items |= {key: (text, n, True) for key, (text, n) in batch.items()}

    @rule(key=ids, text=texts_or_none)
    def patch(self, key: str, text: str) -> None:
        """A part of one that is there."""
        if key not in self.items:
            with pytest.raises(UnknownItemError):
                self.run(self.docs.patch(key, {"body": text}))
            return
        self.run(self.docs.patch(key, {"body": text}))
        self.items[key] = (text, *self.items[key][1:])

    @rule(key=ids)
    def archive(self, key: str) -> None:
        """Kept, and found no more."""
        if key in self.items:
            self.run(self.docs.patch(key, {"status": "archived"}))
            self.items[key] = (*self.items[key][:2], False)

    @rule(keys=st.lists(ids, min_size=1, max_size=2, unique=True))
    def delete(self, keys: list[str]) -> None:
        """Delete it; its verdicts stay."""
        assert self.run(self.docs.delete(keys)) == len([key for key in keys if self.items.pop(key, None)])

    @precondition(lambda self: self.items)
    @rule(
        data=st.data(),
        verdicts=st.lists(
            st.tuples(actors, st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(0, 40)), min_size=1, max_size=5
        ),
    )
    def judge(self, data: st.DataObject, verdicts: list[tuple[str, float, int]]) -> None:
        """The latest verdict of an actor counts, whichever arrives first."""
        keys = st.sampled_from(sorted(self.items))
        self.tell([(data.draw(keys), actor, reward, day) for actor, reward, day in verdicts])

    def tell(self, verdicts: list[tuple[str, str, float, int]]) -> None:
        """Give verdicts: of an item, by an actor, with a reward, on a day."""
        events = []
        for key, actor, reward, day in verdicts:
            self.verdict_count += 1
            at = START + timedelta(days=day, seconds=self.verdict_count)
            event = uuid.UUID(int=self.verdict_count)
            events.append(Feedback(item_id=key, collection="docs", reward=reward, actor=actor, at=at, key=event))
            self.keys[event] = (key, actor, reward)
            former = self.verdicts.get((key, actor))
            if former is None or at > former[0]:
                self.verdicts[key, actor] = (at, reward)
        assert self.run(self.platform.feedback_each(events)).repeated == 0

    @precondition(lambda self: any(key in self.items for key, *_ in self.keys.values()))
    @rule(data=st.data())
    def say_again(self, data: st.DataObject) -> None:
        """A key counts once, whatever comes with it."""
        usable = sorted(event for event, (key, *_) in self.keys.items() if key in self.items)
        event = data.draw(st.sampled_from(usable))
        key, actor, reward = self.keys[event]
        again = Feedback(item_id=key, collection="docs", reward=1 - reward, actor=actor, key=event)
        report = self.run(self.platform.feedback_each([again]))
        assert report.repeated == 1

    @rule(actor=actors)
    def quarantine(self, actor: str) -> None:
        """Quarantine an actor, whose past and future verdicts no longer count."""
        self.run(self.platform.quarantine(actor))
        self.held.add(actor)

    @rule(actor=actors)
    def release(self, actor: str) -> None:
        """All of it counts again."""
        self.run(self.platform.release(actor))
        self.held.discard(actor)

    @rule(days=st.sampled_from([10.0, 30.0]))
    def halve(self, days: float) -> None:
        """Older verdicts weigh less, or more; none is lost."""
        self.run(self.docs.set_learning(half_life_days=days))
        self.half_life = days

    @invariant()
    def items_are_those_of_the_model(self) -> None:
        """Read, counted, listed by filter, found by words, and by meaning if they have a text."""
        if not hasattr(self, "items"):
            return
        active = {key: (text, n) for key, (text, n, is_active) in self.items.items() if is_active}
        items = self.run(self.docs.get(IDS))
        assert {
            key: (item.body, item.attributes["n"], item.status != "archived") for key, item in items.items()
        } == self.items
        info = self.run(self.docs.info())
        assert (info.items, info.pending) == (len(active), 0)
        for n in (0, 2):
            page = self.run(self.docs.page({"n": {"gte": n}}))
            assert [row.item.item_id for row in page] == sorted(key for key, (_, m) in active.items() if m >= n)
        for word in WORDS[:2]:
            hits = self.run(self.docs.search(word, legs=["lexical"], limit=10))
            assert {hit.item_id for hit in hits} == {key for key, (text, _) in active.items() if word in text.split()}
        hits = self.run(self.docs.search("alpha", legs=["dense"], limit=10))
        assert {hit.item_id for hit in hits} == {key for key, (text, _) in active.items() if text}

    @invariant()
    def verdicts_are_those_of_the_model(self) -> None:
        """One of each actor on an item, decayed by its age; none of a quarantined one."""
        if not hasattr(self, "items"):
            return
        stored = self.run(self.docs.refresh())
        rows = self.run(self.platform.database.read(self.platform.tenant_id, ARMS.bind(id=stored.collection_id)))
        by_item: dict[str, list[tuple[datetime, float]]] = {}
        for (key, actor), verdict in self.verdicts.items():
            if actor not in self.held:
                by_item.setdefault(key, []).append(verdict)
        assert {row[0]: tuple(row[1:3]) for row in rows} == {
            key: (len(rewards), sum(reward >= 0.5 for _, reward in rewards)) for key, rewards in by_item.items()
        }
        for key, _, _, successes, failures in rows:
            shares = [2 ** ((at - START) / timedelta(days=self.half_life)) for at, _ in by_item[key]]
            mean = sum(share * reward for share, (_, reward) in zip(shares, by_item[key], strict=True)) / sum(shares)
            assert successes / (successes + failures) == pytest.approx(mean)


class Memories(Machine):
    """Memories of two projects, compared with a dictionary."""

    @initialize()
    def begin(self) -> None:
        """Make the store."""
        self.store = MemoryStore(self.platform)
        self.memories: dict[str, dict[str, Any]] = {}

    @rule(key=ids, project=st.sampled_from(["p", "q"]), text=texts, links=st.frozensets(words))
    def remember(self, key: str, project: str, text: str, links: frozenset[str]) -> None:
        """A new one, or another in the place of the former."""
        self.run(self.store.store_memory(project, "chat", text, linked_question_ids=sorted(links), memory_id=key))
        self.memories[key] = {"project": project, "text": text, "links": set(links), "relevance": 1.0}

    @rule(key=ids, score=st.sampled_from([0.0, 0.5, 1.0]))
    def rate(self, key: str, score: float) -> None:
        """Its relevance is the last one set."""
        if key not in self.memories:
            with pytest.raises(UnknownItemError):
                self.run(self.store.set_relevance(key, score))
            return
        self.run(self.store.set_relevance(key, score))
        self.memories[key]["relevance"] = score

    @rule(key=ids)
    def forget(self, key: str) -> None:
        """Forget it without a trace."""
        if key not in self.memories:
            with pytest.raises(UnknownItemError):
                self.run(self.store.forget(key))
            return
        self.run(self.store.forget(key))
        del self.memories[key]

    @invariant()
    def memories_are_those_of_the_model(self) -> None:
        """Read one by one, and listed by project."""
        if not hasattr(self, "memories"):
            return
        memories = self.run(self.store.get_memories(list(IDS)))
        expected = {
            key: (memory.project_id, memory.content, set(memory.links.get("questions", ())), memory.relevance_score)
            for key, memory in memories.items()
        }
        assert expected == {
            key: (memory["project"], memory["text"], memory["links"], memory["relevance"])
            for key, memory in self.memories.items()
        }
        for project in ("p", "q"):
            page = self.run(self.store.list_memories(project))
            keys = {key for key, memory in self.memories.items() if memory["project"] == project}
            assert {memory.memory_id for memory in page} == keys


@pytest.mark.parametrize("machine", [Items, Memories])
async def test_the_stored_state_is_that_of_the_model(
    database_url: str, settings: Settings, machine: type[Machine]
) -> None:
    """After every step of every run."""
    profile = hypothesis_settings(max_examples=int(EXAMPLES or 6), stateful_step_count=STEPS)

    def made() -> Machine:
        return machine(database_url, settings)

    await asyncio.to_thread(run_state_machine_as_test, made, settings=profile)  # type: ignore[arg-type]  # a function will do
