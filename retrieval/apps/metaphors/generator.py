"""Who asks a language model for metaphors, once for each problem, and keeps what can be used as candidates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.metaphor_item import ACTIVE, CANDIDATE, KIND, REJECTED, SUGGESTED_FOR
from retrieval.apps.metaphors.plain_text import ERROR_LENGTH, plain, plain_error, plain_name, plain_traceback
from retrieval.apps.metaphors.problem import Problem
from retrieval.apps.metaphors.suggesting import (
    PROMPT_VERSION,
    SCHEMA,
    SYSTEM,
    problem_hash,
    suggested_metaphors,
    suggestion_prompt,
)
from retrieval.apps.metaphors.validation import validate_metaphor
from retrieval.domain.errors import LLMError, LLMRejectedError, LLMUnavailableError, RetrievalError
from retrieval.domain.llm import LLM

LONGEST_SECONDS = 300.0
"""How long a call may go on, whether or not anyone waits for it: a late answer serves the next retrieval."""

AGAIN_AFTER = timedelta(minutes=10)
"""So long the same is not asked again after an answer of which nothing could be used."""

REFUSED_MAX = 1000
"""The most of these that a retriever remembers."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What suggestions are asked for."""

    problem: Problem
    tried: tuple[str, ...] = ()
    """Names of metaphors that do not fit well."""
    failure: str = ""
    """What was said of earlier attempts."""
    why: str = "asked for"
    """Why they are wanted, as it is kept with them."""


class Suggested(list[Metaphor]):
    """The metaphors that were suggested and can be used."""

    notes: tuple[str, ...]
    """Why others, or all, cannot: one that is much like another was refused, for example."""

    def __init__(self, metaphors: Iterable[Metaphor] = (), notes: Iterable[str] = ()) -> None:
        super().__init__(metaphors)
        self.notes = tuple(notes)


@dataclass(frozen=True, slots=True)
class Generator:
    """One model's suggestions for one corpus."""

    corpus: MetaphorCorpus
    llm: LLM
    now: Callable[[], datetime]
    budget_seconds: float
    """How long a retrieval waits; a model that takes longer is not asked by the next ones until it answers."""
    refused: dict[str, tuple[datetime, str]] = field(default_factory=dict)
    """What was asked in vain lately, with when and why."""

    @property
    def name(self) -> str:
        """The model's name, as it can be shown."""
        return plain_name(self.llm)

    async def suggestions(self, wanted: Wanted) -> Suggested:
        """At most three, stored as candidates.

        Raises ``LLMUnavailableError`` or ``LLMRejectedError``, also for an answer of which nothing can be used.
        """
        return await self._within(None, wanted)

    async def in_time(self, wanted: Wanted, seconds: float) -> Suggested:
        """The suggestions if they come so soon, or why there are none; what was asked in vain is not asked at once."""
        when, why = self.refused.get(prompt_of(wanted), (None, ""))
        if when is not None and self.now() - when < AGAIN_AFTER:
            return Suggested(notes=(f"nothing was generated: {why} (asked {AGAIN_AFTER} ago at most)",))
        try:
            return await self._within(seconds, wanted)
        except TimeoutError:
            return Suggested(notes=(f"nothing was generated: {self.name} did not answer within {seconds:g} s",))
        except RetrievalError as error:
            return Suggested(notes=(f"nothing was generated: {plain_error(error)}",))

    async def still_untried(self, problem: Problem, exclude: Collection[str]) -> bool:
        """Whether the model suggested metaphors for this problem's text already of which one is not excluded."""
        where = {"kind": KIND, "status": [ACTIVE, CANDIDATE], SUGGESTED_FOR: problem_hash(problem)}
        return any([item.item_id not in exclude async for item in self.corpus.collection.scan(where)])

    async def _within(self, seconds: float | None, wanted: Wanted) -> Suggested:
        """The suggestions, of one call for all who ask for the same now; who stops waiting leaves it to go on."""
        collection = self.corpus.collection
        key = (id(self.llm), collection.name, PROMPT_VERSION, wanted.problem.description)
        found: Suggested = await collection.calls.result(key, lambda: self._made(wanted), seconds)
        return Suggested(found, found.notes)  # each caller may change its list

    async def _made(self, wanted: Wanted) -> Suggested:
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                offered = await self._offered(wanted)
        except TimeoutError:
            raise LLMUnavailableError(f"{self.name} gave no metaphors within {LONGEST_SECONDS:g} s") from None
        kept, notes, names = list[Metaphor](), list[str](), set[str]()
        # What is alike must not be looked for by two at once, and then be kept by both.
        async with self.corpus.collection.calls.lock(("metaphors", self.corpus.collection.name)):
            for metaphor in offered:
                is_repeated = metaphor.name.casefold() in names
                names.add(metaphor.name.casefold())
                why_not = "its name stands twice in the answer" if is_repeated else await self._keep(metaphor, wanted)
                if why_not is None:
                    kept.append(metaphor)
                else:
                    notes.append(plain(f"the suggestion {metaphor.name!r} was refused: {why_not}"))
        if not kept:
            why = "; ".join(notes) or "its answer holds no metaphor"
            self._remember(wanted, said := f"{self.name} suggested nothing that can be used: {why}")
            raise LLMRejectedError(said)
        return Suggested(kept, notes)

    async def _offered(self, wanted: Wanted) -> list[Metaphor]:
        """What its answer offers; whatever else a model raises, or its answer does, becomes one of a model's errors."""
        try:
            guard = self.corpus.collection.calls.guard(self.llm, self.name)
            answer = await guard.call(
                lambda: self.llm.complete_json(prompt_of(wanted), SCHEMA, system=SYSTEM), self.budget_seconds
            )
            return suggested_metaphors(answer, wanted.problem)
        except LLMError:
            raise
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise LLMUnavailableError(f"{self.name} failed: it was cancelled from within") from error
        except Exception as error:
            _log.warning("%s failed\n%s", self.name, plain_traceback(error))
            said = plain(f"{type(error).__name__} {plain_error(error)}", ERROR_LENGTH)
            raise LLMUnavailableError(f"{self.name} failed: {said}") from error

    async def _keep(self, metaphor: Metaphor, wanted: Wanted) -> str | None:
        """Store the metaphor, unless it is there; gives why it cannot be used, or None: it can."""
        valid, issues = validate_metaphor(metaphor)
        if not valid:
            return ", ".join(issues)
        if known := (await self.corpus.origins([metaphor.id])).get(metaphor.id):
            return "it was suggested for this problem before, and rejected" if known.status == REJECTED else None
        if alike := await self.corpus.near_duplicates(metaphor):
            return f"much like {alike[0][0].name!r}"
        await self.corpus.add_candidate(metaphor, self._provenance(metaphor, wanted))
        return None

    def _remember(self, wanted: Wanted, why: str) -> None:
        if len(self.refused) >= REFUSED_MAX:
            self.refused.pop(next(iter(self.refused)))
        self.refused[prompt_of(wanted)] = (self.now(), why)

    def _provenance(self, metaphor: Metaphor, wanted: Wanted) -> dict[str, Any]:
        _, issues = validate_metaphor(metaphor)
        return {
            "model": self.name,
            "prompt": PROMPT_VERSION,
            "problem_id": wanted.problem.id,
            "problem_hash": problem_hash(wanted.problem),
            "reason": wanted.why,
            "at": self.now().isoformat(),
            "warnings": issues,
        }


def prompt_of(wanted: Wanted) -> str:
    """What the model is asked."""
    return suggestion_prompt(wanted.problem, wanted.tried, wanted.failure)


def names_of(metaphors: Sequence[Metaphor]) -> tuple[str, ...]:
    """Their names, each once."""
    return tuple(dict.fromkeys(one.name for one in metaphors))
