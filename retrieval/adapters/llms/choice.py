"""The choice of the configured language model."""

from __future__ import annotations

from retrieval.adapters.endpoints.breaker import LANGUAGE_MODEL, Guards
from retrieval.domain.errors import ConfigurationError
from retrieval.domain.llm import LLM, is_llm
from retrieval.settings import LLMName, Settings


def configured_llm(settings: Settings) -> LLM | None:
    """The configured language model; None: there is none.

    ``auto`` is openai if a model is named and a key or an address is set, else none: a key alone, which may be meant
    for embeddings, causes no cost. Raises ``ConfigurationError`` for a model that cannot be made.
    """
    name = _automatic(settings) if settings.llm == "auto" else settings.llm
    if name == "openai":
        return _openai(settings)
    if name == "sim":
        from retrieval.adapters.llms.sim import SimLLM

        return SimLLM()
    return None


class ChosenLLM:
    """The given language model, or else the configured one, made when it is first requested."""

    def __init__(self, settings: Settings, given: LLM | None = None) -> None:
        """Raises ``ConfigurationError`` for anything but a language model."""
        if given is not None and not is_llm(given):
            raise ConfigurationError(f"llm is {given!r:.80}; give a language model, or set RETRIEVAL_LLM")
        self._settings = settings
        self._given = given
        self._configured: LLM | None = None
        self.guards = Guards(LANGUAGE_MODEL)
        """The breakers of the language models, which all tenants share."""

    def get(self) -> LLM | None:
        """The model; None if none is configured. Raises ``ConfigurationError`` for a model that cannot be made."""
        if self._given is None and self._configured is None:
            self._configured = configured_llm(self._settings)
        return self._given or self._configured

    async def aclose(self) -> None:
        """Close the language model made here; the caller closes a model that it passed in."""
        llm, self._configured = self._configured, None
        if llm is not None:
            await llm.aclose()


def _automatic(settings: Settings) -> LLMName:
    return "openai" if settings.llm_model and (_key(settings) or settings.llm_base_url) else "none"


def _key(settings: Settings) -> str:
    return settings.llm_api_key.get_secret_value() if settings.llm_api_key else ""


def _openai(settings: Settings) -> LLM:
    from retrieval.adapters.endpoints import OPENAI_URL
    from retrieval.adapters.llms.openai import OpenAILLM

    return OpenAILLM(
        model=settings.llm_model or "",
        api_key=_key(settings),
        base_url=settings.llm_base_url or OPENAI_URL,
        timeout_seconds=settings.llm_timeout_seconds,
        max_attempts=settings.llm_retries + 1,
    )
