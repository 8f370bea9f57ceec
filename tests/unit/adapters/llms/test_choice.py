"""The choice of the language model: none unless one is configured."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.adapters.llms.choice import ChosenLLM, configured_llm
from retrieval.adapters.llms.sim import SimLLM
from retrieval.domain.errors import ConfigurationError, LLMRejectedError
from retrieval.settings import Settings


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "_MODEL", "_API_KEY", "_BASE_URL"):
        monkeypatch.delenv(f"RETRIEVAL_LLM{name}", raising=False)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def name_of(**values: Any) -> str | None:
    """The name of the model that the settings choose."""
    llm = configured_llm(Settings(**values))
    return llm.name if llm else None


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, None),
        ({"llm_api_key": "sk-1", "llm_model": "small"}, None),
        ({"llm": "none", "llm_api_key": "sk-1", "llm_model": "small"}, None),
        ({"llm": "auto"}, None),
        ({"llm": "auto", "llm_api_key": "sk-1"}, None),
        ({"llm": "auto", "llm_model": "small"}, None),
        ({"llm": "auto", "llm_model": "small", "llm_api_key": "sk-1"}, "openai/small"),
        ({"llm": "auto", "llm_model": "small", "llm_base_url": "http://localhost:1/v1"}, "openai/small"),
        ({"llm": "openai", "llm_model": "small", "llm_base_url": "http://localhost:1/v1"}, "openai/small"),
        ({"llm": "sim"}, "sim/0"),
    ],
)
def test_the_settings_choose(values: dict[str, Any], name: str | None) -> None:
    """A key alone selects no paid service; a named server may work without a key."""
    assert name_of(**values) == name


def test_the_key_for_everything_serves_the_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model has to be configured, and its own key takes precedence."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-shared")
    assert name_of() is None
    assert name_of(llm="auto", llm_model="small") == "openai/small"
    monkeypatch.setenv("RETRIEVAL_LLM_API_KEY", "sk-own")
    key = Settings().llm_api_key
    assert key is not None
    assert key.get_secret_value() == "sk-own"
    assert "sk-own" not in repr(Settings())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"llm_api_key": "sk-secret"}, "RETRIEVAL_LLM_MODEL"),
        ({"llm_model": "a\nb", "llm_api_key": "sk-secret"}, "RETRIEVAL_LLM_MODEL"),
        ({"llm_model": "small"}, "RETRIEVAL_LLM_API_KEY"),
        ({"llm_model": "small", "llm_api_key": "sk-secret\n"}, "RETRIEVAL_LLM_API_KEY"),
        ({"llm_model": "small", "llm_api_key": "sk-secret", "llm_base_url": "localhost/v1"}, "RETRIEVAL_LLM_BASE_URL"),
    ],
)
def test_a_model_that_cannot_be_made_says_which_setting(values: dict[str, Any], message: str) -> None:
    """Before any request, and never with the key."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        configured_llm(Settings(llm="openai", **values))
    assert "secret" not in str(caught.value)


async def test_the_chosen_one_is_made_once_and_closed() -> None:
    """It is created at the first use; after closing, a new one is created."""
    choice = ChosenLLM(Settings(llm="sim"))
    model = choice.get()
    assert model is not None
    assert choice.get() is model
    await choice.aclose()
    with pytest.raises(LLMRejectedError):
        await model.complete("x")
    assert choice.get() is not model
    await choice.aclose()


async def test_a_given_one_goes_before_the_configured_and_stays_open() -> None:
    """The caller that gave the model closes it."""
    own = SimLLM(9)
    choice = ChosenLLM(Settings(llm="sim"), own)
    assert choice.get() is own
    await choice.aclose()
    assert await own.complete("x")


def test_a_value_that_is_not_a_language_model_is_refused() -> None:
    """A name alone is none."""
    with pytest.raises(ConfigurationError, match="llm is 'gpt'"):
        ChosenLLM(Settings(), "gpt")  # type: ignore[arg-type]
