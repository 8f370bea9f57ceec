"""The options of an OpenAI-compatible language model, and which of them cannot work."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.adapters.endpoints.address import check_address, check_key, host_of
from retrieval.domain.errors import ConfigurationError

_SETTINGS = "RETRIEVAL_LLM"
_LONGEST_MODEL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAILLMOptions:
    """What ``OpenAILLM`` was made with, checked. Raises ``ConfigurationError`` for what cannot work."""

    model: str
    api_key: str = field(repr=False)
    base_url: str
    timeout_seconds: float
    max_attempts: int
    max_concurrency: int
    max_answer_bytes: int
    temperature: float | None

    def __post_init__(self) -> None:
        if not self.model or not isinstance(self.model, str):
            raise ConfigurationError("no language model is named; set RETRIEVAL_LLM_MODEL")
        if len(self.model) > _LONGEST_MODEL or not self.model.isprintable():
            raise ConfigurationError(
                f"a model's name has at most {_LONGEST_MODEL} characters on one line; set RETRIEVAL_LLM_MODEL"
            )
        for name in ("timeout_seconds", "max_attempts", "max_concurrency", "max_answer_bytes"):
            value = getattr(self, name)
            if not _is_number(value) or not value > 0:
                raise ConfigurationError(f"{name} is {value!r:.80}; the language model needs a positive number")
        if self.temperature is not None and not (_is_number(self.temperature) and 0 <= self.temperature <= 2):
            raise ConfigurationError(f"temperature is {self.temperature!r:.80}; it is 0 to 2, or None")
        check_address(self.base_url, what="language model's", settings=_SETTINGS)
        check_key(self.api_key, self.base_url, what="language model's", settings=_SETTINGS)

    @property
    def host(self) -> str:
        """Host and port, for messages: never the credentials that a URL can hold."""
        return host_of(self.base_url)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
