"""The conformance suites of language models detect faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.domain.errors import LLMRejectedError
from retrieval.testing import ConformanceError, check_llm, check_unreachable_llm


class Down(SimLLM):
    """A model that is always unavailable."""

    def __init__(self) -> None:
        super().__init__(faults=SimFaults(fail_rate=1))


class Renamed(SimLLM):
    """A model whose name changes."""

    @property
    def name(self) -> str:
        """Another after each call."""
        return f"sim/{self.calls}"


class Nameless(SimLLM):
    """Names no model."""

    name = "sim"


class Silent(SimLLM):
    """Answers with nothing."""

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """Answer with the fault."""
        await super().complete(prompt, system=system)
        return ""


class Unchecked(SimLLM):
    """Gives out what does not fit."""

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """Answer with the fault."""
        answer = await super().complete_json(prompt, schema, system=system)
        return {**answer, "confidence": 7}


class Sharing(SimLLM):
    """Hands out the same object twice."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Any] = {}

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """Answer with the fault."""
        if prompt not in self.kept:
            self.kept[prompt] = await super().complete_json(prompt, schema, system=system)
        return self.kept[prompt]


class Meddling(SimLLM):
    """Changes the schema."""

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """Answer with the fault."""
        answer = await super().complete_json(prompt, schema, system=system)
        if isinstance(schema, dict):
            schema.setdefault("title", "mine")
        return answer


class Talkative(SimLLM):
    """Answers an empty prompt."""

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """Answer with the fault."""
        return await super().complete(prompt.strip() or "anything", system=system)


class Wordy(SimLLM):
    """Refuses in several lines."""

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """Answer with the fault."""
        try:
            return await super().complete(prompt, system=system)
        except LLMRejectedError as error:
            raise LLMRejectedError(f"{error}\n\nsee the log") from None


class Unencodable(SimLLM):
    """Repeats half a surrogate pair."""

    async def complete(self, prompt: str, *, system: str = "") -> str:
        """Answer with the fault."""
        return await super().complete(prompt, system=system) + ("\ud800" if "\ud800" in prompt else "")


class Undying(SimLLM):
    """Answers after it was closed."""

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (Down, "name is stable"),
        (Renamed, "name is stable"),
        (Nameless, "name is stable"),
        (Silent, "answers in words"),
        (Unchecked, "json fits the schema"),
        (Sharing, "schema and answer are left alone"),
        (Meddling, "schema and answer are left alone"),
        (Talkative, "empty prompt is refused"),
        (Wordy, "empty prompt is refused"),
        (Unencodable, "odd prompts"),
        (Undying, "closes twice and answers no more"),
    ],
)
async def test_each_fault_is_caught_by_its_check(faulty: type[SimLLM], check: str) -> None:
    """The error names the check that failed."""
    with pytest.raises(ConformanceError) as caught:
        await check_llm(faulty)
    assert caught.value.check == check


async def test_answers_that_change_are_caught_where_they_should_not() -> None:
    """Only a model that is declared deterministic has to repeat itself."""

    class Changing(SimLLM):
        async def complete(self, prompt: str, *, system: str = "") -> str:
            return f"{await super().complete(prompt, system=system)} {self.calls}"

    await check_llm(Changing)
    with pytest.raises(ConformanceError) as caught:
        await check_llm(Changing, deterministic=True)
    assert caught.value.check == "same answers again"


async def test_one_that_is_down_has_to_say_so_by_its_error() -> None:
    """An answer, or any other error, does not report that the LLM is unreachable."""

    class Odd(SimLLM):
        async def complete(self, prompt: str, *, system: str = "") -> str:  # noqa: ARG002
            raise OSError("no route")

    await check_unreachable_llm(Down)
    for faulty in (SimLLM, Odd):
        with pytest.raises(ConformanceError) as caught:
            await check_unreachable_llm(faulty)
        assert caught.value.check == "unreachable is unavailable"
