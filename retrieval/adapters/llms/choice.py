"""The choice of the configured language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from retrieval.adapters.endpoints.breaker import LANGUAGE_MODEL, Guards, Role
from retrieval.domain.checks import written
from retrieval.domain.errors import ConfigurationError
from retrieval.domain.llm import LLM, is_llm
from retrieval.domain.search.reranking import Reranker
from retrieval.settings import Settings


def configured_llm(settings: Settings) -> LLM | None:
    """The configured language model; None: there is none.

    ``auto`` is openai if a model is named and a key or an address is set, else none: a key alone, which may be meant
    for embeddings, causes no cost. Raises ``ConfigurationError`` for a model that cannot be made.
    """
    key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else ""
    is_automatic = settings.llm == "auto" and bool(settings.llm_model) and bool(key or settings.llm_base_url)
    if settings.llm == "openai" or is_automatic:
        from retrieval.adapters.endpoints import OPENAI_URL
        from retrieval.adapters.llms.openai import OpenAILLM

        return OpenAILLM(
            model=settings.llm_model or "",
            api_key=key,
            base_url=settings.llm_base_url or OPENAI_URL,
            timeout_seconds=settings.llm_timeout_seconds,
            max_attempts=settings.llm_retries + 1,
        )
    if settings.llm == "sim":
        from retrieval.adapters.llms.sim import SimLLM

        return SimLLM()
    return None


S = TypeVar("S", LLM, Reranker)


class Chosen(Generic[S]):
    """A given language model or reranker, or else the configured one, made when it is first requested."""

    def __init__(self, role: Role, make: Callable[[], S | None], given: S | None) -> None:
        self._make: Callable[[], S | None] = make
        self._given: S | None = given
        self._configured: S | None = None
        self.guards = Guards(role)
        """The breakers, which all tenants share."""

    def get(self) -> S | None:
        """The service; None if none is configured. Raises ``ConfigurationError`` for one that cannot be made."""
        if self._given is None and self._configured is None:
            self._configured = self._make()
        return self._given or self._configured

    async def aclose(self) -> None:
        """Close the service made here; the caller closes one that it passed in."""
        service, self._configured = self._configured, None
        if service is not None:
            await service.aclose()


class ChosenLLM(Chosen[LLM]):
    """The given language model, or else the configured one."""

    def __init__(self, settings: Settings, given: LLM | None = None) -> None:
        """Raises ``ConfigurationError`` for anything but a language model."""
        if given is not None and not is_llm(given):
            raise ConfigurationError(f"llm is {written(given)}; give a language model, or set RETRIEVAL_LLM")
        super().__init__(LANGUAGE_MODEL, lambda: configured_llm(settings), given)
