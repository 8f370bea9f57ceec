"""A language model without a model, for tests, dry runs and examples."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retrieval.adapters.endpoints.retries import Sleep
from retrieval.adapters.llms.json_shape import JSONShape
from retrieval.adapters.llms.prompts import checked_prompt
from retrieval.adapters.llms.sim_rewrites import content_words, query_in, sim_rewrites
from retrieval.adapters.llms.sim_values import Filling, value_for
from retrieval.domain.errors import ConfigurationError, LLMRejectedError, LLMUnavailableError

_REWRITE = re.compile(r"rewrite.*query", re.IGNORECASE | re.DOTALL)
_VARIATION = re.compile(r"\bvariation (-?\d+)")
_READ = 5000
"""Characters of a prompt that words are taken from."""
_WORDS = 8
"""Words of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimFaults:
    """What goes wrong, and how often: shares of the calls from 0 to 1, together at most 1."""

    fail_rate: float = 0.0
    """Calls that raise ``LLMUnavailableError``."""
    malformed_rate: float = 0.0
    """Answers that are broken off: no JSON where JSON was asked for."""
    empty_rate: float = 0.0
    """Answers that hold the least: nothing, or the emptiest value that fits the schema."""
    delay_seconds: float = 0.0
    """How long every answer takes, failures included."""

    def __post_init__(self) -> None:
        rates = (self.fail_rate, self.malformed_rate, self.empty_rate)
        if not all(_is_number(number) for number in (*rates, self.delay_seconds)):
            raise ConfigurationError("the rates of faults and delay_seconds are numbers")
        if not all(0 <= rate <= 1 for rate in rates) or sum(rates) > 1 + 1e-9:
            raise ConfigurationError("the rates of faults are shares from 0 to 1, together at most 1")
        if not 0 <= self.delay_seconds < float("inf"):
            raise ConfigurationError(f"delay_seconds is {self.delay_seconds}; it is 0 or more")

    def drawn(self, chance: float) -> str:
        """``fail``, ``malformed``, ``empty`` or nothing, by a number in [0, 1)."""
        for fault, rate in (("fail", self.fail_rate), ("malformed", self.malformed_rate), ("empty", self.empty_rate)):
            if chance < rate:
                return fault
            chance -= rate
        return ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


NO_FAULTS = SimFaults()


class SimLLM:
    """Answers by rule, the same for the same seed and prompt, on every machine and in every process.

    A prompt that holds ``rewrite`` and then ``query`` is answered with two or three rewrites of the query in it: what
    stands in ``<query>`` tags, else after the last ``query:``, else in the last double quotes, else on the last line.
    Where ``system`` names a variation ("variation 3"), it is drawn by that too.
    Any other prompt gets a sentence of its words, and any schema a value that fits it. It knows a few synonyms and
    nothing of the world.

    ``calls`` counts what it was asked since it was made or reset.
    """

    def __init__(self, seed: int = 0, *, faults: SimFaults = NO_FAULTS, sleep: Sleep = asyncio.sleep) -> None:
        """``faults`` are drawn by the seed, the prompt, and how often it was asked; ``sleep`` is how a delay waits."""
        if not isinstance(faults, SimFaults):
            raise ConfigurationError(f"faults is {faults!r:.80}; give SimFaults(...), or leave it out")
        self._seed = seed
        self._faults = faults
        self._sleep = sleep
        self._closed = False
        self.reset()

    @property
    def name(self) -> str:
        """``sim/`` and the seed: another seed is another model."""
        return f"sim/{self._seed}"

    def reset(self) -> None:
        """Return to the state that the seed began with: the same prompts meet the same faults again."""
        self.calls = 0
        self._asked: Counter[str] = Counter()

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """Rewrites as a JSON list, or a sentence; half of it with a fault of that kind.

        Raises ``LLMRejectedError`` for an empty prompt and an empty answer, ``LLMUnavailableError`` for a fault of that
        kind.
        """
        fault = await self._fault(prompt, system)
        if fault == "empty":
            raise LLMRejectedError("the simulated language model gave an empty answer; ask again")
        answer = self._answer(prompt, system)
        return answer[: len(answer) // 2] if fault == "malformed" else answer

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """A value that fits the schema; the first rewrites that fit, wherever it has a list of texts.

        Raises ``LLMRejectedError`` for an empty prompt, a schema that no simple rule can fill and a malformed answer;
        ``LLMUnavailableError`` for a fault of that kind.
        """
        fault = await self._fault(prompt, system)
        shape = JSONShape(schema)
        if fault == "malformed":
            shape.read('{"simulated": [')
        rewrites = self._rewrites(prompt, system)
        filling = Filling(
            rng=self._rng(prompt),
            words=content_words(prompt[:_READ])[:_WORDS],
            lists=rewrites,
            least=fault == "empty",
        )
        return shape.checked(value_for(shape.schema, filling))

    async def aclose(self) -> None:
        """Answer no more."""
        self._closed = True

    async def _fault(self, prompt: str, system: str) -> str:
        """What goes wrong with this call; raises it where it is an error."""
        if self._closed:
            raise LLMRejectedError("the language model is closed; make a new one")
        checked_prompt(prompt)
        self.calls += 1
        said = hashlib.sha256(f"{system}\n{prompt}".encode(errors="replace")).hexdigest()
        self._asked[said] += 1
        fault = self._faults.drawn(self._rng(f"faults {said} {self._asked[said]}").random())
        if self._faults.delay_seconds:
            await self._sleep(self._faults.delay_seconds)
        if fault == "fail":
            raise LLMUnavailableError("the simulated language model is down; try again later")
        return fault

    def _answer(self, prompt: str, system: str) -> str:
        rewrites = self._rewrites(prompt, system)
        if rewrites:
            return json.dumps(rewrites, ensure_ascii=False)
        words = content_words(prompt[:_READ])
        chosen = words if len(words) <= _WORDS else self._rng(prompt).sample(words, _WORDS)
        return f"Simulated answer about: {', '.join(chosen) or 'nothing in particular'}."

    def _rewrites(self, prompt: str, system: str) -> list[str]:
        """The rewrites that the prompt asks for; none where it asks for something else."""
        if not _REWRITE.search(f"{system}\n{prompt}"):
            return []
        query = query_in(prompt)
        variation = _VARIATION.search(system)
        return sim_rewrites(query, self._rng(f"{query} {variation[1]}" if variation else query))

    def _rng(self, text: str) -> random.Random:
        """Chance that depends on the seed and the text alone."""
        return random.Random(f"{self._seed} {text}".encode(errors="replace"))  # noqa: S311 - it simulates
