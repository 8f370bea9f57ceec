"""Options of the OpenAI embedder: what cannot work is refused before any request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retrieval.adapters.embedders.openai import OpenAIEmbedder
from retrieval.adapters.endpoints.endpoint import shown_address
from retrieval.adapters.llms.openai import CHAT
from retrieval.domain.errors import ConfigurationError


def embedder(**changes: Any) -> OpenAIEmbedder:
    """An embedder with options that work, but for the changes."""
    return OpenAIEmbedder(**{"api_key": "sk-1", "model": "text-embedding-3-large", **changes})


@pytest.mark.parametrize(
    ("model", "dimensions"),
    [("text-embedding-3-large", 3072), ("text-embedding-3-small", 1536), ("text-embedding-ada-002", 1536)],
)
def test_the_dimensions_of_known_models_are_known(model: str, dimensions: int) -> None:
    """OpenAI's own models need no dimensions."""
    assert embedder(model=model).space.dimensions == dimensions


def test_an_unknown_model_needs_its_dimensions() -> None:
    """Without them the message names the setting; with them it works."""
    with pytest.raises(ConfigurationError, match="RETRIEVAL_EMBEDDING_DIMENSIONS"):
        embedder(model="nomic")
    assert embedder(model="nomic", dimensions=768).space.dimensions == 768


@pytest.mark.parametrize(
    ("changes", "is_sent"),
    [
        ({}, True),
        ({"dimensions": 256}, True),
        ({"model": "text-embedding-ada-002"}, False),
        ({"model": "text-embedding-ada-002", "dimensions": 1536}, False),
        ({"model": "nomic", "dimensions": 768}, True),
        ({"model": "nomic", "dimensions": 768, "send_dimensions": False}, False),
    ],
)
def test_dimensions_are_named_to_models_that_take_them(changes: dict[str, Any], *, is_sent: bool) -> None:
    """Models of fixed size refuse the parameter; a person can decide otherwise."""
    assert embedder(**changes)._sends_dimensions is is_sent  # noqa: SLF001


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "RETRIEVAL_EMBEDDING_MODEL"),
        ({"api_key": ""}, "RETRIEVAL_EMBEDDING_API_KEY"),
        ({"api_key": "sk-secret\n"}, "line break"),
        ({"api_key": "sk-secrét"}, "ASCII"),
        ({"base_url": "localhost:11434/v1"}, "RETRIEVAL_EMBEDDING_BASE_URL"),
        ({"base_url": "https://"}, "RETRIEVAL_EMBEDDING_BASE_URL"),
        ({"dimensions": 4000}, "3072 or fewer"),
        ({"dimensions": 0}, "0 dimensions"),
        ({"model": "text-embedding-ada-002", "dimensions": 512}, "1536"),
        ({"max_texts": 0}, "max_texts"),
    ],
)
def test_unusable_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    """The message names what to change and never holds the key."""
    with pytest.raises(ConfigurationError) as caught:
        embedder(**changes)
    assert message in str(caught.value)
    assert "secr" not in str(caught.value)


def test_other_endpoints_may_have_no_key() -> None:
    """A server on this machine rarely asks for one."""
    address = "http://localhost:11434/v1"
    assert embedder(api_key="", base_url=address, dimensions=8).space.provider == "openai-elsewhere"


def test_credentials_in_the_address_are_not_shown() -> None:
    """Messages name host and port alone."""
    assert replace(CHAT, url="https://me:secret@host:8443/v1").host == "host:8443"
    assert shown_address("https://me:secret@host:8443/v1") == "https://host:8443/v1"


def test_the_key_is_not_in_the_representation() -> None:
    """Options that end up in a log or a traceback do not give the key away."""
    assert "sk-1" not in repr(replace(CHAT, api_key="sk-1"))
