"""The engine of memories: retrieval by five or six signals, context as Markdown, timeline; and the formulas.

Each formula is a signal of the platform with plain arguments. Recency is .61 after a week and .12 after a month;
popularity is 0, .15 and .52 after no, one and ten accesses.
"""

from __future__ import annotations

import json
import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from retrieval.apps.memories import requests
from retrieval.apps.memories.requests import RelevantMemory
from retrieval.apps.memories.store import COLLECTION, MemoryStore, memories_collection
from retrieval.collection import Collection, handle_of
from retrieval.domain import checks
from retrieval.domain.errors import EmptyQueryError
from retrieval.domain.items.item import Item
from retrieval.domain.items.memory import Links, Memory, checked_name
from retrieval.domain.learning.arm import Standing
from retrieval.domain.learning.context import Context
from retrieval.domain.search.hit import SearchResult
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.signals import EntityOverlap, Facts, KeywordOverlap, Popularity, Question, Recency, tokens
from retrieval.engine.request import checked_words
from retrieval.platform import Platform

CONTENT_CHARACTERS = 500
"""The default number of characters of a memory's content that are shown."""

ELLIPSIS = "..."

_MAX_NESTING = 8
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z](?=[a-z])")
_MARKS = re.compile(r"(?<!\\)\\*(?:`{3,}|~{3,}|\*{2,}|_{2,}|#{2,}|<!--|-->)")
"""The characters that begin a fence, a label, a heading or a comment, and all backslashes before them.

A match does not begin within backslashes: to try each of them, a text of nothing else would take quadratic time.
"""


def shortened(text: str, most: int) -> str:
    """The text, or its beginning with three dots, in at most ``most`` characters."""
    if len(text) <= most:
        return text
    return text[: most - len(ELLIPSIS)].rstrip() + ELLIPSIS if most > len(ELLIPSIS) else ELLIPSIS[: max(most, 0)]


def escaped(line: str) -> str:
    """The line with a backslash before each sign of a fence, bold label, heading or comment, to disable it."""
    return _MARKS.sub(lambda match: "".join(f"\\{sign}" for sign in match[0]), line)


def format_content(content: Any, most: int = CONTENT_CHARACTERS) -> str:
    """The content on one line of at most ``most`` characters.

    A mapping is shown as ``Key findings: [a, b], Recommendations: [c]``; ``None`` is the empty text.
    """
    return shortened(checks.shown_line(_plain_text(content, 0)), most)


def _plain_text(value: Any, depth: int) -> str:
    if value is None:
        return "" if depth == 0 else "none"
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if depth >= _MAX_NESTING:
        return ELLIPSIS
    if isinstance(value, Mapping):
        parts = ", ".join(f"{_label(name)}: {_plain_text(part, depth + 1)}" for name, part in value.items())
        return parts if depth == 0 else f"({parts})"
    if isinstance(value, Sequence):
        return f"[{', '.join(_plain_text(part, depth + 1) for part in value)}]"
    return str(value)


def _label(name: object) -> str:
    """``key_findings`` and ``keyFindings`` as ``Key findings``."""
    words = _HUMP.sub(lambda match: f" {match[0].lower()}", str(name)).replace("_", " ").strip()
    return words[:1].upper() + words[1:]


NOTHING = "Nothing relevant is remembered."

SUMMARY_CHARACTERS = 300
_TYPE_CHARACTERS = 100
_TYPES_NAMED = 10

_LEAST_CONTENT = 40
"""The least characters of content with which a memory that does not fit is shortened instead of left out."""


def context_text(
    memories: Sequence[RelevantMemory],
    fits: Callable[[str], bool],
    *,
    content_characters: int = CONTENT_CHARACTERS,
    standings: Mapping[str, Standing] = MappingProxyType({}),
    nothing: str = NOTHING,
) -> tuple[str, Sequence[RelevantMemory]]:
    """The memories as Markdown, in order, as many as fit, and these memories; ``standings`` have their verdicts.

    Without memories the text is ``nothing``; it is empty if none fits. Each line of a memory's content begins with
    ``>``. Only the content of the last memory is shortened.
    """
    blocks: list[str] = []
    for number, memory in enumerate(memories, 1):
        content = format_content(memory.text if memory.content is None else memory.content, content_characters)
        block_of = partial(_block, number, memory, standings.get(memory.memory_id))
        block = block_of(content)
        if not fits(_page([*blocks, block])):
            blocks += _shortened_block(blocks, block_of, content, fits)
            break
        blocks.append(block)
    page = _page(blocks, nothing)
    return page if blocks or (not memories and fits(page)) else "", memories[: len(blocks)]


def _shortened_block(
    blocks: Sequence[str], block_of: Callable[[str], str], content: str, fits: Callable[[str], bool]
) -> list[str]:
    """The block of the memory with as much of its content as fits; empty if that is too little."""
    sizes = range(_LEAST_CONTENT, len(content))
    fit = bisect_right(sizes, 0, key=lambda size: int(not fits(_page([*blocks, block_of(shortened(content, size))]))))
    return [block_of(shortened(content, sizes[fit - 1]))] if fit else []


def _page(blocks: Sequence[str], nothing: str = NOTHING) -> str:
    title = f"## Previous Context ({len(blocks)} relevant memories)"
    return "\n\n".join([title, checks.STORED_NOTE, *blocks] if blocks else [title, nothing])


def _block(number: int, memory: RelevantMemory, standing: Standing | None, content: str) -> str:
    created = memory.occurred_at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    summary = escaped(shortened(checks.shown_line(memory.summary or memory.text), SUMMARY_CHARACTERS))
    uses, successes = (standing.uses, standing.successes) if standing else (0, 0)
    times = "once" if memory.accesses == 1 else f"{memory.accesses} times"
    return "\n".join(
        [
            f"### Memory {number} ({checks.named(shortened(memory.interaction_type, _TYPE_CHARACTERS))})",
            f"**Created**: {created}",
            f"**Relevance**: {memory.computed_relevance_score:.2f}",
            checks.quoted_block(f"**Summary**: {summary}"),
            checks.quoted_block(f"**Content**: {escaped(content)}"),
            f"**Record**: {checks.provenance(memory.user_id, uses, successes)} · retrieved {times} before",
        ]
    )


_EPOCH = datetime.fromtimestamp(0, UTC)

_log = logging.getLogger(__name__)

CONTEXT_LIMIT = 5
TIMELINE_HOURS = 24.0
TIMELINE_LIMIT = 20

MatchEntities = Literal["filter", "prefer"]


class RetrievalEngine:
    """Finds the memories of a project, and counts an access of each memory that it returns for a query or a task.

    ``db`` is an open platform. ``count_accesses=False`` is for trials and measurements.
    """

    def __init__(self, db: Platform, collection: str = COLLECTION, *, count_accesses: bool = True) -> None:
        checks.check_flags(count_accesses=count_accesses)
        self._is_counting = count_accesses
        self._db = db
        self._name = collection
        self._store = MemoryStore(db, collection)
        self._collection: Collection | None = None
        self._logged_notes: set[str] = set()

    async def retrieve_relevant_memories(  # noqa: PLR0917 - the order is part of the public interface
        self,
        project_id: str,
        query: str | None = None,
        interaction_types: Sequence[str] | None = None,
        entity_ids: Links | None = None,
        limit: int = 10,
        min_score: float = requests.MIN_SCORE,
        *,
        strategy: str | None = None,
        profile: Profile | None = None,
        match_entities: MatchEntities = "filter",
        as_of: datetime | None = None,
        include_history: bool = False,
        min_relevance: float | None = None,
        context: Context = Context(),
    ) -> list[RelevantMemory]:
        """The project's most relevant memories, best first, each with its ``computed_relevance_score``.

        A signal that the call gives nothing to compare with, such as words without a ``query``, takes no part: the
        others share its weight. ``interaction_types``: only those. ``entity_ids``, by type: only memories that are
        linked to at least one of them; with ``match_entities="prefer"`` links only raise the score. ``limit``: 1 to
        1000. ``min_score``: 0 to 1. ``strategy`` is one of ``PROFILES``; None is ``semantic`` where the collection has
        vectors, else ``hybrid``. ``profile`` is another one with signals. ``as_of`` (aware): only what had happened by
        then. ``include_history``: each memory's ``history`` holds its superseded versions. ``min_relevance``, 0 to 1:
        leave out memories that answer the query with a lower probability; the score also counts time, use and
        importance. Raises ``InvalidRequestError`` or one of its kind.
        """
        checks.check_flags(include_history=include_history)
        memories = await self._get_candidate_memories(
            project_id, query, interaction_types=interaction_types, entity_ids=entity_ids, limit=limit,
            min_score=min_score, strategy=strategy, profile=profile, match_entities=match_entities, as_of=as_of,
            min_relevance=min_relevance, context=context,
        )  # fmt: skip
        await self._count_accesses(memories)
        if not (include_history and memories):
            return memories
        versions = await self._store.histories([memory.memory_id for memory in memories])
        return [replace(memory, history=versions.get(memory.memory_id, ())[1:]) for memory in memories]

    async def retrieve_context_for_task(
        self,
        project_id: str,
        task_type: str,
        current_entities: Links | None = None,
        limit: int = CONTEXT_LIMIT,
        *,
        query: str | None = None,
        max_characters: int | None = None,
        max_tokens: int | None = None,
        count_tokens: requests.TokenCounter = requests.estimated_tokens,
        content_characters: int = CONTENT_CHARACTERS,
        min_score: float = requests.MIN_SCORE,
        strategy: str | None = None,
        profile: Profile | None = None,
        as_of: datetime | None = None,
        context: Context = Context(),
    ) -> str:
        """Markdown for a prompt: the memories of related types that help with a task of this type.

        Links to ``current_entities`` raise the score and filter nothing. The text has at most ``max_characters`` and
        ``max_tokens`` (four characters a token, unless ``count_tokens`` counts), with at most ``content_characters``
        of a memory's content, quoted; only the last memory is cut further. Counts an access of each memory in the text.
        Raises as ``retrieve_relevant_memories`` does.
        """
        checks.checked_whole("content_characters", content_characters, 1)
        fits = requests.bounds_of(max_characters, max_tokens, count_tokens)
        types = self._get_related_types(task_type)
        memories = await self._get_candidate_memories(
            project_id, query, interaction_types=types, entity_ids=current_entities, limit=limit, min_score=min_score,
            strategy=strategy, profile=profile, match_entities="prefer", as_of=as_of, context=context,
        )  # fmt: skip
        standings = await (await self._open()).standings([memory.memory_id for memory in memories])
        nothing = "" if memories else await self.why_nothing(project_id, types)
        text, shown = context_text(
            memories, fits, content_characters=content_characters, standings=standings, nothing=nothing or NOTHING
        )
        await self._count_accesses(shown)
        return text

    async def retrieve_timeline(
        self, project_id: str, hours: float = TIMELINE_HOURS, limit: int = TIMELINE_LIMIT
    ) -> list[RelevantMemory]:
        """The project's memories of the last hours, the latest first, without counting accesses.

        ``hours``: above 0. ``limit``: 1 to 1000. Memories of future events are left out.
        """
        now = self._db.now
        where = {
            "project_id": checked_name("project_id", project_id),
            "occurred_at": {"gte": requests.start_of(hours, now), "lte": now},
        }
        collection = await self._open()
        result = await collection.search(where=where, limit=limit, profile=requests.TIMELINE_PROFILE, as_of=now)
        memories = await self._memories_of(result)
        return sorted(memories, key=lambda memory: memory.occurred_at, reverse=True)

    async def why_nothing(self, project_id: str, interaction_types: Sequence[str] | None = None) -> str:
        """Say that the project has no memories, or of which types it has some if it has none of these; else nothing."""
        types = requests.checked_types(interaction_types)
        where = requests.conditions(project_id, (), None, None)
        held = [count.value for count in await (await self._open()).value_counts("kind", where=where)]
        if not held:
            project = checks.named(shortened(project_id, _TYPE_CHARACTERS))
            return f"The project {project} has no memories. If it should have some, check its name."
        if not types or not set(held).isdisjoint(types):
            return ""
        more = " and others" if len(held) > _TYPES_NAMED else ""
        there = ", ".join(checks.named(shortened(name, _TYPE_CHARACTERS)) for name in held[:_TYPES_NAMED])
        named_types = ", ".join(checks.named(shortened(name, _TYPE_CHARACTERS)) for name in types)
        return f"Nothing is remembered of the types: {named_types}. There are memories of the types: {there}{more}."

    async def _get_candidate_memories(
        self,
        project_id: str,
        query: str | None = None,
        *,
        interaction_types: Sequence[str] | None = None,
        entity_ids: Links | None = None,
        limit: int = 10,
        min_score: float = requests.MIN_SCORE,
        strategy: str | None = None,
        profile: Profile | None = None,
        match_entities: MatchEntities = "filter",
        as_of: datetime | None = None,
        min_relevance: float | None = None,
        context: Context = Context(),
    ) -> list[RelevantMemory]:
        """Search for candidates by the indexes, and return the best ``limit`` by the profile's signals."""
        if strategy is None and profile is None:
            strategy = "semantic" if await (await self._open()).space() else "hybrid"
        ranking = replace(requests.chosen_profile(strategy, profile), min_score=min_score)
        question = self._question(query, entity_ids, as_of or self._db.now)
        if ranking.needs_question and not question.words:
            raise EmptyQueryError("this strategy needs a query with words, and there is none; give one")
        if as_of is not None:
            checks.checked_time("as_of", as_of)
        filters = entity_ids if requests.checked_match(match_entities) else None
        where = requests.conditions(project_id, requests.checked_types(interaction_types), filters, as_of)
        requests.check_start(ranking, entity_ids)
        result = await (await self._open()).search(
            query, where=where, limit=limit, profile=ranking.taking_part(question), entities=entity_ids, as_of=as_of,
            min_relevance=min_relevance, syntax=False, context=context,
        )  # fmt: skip
        for note in set(result.notes) - self._logged_notes:  # such as missing vectors without an embedder
            _log.warning("memories of collection %r: %s", self._name, note)
            self._logged_notes.add(note)
        return await self._memories_of(result)

    def _question(self, query: str | None, entities: Links | None, now: datetime) -> Question:
        """The question of a call: words, which also have a vector, and entities."""
        words = checked_words(query, self._db.settings.search_bounds)
        return Question(now=now, words=words, entities=requests.entity_set(entities), has_vector=bool(words))

    async def _memories_of(self, result: SearchResult) -> list[RelevantMemory]:
        """The hits as memories with their stored details; a memory that was forgotten since is left out."""
        if not result.hits:
            return []
        memories = await self._store.get_memories([hit.item_id for hit in result])
        return [
            RelevantMemory(
                **{each.name: getattr(memories[hit.item_id], each.name) for each in fields(Memory)},
                computed_relevance_score=hit.score, rank=hit.rank, explanation=hit.explanation, relevance=hit.relevance,
                retrieval_id=result.retrieval_id,
            )
            for hit in result
            if hit.item_id in memories
        ]  # fmt: skip

    async def _open(self) -> Collection:
        if self._collection is None:
            self._collection = await memories_collection(self._db, self._name)
        return self._collection

    async def _count_accesses(self, memories: Sequence[RelevantMemory]) -> None:
        if memories and self._is_counting:
            handle = handle_of(await self._open())
            handle.count_accesses([memory.memory_id for memory in memories])

    _get_related_types = staticmethod(requests.related_types)
    _tokenize = staticmethod(tokens)
    _format_content = staticmethod(format_content)

    def _extract_text(self, memory: RelevantMemory) -> str:
        """The searchable text of a memory: its summary and its text."""
        return Item.as_stored(item_id=memory.memory_id, title=memory.summary, body=memory.text).indexed_text

    def _compute_keyword_score(self, query: str, text: str) -> float:
        """Words of the query that occur in the text / words of the query, without stop words; 0 to 1."""
        return KeywordOverlap(weight=1.0).value(Facts(body=text), Question(now=_EPOCH, words=query))

    def _compute_entity_score(self, query_entities: Links, memory_entities: Links) -> float:
        """Entities of the query that the memory is linked to / entities of the query; 0 to 1."""
        question = Question(now=_EPOCH, entities=requests.entity_set(query_entities))
        return EntityOverlap(weight=1.0).value(Facts(entities=requests.entity_set(memory_entities)), question)

    def _compute_recency_score(self, happened_at: datetime, now: datetime | None = None) -> float:
        """e^(-days / 14); 1 for a time in the future. ``now`` defaults to the platform's time.

        Raises ``InvalidRequestError`` for a time without a time zone.
        """
        facts = Facts(happened_at=checks.checked_time("happened_at", happened_at))
        question = Question(now=self._db.now if now is None else checks.checked_time("now", now))
        return Recency(weight=1.0, decay_days=requests.DECAY_DAYS).value(facts, question)

    def _compute_popularity_score(self, accesses: int) -> float:
        """log10(accesses + 1) / log10(101), at most 1."""
        return Popularity(weight=1.0).value(Facts(accesses=accesses), Question(now=_EPOCH))

    def _compute_hybrid_score(
        self,
        memory: RelevantMemory,
        query: str | None = None,
        entity_ids: Links | None = None,
        now: datetime | None = None,
    ) -> float:
        """The seed profile's score of a memory, without the signals for which the question has no input."""
        facts = Facts(
            title=memory.summary, body=memory.text, happened_at=memory.occurred_at,
            base_relevance=memory.relevance_score, accesses=memory.accesses, entities=requests.entity_set(memory.links),
        )  # fmt: skip
        question = self._question(query, entity_ids, now or self._db.now)
        return sum(
            signal.weight * signal.value(facts, question)
            for signal in requests.SEED_PROFILE.taking_part(question).signals
        )
