"""Who asks a language model for other wordings of a question, once for each question."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.apps.recall.rewriting import (
    INSTRUCTIONS,
    SCHEMA,
    SYSTEM,
    rewriting_prompt,
    usable_rewrites,
)
from retrieval.collection import Collection
from retrieval.domain.errors import LLMError, LLMRejectedError, LLMUnavailableError
from retrieval.domain.llm import LLM

LONGEST_SECONDS = 300.0
"""How long a call may go on, whether or not anyone waits for it: a late answer serves the next search."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The other wordings, or why there are none."""

    rewrites: tuple[str, ...] = ()
    why_none: str | None = None


@dataclass(frozen=True, slots=True)
class Rewriter:
    """One model's wordings, kept with the collection's tenant."""

    storage: Collection
    llm: LLM
    seed: int | None
    """Wordings under another seed are others: the model is told it, and they are kept apart."""
    budget_seconds: float
    """How long a search waits for them; a model that takes longer is not asked by the next ones until it answers."""

    async def in_time(self, query: str) -> Rewritten:
        """Two to three other wordings, from the cache or from the model, if they come within the budget, or why none.

        An answer of which nothing can be used gives none.
        """
        seconds = self.budget_seconds
        try:
            return Rewritten(tuple(await self._shared(query, seconds)))
        except TimeoutError:
            return Rewritten(why_none=f"{self.llm.name} gave no rewrites within {seconds:g} s")
        except LLMError as error:
            return Rewritten(why_none=f"no rewrites: {error}")

    async def _shared(self, query: str, seconds: float) -> list[str]:
        """The wordings, of one call for all who ask the same now; who does not wait for it leaves it to go on."""
        key = (id(self.llm), self._instructions, query)
        found: list[str] = await self.storage.calls.result(key, lambda: self._found(query), seconds)
        return found

    async def _found(self, query: str) -> list[str]:
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                kept = await self._kept(query)
                found = kept or await self._asked(query)
        except TimeoutError:
            raise LLMUnavailableError(f"{self.llm.name} gave no rewrites within {LONGEST_SECONDS:g} s") from None
        if not kept:
            await self._keep(query, found)
        return found

    async def _asked(self, query: str) -> list[str]:
        system = SYSTEM if self.seed is None else f"{SYSTEM} This is variation {self.seed}."
        guard = self.storage.calls.guard(self.llm, self.llm.name)
        answer = await guard.call(lambda: self._answer(rewriting_prompt(query), system), self.budget_seconds)
        found = usable_rewrites(answer, query)
        if not found:
            raise LLMRejectedError(f"{self.llm.name} gave no rewrite that can be searched for")
        return found

    async def _answer(self, prompt: str, system: str) -> Any:
        """The model's answer; models come from anywhere, and what else they raise becomes one of their own errors."""
        try:
            return await self.llm.complete_json(prompt, SCHEMA, system=system)
        except LLMError:
            raise
        except Exception as error:
            _log.warning("%s failed", self.llm.name, exc_info=error)
            said = " ".join(f"{type(error).__name__} {error}".split())
            raise LLMUnavailableError(f"{self.llm.name} failed: {said:.200}") from error

    async def _kept(self, query: str) -> list[str]:
        kept = await self.storage.rewrite_cache.read(self.llm.name, query, instructions=self._instructions)
        return usable_rewrites(kept, query)

    async def _keep(self, query: str, rewrites: Sequence[str]) -> None:
        await self.storage.rewrite_cache.keep(self.llm.name, query, rewrites, instructions=self._instructions)

    @property
    def _instructions(self) -> str:
        return INSTRUCTIONS if self.seed is None else f"{INSTRUCTIONS}, seed {self.seed}"
