"""Remember a conversation: a language model finds facts, which are compared with stored memories and stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from retrieval.adapters.embedders.batching import all_of
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.memories import read_memories
from retrieval.apps.memories.messages import (
    DECISION_SCHEMA,
    DECISION_SYSTEM,
    EXTRACTION_SCHEMA,
    EXTRACTION_SYSTEM,
    NEW,
    Conversation,
    FactDecision,
    FactQuestion,
    RememberedFact,
    RememberReport,
    decision_prompt,
    decisions_in,
    extraction_prompt,
    found_facts,
)
from retrieval.collection import Collection, handle_of
from retrieval.domain.errors import LLMError, NoLanguageModelError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.items.item import Item
from retrieval.domain.items.memory import (
    PROJECT,
    TURNS,
    USER,
    FactOutcome,
    NewMemory,
    has_expired,
    normalised,
)
from retrieval.domain.llm import LLM
from retrieval.domain.search.diversity import jaccard, similarity
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import Profile
from retrieval.domain.words import terms
from retrieval.services.memories import DecidedFact, MemoryWriter, Near

MOST = 20
"""The memories, expired ones included, that a new memory is compared with, from each search."""

_QUERY_CHARACTERS = 2000
"""The characters of a text that are the search's query; the comparison uses the whole text."""


async def near_memories(
    collection: Collection,
    memory: NewMemory,
    vector: Vector | None,
    threshold: float,
    *,
    joins: bool = False,
    alike: Callable[[str, str, float | None], float] = similarity,
) -> list[Near]:
    """The memories of its project whose similarity is at least the threshold, the most similar first.

    They are searched by words and, with the memory's ``vector``, also by meaning. They may have expired. With ``joins``
    only memories of the same user and type, which the memory may join. ``alike`` is a function of two texts and the
    cosine of their vectors.
    """
    item = memory.item()
    if not item.indexed_text:
        return []
    where: dict[str, str | None] = {PROJECT: memory.project_id}
    if joins:
        where |= {USER: memory.user_id, "kind": memory.interaction_type}
    hits: dict[str, Hit] = {}
    for leg in ["lexical"] if vector is None else ["lexical", "dense"]:
        result = await collection.unrecorded().search(
            item.indexed_text[:_QUERY_CHARACTERS],
            vector=vector,
            where=where,
            limit=MOST,
            profile=Profile(legs={leg: 1.0}),
            syntax=False,
        )
        hits |= {hit.item_id: hit for hit in result}
    similarities = {hit.item_id: alike(hit.body, item.body, _cosine(hit, item)) for hit in hits.values()}
    near = [Near(key, cosine, hits[key].body) for key, cosine in similarities.items() if cosine >= threshold]
    return sorted(near, key=lambda near: (-near.similarity, near.memory_id))


def topical(text: str, other: str, cosine: float | None = None) -> float:
    """The overlap of the texts' words or the cosine of their vectors, whichever is greater, 0 to 1.

    Unlike ``similarity``, it is high for texts about the same subject even if they contradict each other.
    """
    return max(jaccard(terms(text), terms(other)), min(1.0, cosine or 0.0))


def _cosine(hit: Hit, item: Item) -> float | None:
    """The cosine of the vectors; None if a shared summary would make all texts similar."""
    if hit.title or item.title:
        return None
    return next((part.raw_score for part in hit.explanation.contributions if part.leg == "dense"), None)


NEAR_FROM = 0.2
"""The least similarity (see ``topical``) of a fact and a memory that the language model compares."""

NEAR_EACH = 5
"""The most memories that the language model gets with each fact."""

SEARCHES_AT_ONCE = 4


def needed_llm(llm: LLM | None) -> LLM:
    """The language model that reads messages. Raises ``NoLanguageModelError`` if none is configured."""
    if llm is None:
        raise NoLanguageModelError(
            "messages are read by a language model, and none is configured; set RETRIEVAL_LLM=openai, "
            "RETRIEVAL_LLM_MODEL, and RETRIEVAL_LLM_API_KEY or RETRIEVAL_LLM_BASE_URL"
        )
    return llm


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """One call that remembers messages with a language model, beside the memories that it decides about."""

    conversation: Conversation
    memory_of: Callable[..., NewMemory]
    """Makes a memory of the facts' owner and type, at the time of the messages, of the other fields."""
    receipt: NewMemory
    """An archived memory that marks the messages as remembered."""
    now: datetime
    llm: LLM
    collection: Collection
    writer: MemoryWriter
    place: CollectionPlace

    async def remember(self, *, again: bool) -> RememberReport:
        """Find the facts, compare them, store them: see ``MemoryStore.remember``, with the same errors."""
        if not again and (before := await self._remembered()):
            return before
        try:
            answer = await self._answer(
                extraction_prompt(self.conversation.turns), EXTRACTION_SCHEMA, EXTRACTION_SYSTEM
            )
            accepted, refused = found_facts(answer, self.conversation)
            memories = [
                self.memory_of(content=fact.text, links={TURNS: [*map(self.conversation.source, fact.turns)]})
                for fact in accepted
            ]
            decisions = await self.decisions(memories)
        except LLMError as error:
            raise type(error)(f"nothing of the messages was stored: {error}") from error
        facts = list(zip(memories, decisions, strict=True))
        stored = await self.writer.remember([_decided(*fact) for fact in facts], self.receipt, self.now, again=again)
        if stored is None:  # another call remembered the same messages meanwhile
            return await self._remembered() or self._report((), remembered_at=self.now)
        settled, report = stored
        outcomes = [
            RememberedFact(
                outcome=became.outcome,
                fact=memory.content,
                sources=tuple(memory.links[TURNS]),
                memory_id=became.memory_id,
                superseded_id=became.superseded_id,
                reason=decision.reason if decision.outcome is became.outcome else "",
            )
            for (memory, decision), became in zip(facts, settled, strict=True)
        ]
        return self._report((*outcomes, *refused), notes=report.notes)

    async def _remembered(self) -> RememberReport | None:
        """The report on messages that were remembered before; None: they were not."""
        receipt = (await read_memories(self.place, [self.receipt.memory_id])).get(self.receipt.memory_id)
        return None if receipt is None else self._report((), remembered_at=receipt.created_at)

    def _report(self, facts: tuple[RememberedFact, ...], **others: Any) -> RememberReport:
        return RememberReport(facts=facts, messages=self.conversation.messages, **others)

    async def decisions(self, facts: Sequence[NewMemory]) -> list[FactDecision]:
        """The decision on each fact.

        A fact is new if no memory is near, and the same if its words are; the language model decides on the others.
        """
        near = await self._near(facts)
        decisions = [_plain_decision(fact, memories) for fact, memories in zip(facts, near, strict=True)]
        undecided = [place for place, decision in enumerate(decisions) if decision is None]
        questions = [FactQuestion(facts[place].content, near[place][:NEAR_EACH]) for place in undecided]
        if questions:
            answer = await self._answer(decision_prompt(questions), DECISION_SCHEMA, DECISION_SYSTEM)
            for place, decision in zip(undecided, decisions_in(answer, questions), strict=True):
                decisions[place] = decision
        return [decision or NEW for decision in decisions]

    async def _near(self, facts: Sequence[NewMemory]) -> list[list[Near]]:
        """The memories that each fact may join or supersede, the most similar first."""
        vectors = await self.writer.vectors_of([fact.item() for fact in facts])
        gate = asyncio.Semaphore(SEARCHES_AT_ONCE)

        async def near(place: int) -> list[Near]:
            async with gate:
                vector = vectors[place] if vectors else None
                return await near_memories(self.collection, facts[place], vector, NEAR_FROM, joins=True, alike=topical)

        lists = await all_of(map(near, range(len(facts))))
        stored = await read_memories(
            self.place, sorted({memory.memory_id for memories in lists for memory in memories})
        )
        current = {key for key, memory in stored.items() if not has_expired(memory, self.now)}
        return [[memory for memory in memories if memory.memory_id in current] for memories in lists]

    async def _answer(self, prompt: str, schema: Any, system: str) -> Any:
        return await handle_of(self.collection).parts.llm_calls.json(self.llm, prompt, schema, system=system)


def _plain_decision(fact: NewMemory, near: Sequence[Near]) -> FactDecision | None:
    """The decision on a fact without the language model; None: the language model has to decide."""
    same = next((memory for memory in near if normalised(memory.text) == normalised(fact.content)), None)
    if same is not None:
        return FactDecision(FactOutcome.SAME, same)
    return None if near else NEW


def _decided(memory: NewMemory, decision: FactDecision) -> DecidedFact:
    """The fact to store, with the reason why it supersedes another memory."""
    if decision.outcome is FactOutcome.SUPERSEDED and decision.reason:
        memory = replace(memory, metadata={"reason": decision.reason})
    return DecidedFact(memory, decision.outcome, decision.near)
