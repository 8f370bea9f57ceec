"""Who asks a language model for metaphors, once for each problem, and keeps what can be used as candidates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.metaphor_item import ACTIVE, CANDIDATE, KIND, SUGGESTED_FOR
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


@dataclass(frozen=True, slots=True)
class Suggested:
    """The metaphors that were suggested and can be used, and why others, or all, cannot."""

    metaphors: tuple[Metaphor, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generator:
    """One model's suggestions for one corpus."""

    corpus: MetaphorCorpus
    llm: LLM
    now: Callable[[], datetime]

    async def suggestions(self, wanted: Wanted) -> Suggested:
        """At most three, stored as candidates.

        Raises ``LLMUnavailableError`` or ``LLMRejectedError``, also for an answer of which nothing can be used.
        """
        return await self._within(None, wanted)

    async def in_time(self, wanted: Wanted, seconds: float) -> Suggested:
        """The suggestions if they come so soon, or why there are none."""
        try:
            return await self._within(seconds, wanted)
        except TimeoutError:
            return Suggested(notes=(f"nothing was generated: {self.llm.name} did not answer within {seconds:g} s",))
        except RetrievalError as error:
            return Suggested(notes=(f"nothing was generated: {error}",))

    async def still_untried(self, problem: Problem, exclude: Collection[str]) -> bool:
        """Whether the model suggested metaphors for this problem's text already of which one is not excluded."""
        where = {"kind": KIND, "status": [ACTIVE, CANDIDATE], SUGGESTED_FOR: problem_hash(problem)}
        return any([item.item_id not in exclude async for item in self.corpus.collection.scan(where)])

    async def _within(self, seconds: float | None, wanted: Wanted) -> Suggested:
        """The suggestions, of one call for all who ask for the same now; who stops waiting leaves it to go on."""
        collection = self.corpus.collection
        key = (id(self.llm), collection.name, PROMPT_VERSION, wanted.problem.description)
        found: Suggested = await collection.calls.result(key, lambda: self._made(wanted), seconds)
        return found

    async def _made(self, wanted: Wanted) -> Suggested:
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                answer = await self._answer(suggestion_prompt(wanted.problem, wanted.tried, wanted.failure))
        except TimeoutError:
            raise LLMUnavailableError(f"{self.llm.name} gave no metaphors within {LONGEST_SECONDS:g} s") from None
        offered = suggested_metaphors(answer, wanted.problem)
        kept, notes = list[Metaphor](), list[str]()
        # Another answer may bring the like at the same time: one after the other, the second is seen to be that.
        async with self.corpus.collection.calls.lock(("metaphors", self.corpus.collection.name)):
            for metaphor in offered:
                why_not = await self._why_not(metaphor)
                if why_not is None:
                    await self.corpus.add_candidate(metaphor, self._provenance(metaphor, wanted))
                    kept.append(metaphor)
                else:
                    notes.append(f"the suggestion {metaphor.name!r} was refused: {why_not}")
        if not kept:
            why = "; ".join(notes) or "its answer holds no metaphor"
            raise LLMRejectedError(f"{self.llm.name} suggested nothing that can be used: {why}")
        return Suggested(tuple(kept), tuple(notes))

    async def _answer(self, prompt: str) -> Any:
        """The model's answer; models come from anywhere, and what else they raise becomes one of their own errors."""
        try:
            return await self.llm.complete_json(prompt, SCHEMA, system=SYSTEM)
        except LLMError:
            raise
        except Exception as error:
            _log.warning("%s failed", self.llm.name, exc_info=error)
            said = " ".join(f"{type(error).__name__} {error}".split())
            raise LLMUnavailableError(f"{self.llm.name} failed: {said:.200}") from error

    async def _why_not(self, metaphor: Metaphor) -> str | None:
        """Why the metaphor cannot be used; None: it can."""
        valid, issues = validate_metaphor(metaphor)
        if not valid:
            return ", ".join(issues)
        if await self.corpus.get([metaphor.id]):
            return "it was suggested for this problem before"
        alike = await self.corpus.near_duplicates(metaphor)
        return f"much like {alike[0][0].name!r}" if alike else None

    def _provenance(self, metaphor: Metaphor, wanted: Wanted) -> dict[str, Any]:
        _, issues = validate_metaphor(metaphor)
        return {
            "model": self.llm.name,
            "prompt": PROMPT_VERSION,
            "problem_id": wanted.problem.id,
            "problem_hash": problem_hash(wanted.problem),
            "reason": wanted.why,
            "at": self.now().isoformat(),
            "warnings": issues,
        }


def names_of(metaphors: Sequence[Metaphor]) -> tuple[str, ...]:
    """Their names, each once."""
    return tuple(dict.fromkeys(one.name for one in metaphors))
