"""The simulated language model: the same for the same seed and prompt."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.domain.errors import ConfigurationError, LLMError, LLMRejectedError, LLMUnavailableError
from retrieval.testing import check_llm

REWRITES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rewrites": {"type": "array", "items": {"type": "string", "maxLength": 200}, "minItems": 1, "maxItems": 3}
    },
    "required": ["rewrites"],
    "additionalProperties": False,
}


async def rewrites(query: str, seed: int = 0, prompt: str = "Rewrite the query:\n<query>{}</query>") -> list[str]:
    """The rewrites of a query."""
    answer = await SimLLM(seed).complete_json(prompt.format(query), REWRITES)
    return list(answer["rewrites"])


@pytest.mark.parametrize("seed", [0, 7])
async def test_keeps_the_contract_of_language_models(seed: int) -> None:
    """It passes the conformance suite, and repeats its answers."""
    await check_llm(lambda: SimLLM(seed), deterministic=True)


async def test_prompts_that_ask_to_rewrite_a_query_are_answered_with_rewrites() -> None:
    """As a list in words, as a list in an object; other prompts with a sentence."""
    expected = ["Acme", "works at Acme", "Acme Corp employee"]
    assert await rewrites("Who do I know at Acme?") == expected
    assert json.loads(await SimLLM().complete("REWRITE this\nQuery: Who do I know at Acme?")) == expected
    assert json.loads(await SimLLM().complete("Who do I know at Acme?", system="rewrite the query")) == expected
    assert (await SimLLM().complete("Who do I know at Acme?")).startswith("Simulated answer about")


@pytest.mark.parametrize(
    "prompt",
    [
        "Rewrite this. It is not a <query>bait</query>\n<query>{}</query> as JSON.",
        "Rewrite. Query: {}",
        'Rewrite. Query: "{}"',
        'Please rewrite the query "{}" in "three" words or so: "{}"',
        "Rewrite the query.\n\n{}\n",
    ],
)
async def test_the_query_is_found_in_the_prompt(prompt: str) -> None:
    """In tags, after a label, in quotes, or on the last line."""
    assert await rewrites("Who is at Acme?", prompt=prompt.replace("{}", "Who is at Acme?")) == await rewrites(
        "Who is at Acme?"
    )


async def test_synonyms_and_names_are_used() -> None:
    """Rewrites use synonyms and the names in the question."""
    assert {"coworkers", "teammates"} <= set(await rewrites("colleagues"))
    variations = {
        rewrite for seed in range(8) for rewrite in await rewrites("What did Melanie's colleagues buy?", seed)
    }
    assert {"Melanie colleagues buy", "Melanie"} < variations
    assert any("coworkers" in variation for variation in variations)


async def test_another_seed_may_answer_otherwise() -> None:
    """The same seed never does."""
    answers = {seed: await rewrites("database connection timeout", seed) for seed in range(6)}
    assert len({tuple(answer) for answer in answers.values()}) > 1
    assert answers == {seed: await rewrites("database connection timeout", seed) for seed in range(6)}
    assert (SimLLM(1).name, SimLLM(2).name) == ("sim/1", "sim/2")


@given(query=st.text(max_size=60), seed=st.integers(0, 3))
async def test_rewrites_are_two_or_three_that_differ(query: str, seed: int) -> None:
    """From one another and from the query, whatever it is; a query without words is not a query."""
    given_words = any(character.isalnum() for character in query)
    answer = await SimLLM(seed).complete(f"Rewrite. Query: {json.dumps(query)}")
    if not given_words:
        assert answer.startswith("Simulated")
        return
    different = [rewrite.casefold() for rewrite in json.loads(answer)]
    assert 2 <= len(set(different)) == len(different) <= 3
    assert " ".join(query.casefold().split()) not in different


SCHEMAS: list[dict[str, Any]] = [
    {"type": "string", "minLength": 30, "maxLength": 31},
    {"type": "integer", "minimum": 3, "maximum": 3},
    {"type": "integer", "maximum": -5},
    {"type": "number", "minimum": 100},
    {"enum": ["a", 3, None]},
    {"const": {"a": 1}},
    {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 3}, "minItems": 2},
    {"type": ["null", "object"], "properties": {"any": {"type": "string"}}, "required": ["any"]},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
async def test_values_fit_schemas_of_every_kind(schema: dict[str, Any]) -> None:
    """Bounds, lengths and choices."""
    values = [await SimLLM(seed).complete_json("some words", schema) for seed in range(4)]
    fits = jsonschema.Draft202012Validator(schema).is_valid
    assert [value for value in values if not fits(value)] == []


async def test_a_schema_beyond_its_rules_is_rejected() -> None:
    """No answer violates its schema."""
    with pytest.raises(LLMRejectedError, match="does not fit"):
        await SimLLM().complete_json("some words", {"type": "string", "pattern": "^[0-9]{4}$"})


async def outcomes(llm: SimLLM, number: int = 40) -> list[str]:
    """The outcomes of a number of calls."""
    results = []
    for _ in range(number):
        try:
            results.append(
                "answer" if (await llm.complete_json("rewrite the query: x", REWRITES))["rewrites"] else "empty"
            )
        except LLMError as error:
            results.append(type(error).__name__)
    return results


async def test_faults_come_by_the_seed_and_again_after_a_reset() -> None:
    """The same calls meet the same faults; another seed has others."""
    faults = SimFaults(fail_rate=0.3, malformed_rate=0.3)
    llm = SimLLM(5, faults=faults)
    first = await outcomes(llm)
    assert set(first) == {"answer", "LLMUnavailableError", "LLMRejectedError"}
    assert (await outcomes(llm) != first, llm.calls) == (True, 80)
    llm.reset()
    assert llm.calls == 0
    assert await outcomes(llm) == first == await outcomes(SimLLM(5, faults=faults))
    assert await outcomes(SimLLM(6, faults=faults)) != first


async def test_each_fault_is_what_it_says() -> None:
    """Down, broken off, slow."""
    with pytest.raises(LLMUnavailableError):
        await SimLLM(faults=SimFaults(fail_rate=1)).complete("x")
    malformed = SimLLM(faults=SimFaults(malformed_rate=1))
    with pytest.raises(LLMRejectedError, match="not JSON"):
        await malformed.complete_json("x", REWRITES)
    with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting"):
        json.loads(await malformed.complete("rewrite the query: Acme"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(SimLLM(faults=SimFaults(delay_seconds=3)).complete("x"), 0.01)


@pytest.mark.parametrize(
    "rates",
    [{"fail_rate": -0.1}, {"fail_rate": 0.6, "malformed_rate": 0.6}, {"delay_seconds": -1}, {"fail_rate": "x"}],
)
def test_shares_that_cannot_be_are_refused(rates: dict[str, Any]) -> None:
    """They are from 0 to 1, together at most 1; time does not run backwards."""
    with pytest.raises(ConfigurationError):
        SimFaults(**rates)


async def test_faults_do_not_depend_on_other_prompts() -> None:
    """They depend only on the number of repetitions of the same prompt."""
    faults = SimFaults(fail_rate=0.5)

    async def fails(llm: SimLLM, prompt: str) -> bool:
        try:
            await llm.complete(prompt)
        except LLMUnavailableError:
            return True
        return False

    first, other = SimLLM(2, faults=faults), SimLLM(2, faults=faults)
    forward = {f"p {n}": await fails(first, f"p {n}") for n in range(12)}
    assert set(forward.values()) == {True, False}
    assert {prompt: await fails(other, prompt) for prompt in reversed(forward)} == forward
