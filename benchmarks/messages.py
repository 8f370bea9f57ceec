"""Memories from messages: whether the turns that answer a question are found by the facts that come from them.

    python benchmarks/messages.py DATA

DATA holds the folder locomo in BEIR's format. Each session is given to ``MemoryStore.remember``; each question is asked
within its conversation, and a fact that is found counts as its source turns. Without a language model, that is without
RETRIEVAL_LLM and its settings, the simulated one reads: each sentence is a fact, the same words are the same fact, and
one that shares half of its words with another takes its place. That measures what storing, deduplication and
supersession do to the sources, and says nothing of how well a language model extracts. The results go to
``benchmarks/results/messages.json`` and ``messages.md``, with a language model to ``messages_llm.json`` and ``.md``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from command import data_of, write
from locomo import HITS, Talks, fill, means, ranked, scored
from report import table

from retrieval import Platform, connect
from retrieval.adapters.llms.sim import SimLLM
from retrieval.apps.conversations import CONVERSATION_PROFILE
from retrieval.apps.memories import MemoryStore
from retrieval.domain.items.item import Item
from retrieval.settings import Settings


class EveryFactIsNew(SimLLM):
    """Finds the facts that the simulated model finds, and decides that each is new."""

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """The facts, or no decision at all."""
        if "decisions" in schema["properties"]:
            return {"decisions": []}
        return await super().complete_json(prompt, schema, system=system)


def sessions(turns: Sequence[Item]) -> list[tuple[str, str, list[Item]]]:
    """Conversation, session and turns of each session, in their order."""

    def place(turn: Item) -> tuple[str, int]:
        return turn.attributes["conversation"], turn.attributes["session"]

    ordered = sorted(turns, key=lambda turn: (*place(turn), turn.attributes["turn"]))
    return [(key[0], f"D{key[1]}", list(members)) for key, members in groupby(ordered, place)]


async def remember(store: MemoryStore, turns: Sequence[Item]) -> Counter[str]:
    """Remember every session, those of a conversation one after the other; gives the facts by outcome."""
    outcomes = Counter[str]()
    conversations = groupby(sessions(turns), lambda pair: pair[0])
    for _, members in [(name, list(each)) for name, each in conversations]:
        for conversation, session, said in members:
            messages = [
                {
                    "role": "user",
                    "name": turn.attributes["speaker"],
                    "content": turn.body.removeprefix(f"{turn.attributes['speaker']}: "),
                }
                for turn in said
            ]
            report = await store.remember(
                messages,
                conversation,
                session=session,
                first_turn=said[0].attributes["turn"],
                occurred_at=said[0].occurred_at,
            )
            outcomes.update(fact.outcome for fact in report.facts)
    return outcomes


async def found_turns(
    platform: Platform, store: MemoryStore, name: str, talks: Talks, *, with_history: bool
) -> dict[str, list[str]]:
    """The source turns of the facts that each question finds, best first, each once."""
    collection = (await platform.collection(name, create=False)).unrecorded()
    turns: dict[str, list[str]] = {}
    for start in range(0, len(talks.queries), 50):
        for query in talks.queries[start : start + 50]:
            conversation = query.metadata["conversation"]
            hits = await collection.search(
                query.text,
                where={"project_id": conversation},
                limit=HITS,
                profile=CONVERSATION_PROFILE,
                syntax=False,
            )
            versions = await store.histories([hit.item_id for hit in hits]) if hits else {}
            versions_shown = [each if with_history else each[:1] for each in versions.values()]
            sources = (source for each in versions_shown for memory in each for source in memory.sources)
            turns[query.query_id] = list(
                dict.fromkeys(f"{conversation}:{source.replace('/', ':')}" for source in sources)
            )
    return turns


async def kept_sources(store: MemoryStore, talks: Talks) -> tuple[int, int]:
    """The turns that are the source of a current memory, and of any version."""
    current, ever = set[str](), set[str]()
    for project in sorted({turn.attributes["conversation"] for turn in talks.plain}):
        for is_all, into in ((False, current), (True, ever)):
            after = None
            while True:
                page = await store.list_memories(project, include_superseded=is_all, limit=1000, after=after)
                into |= {f"{project}:{source}" for memory in page for source in memory.sources}
                if (after := page.next) is None:
                    break
    return len(current), len(ever)


async def measure_way(
    platform: Platform, talks: Talks, name: str, label: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of one way to remember, without and with superseded versions, and what became of the facts."""
    store = MemoryStore(platform, name)
    outcomes = await remember(store, talks.plain)
    current, ever = await kept_sources(store, talks)
    rows = []
    for with_history in (False, True) if outcomes["superseded"] else (False,):
        scores = scored(await found_turns(platform, store, name, talks, with_history=with_history), talks)
        what = f"{label}, with their history" if with_history else label
        rows.append({"found by": what} | means(scores, talks.queries))
    facts = {outcome: outcomes[outcome] for outcome in ("added", "same", "superseded", "refused")}
    return rows, {"facts": label} | facts | {"source turns, current": current, "of any version": ever}


async def measure(settings: Settings, data: Path) -> dict[str, Any]:
    """Everything that the page shows."""
    talks = Talks.read(data)
    rows, facts, name = list[dict[str, Any]](), list[dict[str, Any]](), ""
    async with connect(settings=settings) as platform:
        plain = await fill(platform, "locomo plain", talks.plain, None)
        scores = scored(await ranked(plain, talks, CONVERSATION_PROFILE), talks)
        rows.append({"found by": "turns"} | means(scores, talks.queries))
        name = platform.llm.name if platform.llm is not None else ""
        if platform.llm is not None:
            part, outcomes = await measure_way(platform, talks, "memories", f"facts of {name}")
            return {"model": name, **sizes(talks), "rows": [*rows, *part], "facts": [outcomes]}
    for place, (llm, label) in enumerate(
        ((EveryFactIsNew(), "facts, each new"), (SimLLM(), "facts, deduplicated and superseded"))
    ):
        async with connect(settings=settings, llm=llm) as platform:
            part, outcomes = await measure_way(platform, talks, f"memories {place}", label)
            rows += part
            facts.append(outcomes)
    return {"model": "the simulated one", **sizes(talks), "rows": rows, "facts": facts}


def sizes(talks: Talks) -> dict[str, int]:
    """The number of messages."""
    return {"questions": len(talks.queries), "turns": len(talks.plain)}


def page(result: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    return f"""# Memories from messages

{result["questions"]} questions about {result["turns"]} turns of long conversations (LoCoMo), each asked within its own.
A fact counts as the turns that it comes from. Read by {result["model"]}. Written by `benchmarks/messages.py`.

{table(result["rows"])}

## What became of the facts

{table(result["facts"])}

The simulated model takes each sentence of at least three words with a meaning for a fact, so these figures say what
storing, deduplication and supersession do to the sources, and nothing of what a language model extracts. It takes a
fact that shares half of its words with another for one that supersedes that, which is often wrong: what it supersedes
is found no more, and still stands in the history.
"""


async def main(data: Path) -> None:
    """Measure, print, write."""
    result = await measure(Settings().changed(embedder="minilm"), data)
    write("messages" if result["model"] == "the simulated one" else "messages_llm", result, page(result))


if __name__ == "__main__":
    asyncio.run(main(data_of(__doc__)))
