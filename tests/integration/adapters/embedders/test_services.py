"""Each service by its name, against a real HTTP server that speaks as it does."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from retrieval import Settings
from retrieval.adapters.embedders.chosen import configured_embedder, embedder_for, load_embedder, service_in_use
from retrieval.adapters.embedders.hashing import hashed_vector
from retrieval.adapters.embedders.openai import OpenAIEmbedder
from retrieval.adapters.embedders.services import SERVICES, service_of
from retrieval.domain.errors import ConfigurationError, EmbedderError, EmbedderRejectedError, EmbedderUnavailableError
from retrieval.domain.items.embedding import Embedder, EmbeddingSpace, TextRole
from retrieval.settings import SERVICES as NAMES
from retrieval.testing import check_embedder
from tests.support.openai_server import SPEECHES, OpenAIServer, raw, status

MODELS = {
    "openai": "text-embedding-3-small",
    "openai-compatible": "my-model",
    "ollama": "nomic-embed-text",
    "voyage": "voyage-3.5",
    "cohere": "embed-v4.0",
    "jina": "jina-embeddings-v3",
    "tei": "intfloat/multilingual-e5-large",
    "vllm": "BAAI/bge-m3",
}
OWN_DIMENSIONS = {"openai": 1536, "ollama": 768, "cohere": 1536}
"""The dimensions of those models; the others have 1024."""

KEY = "key-0123456789"
KEYED = ["openai", "voyage", "cohere", "jina"]


@asynccontextmanager
async def serving(name: str, **options: Any) -> AsyncIterator[OpenAIServer]:
    """A server that speaks as the service does, with the dimensions of its model."""
    usual = {"speaks": SPEECHES[name], "dimensions": OWN_DIMENSIONS.get(name, 1024), "float_lists": name == "jina"}
    async with OpenAIServer(**{**usual, **options}) as server:
        yield server


def named(name: str, server: OpenAIServer, model: str | None = None, **changes: Any) -> Settings:
    """The settings of somebody who names the service with its model and this address."""
    text = f"{name}:{MODELS[name] if model is None else model}@{server.url}"
    return Settings().changed(**{
        "embedder": text.replace(":@", ":"), "embedding_api_key": SecretStr(KEY) if name in KEYED else None,
        "openai_api_key": None, "openai_base_url": None, "embedding_dimensions": None, **changes,
    })  # fmt: skip


async def new_embedder(settings: Settings) -> Embedder:
    """The embedder of a new collection."""
    embedder = await load_embedder(settings)
    assert embedder is not None
    return embedder


def test_every_name_has_its_service() -> None:
    """The settings take the services that exist, and the tests know each."""
    assert set(NAMES) == set(SERVICES) == set(SPEECHES) == set(MODELS)


@pytest.mark.parametrize("name", NAMES)
async def test_each_keeps_the_contract_of_embedders(name: str) -> None:
    """It passes the conformance suite; the server refuses what the service does not know."""
    async with serving(name) as server:
        await check_embedder(lambda: new_embedder(named(name, server)))


@pytest.mark.parametrize("name", NAMES)
async def test_the_vectors_are_the_services_own(name: str) -> None:
    """The key, the model and the texts arrive, and the role of a text where the service has a field for it."""
    async with serving(name) as server:
        embedder = await new_embedder(named(name, server))
        earlier = len(server.received)
        document = await embedder.embed(["apples"], TextRole.DOCUMENT)
        query = await embedder.embed(["apples"], TextRole.QUERY)
        await embedder.aclose()
    service, requests = SERVICES[name], server.received[earlier:]
    assert [request.body["model"] for request in requests] == [MODELS[name]] * 2
    if name in KEYED:
        assert {request.headers["authorization"] for request in requests} == {f"Bearer {KEY}"}
    if service.role:
        assert [request.body[service.role] for request in requests] == [service.roles[role] for role in TextRole]
        assert not np.allclose(document, query)
    before = f"{service.roles[TextRole.QUERY]} " if service.role else ""
    expected = hashed_vector(f"{before}{embedder.space.query_prefix}apples", embedder.space.dimensions)
    np.testing.assert_allclose(query[0], expected, atol=1e-4)
    assert embedder.space.provider == (f"{name}-elsewhere" if name in KEYED else name)


@pytest.mark.parametrize(
    ("name", "model", "document", "query"),
    [
        ("ollama", "nomic-embed-text", "search_document: ", "search_query: "),
        ("tei", "intfloat/multilingual-e5-large", "passage: ", "query: "),
        ("vllm", "BAAI/bge-m3", "", ""),
        ("ollama", "mxbai-embed-large:latest", "", "Represent this sentence for searching relevant passages: "),
        ("voyage", "voyage-3.5", "", ""),
    ],
)
async def test_models_that_need_prefixes_get_them(name: str, model: str, document: str, query: str) -> None:
    """The prefixes are part of the space, and precede the texts."""
    async with serving(name) as server:
        embedder = configured_embedder(named(name, server, model))
        assert embedder is not None
        assert (embedder.space.document_prefix, embedder.space.query_prefix) == (document, query)
        server.dimensions = embedder.space.dimensions
        await embedder.embed(["apples"], TextRole.DOCUMENT)
        await embedder.aclose()
    assert server.received[-1].texts == [f"{document}apples"]


@pytest.mark.parametrize("name", NAMES)
async def test_unknown_dimensions_are_requested_once(name: str) -> None:
    """By one text of ours; later requests do not name them, for a server may refuse that."""
    async with serving(name, dimensions=96) as server:
        settings = named(name, server, "somebody/new-model")
        embedder = await new_embedder(settings)
        assert embedder.space.dimensions == 96
        assert [request.texts for request in server.received] == [["retrieval"]]
        await embedder.embed(["apples"], TextRole.DOCUMENT)
        assert not {"dimensions", "output_dimension"} & set(server.received[-1].body)
        await embedder.aclose()
        later = embedder_for(embedder.space, settings)
        assert later is not None
        await later.embed(["apples"], TextRole.QUERY)
        assert not {"dimensions", "output_dimension"} & set(server.received[-1].body)
        await later.aclose()


async def test_an_answer_cut_short_is_requested_again() -> None:
    """This applies to the first request too, which asks for the model's dimensions."""
    async with serving("ollama", dimensions=96, faults=deque([raw(b'{"embeddings": [[0.1, ')])) as server:
        embedder = await new_embedder(named("ollama", server, "somebody/new-model"))
        assert (embedder.space.dimensions, len(server.received)) == (96, 2)
        await embedder.aclose()


@pytest.mark.parametrize("name", ["tei", "vllm", "openai-compatible"])
async def test_the_name_of_a_servers_only_model_is_requested(name: str) -> None:
    """``tei:http://host:8080`` is enough."""
    async with serving(name) as server:
        embedder = await new_embedder(named(name, server, ""))
        assert (embedder.space.model, embedder.space.dimensions) == ("BAAI/bge-m3", 1024)
        await embedder.aclose()


@pytest.mark.parametrize("name", ["openai", "voyage", "cohere", "jina"])
async def test_fewer_dimensions_are_requested(name: str) -> None:
    """The request has the service's own field; the same space is recognised for stored vectors."""
    async with serving(name) as server:
        settings = named(name, server, embedding_dimensions=256)
        embedder = await new_embedder(settings)
        assert (await embedder.embed(["apples"], TextRole.QUERY)).shape == (1, 256)
        await embedder.aclose()
        again = embedder_for(embedder.space, settings.changed(embedding_dimensions=None))
        assert again is not None
        assert (await again.embed(["apples"], TextRole.QUERY)).shape == (1, 256)
        await again.aclose()


@pytest.mark.parametrize("name", NAMES)
async def test_a_text_that_is_too_long_is_cut_and_reported(name: str) -> None:
    """The service is asked to refuse long texts, so that none is truncated silently."""
    async with serving(name, max_text_bytes=300) as server:
        embedder: Any = await new_embedder(named(name, server))
        texts = ["0123456789" * 60, "short"]
        assert (await embedder.embed(texts, TextRole.DOCUMENT)).shape[0] == 2
        assert [tokens > embedder.max_tokens for tokens in embedder.count_tokens(texts)] == [True, False]
        await embedder.aclose()


async def test_requests_are_as_large_as_the_service_takes() -> None:
    """The 100 texts go out in parts; the server refuses more than 32."""
    async with serving("tei") as server:
        embedder = await new_embedder(named("tei", server))
        await embedder.embed([f"text {number}" for number in range(100)], TextRole.DOCUMENT)
        await embedder.aclose()
    assert max(len(request.texts) for request in server.received) == 32


@pytest.mark.parametrize("name", KEYED)
async def test_a_wrong_key_names_its_variable(name: str) -> None:
    """This applies to the service's own address; at another address the key belongs to that address."""
    async with serving(name, faults=deque([status(401)])) as server:
        embedder = await new_embedder(named(name, server))
        error = await failed(embedder)
        await embedder.aclose()
    assert isinstance(error, EmbedderRejectedError)
    assert "refused the key (401); check RETRIEVAL_EMBEDDING_API_KEY" in str(error)


@pytest.mark.parametrize("name", KEYED)
def test_a_missing_key_names_its_variable(name: str) -> None:
    """Before any request; and the key of another service is not sent instead."""
    others = {f"{other}_api_key": SecretStr(KEY) for other in KEYED if other != name}
    settings = Settings().changed(embedder=name, embedding_api_key=None, **{f"{name}_api_key": None, **others})
    with pytest.raises(ConfigurationError, match=f"needs {name.upper()}_API_KEY; set it"):
        configured_embedder(settings)


async def test_a_key_goes_to_its_own_service_alone() -> None:
    """A collection of one service is searched with its key while another is configured, with another key."""
    async with serving("voyage") as voyage, serving("openai") as openai:
        settings = named("voyage", voyage, openai_api_key=SecretStr("key-of-openai"), openai_base_url=openai.url)
        new = await new_embedder(settings)
        space = EmbeddingSpace(provider="openai-elsewhere", model="text-embedding-3-small", dimensions=1536)
        old = embedder_for(space, settings)
        assert old is not None
        for embedder in (new, old):
            await embedder.embed(["apples"], TextRole.QUERY)
            await embedder.aclose()
    assert voyage.received[-1].headers["authorization"] == f"Bearer {KEY}"
    assert openai.received[-1].headers["authorization"] == "Bearer key-of-openai"


KEYS = {"openai_api_key": SecretStr(KEY), "voyage_api_key": SecretStr(KEY)}
OWN = "http://own:1/v1"


@pytest.mark.parametrize(
    ("provider", "given", "address"),
    [
        ("openai-compatible", {"embedder": f"openai-compatible:other@{OWN}"}, OWN),
        ("openai-compatible", {"embedder": "minilm", **KEYS}, None),
        ("openai-compatible", {"embedder": "auto", **KEYS}, None),
        ("openai-compatible", {"embedder": "auto", "openai_base_url": OWN, **KEYS}, None),
        ("openai-compatible", {"embedder": f"openai:other@{OWN}", **KEYS}, None),
        ("openai", {"embedder": "minilm", **KEYS}, "https://api.openai.com/v1"),
        ("openai", {"embedder": "minilm", "openai_base_url": OWN, **KEYS}, None),
        ("openai", {"embedder": "minilm", "embedding_api_key": SecretStr(KEY)}, None),
        ("openai", {"embedder": f"openai-compatible:other@{OWN}"}, None),
        ("openai-elsewhere", {"embedder": "minilm", "openai_base_url": OWN, **KEYS}, OWN),
        ("openai-elsewhere", {"embedder": "auto", **KEYS}, None),
        ("voyage", {"embedder": "voyage", **KEYS}, "https://api.voyageai.com/v1"),
        ("voyage", {"embedder": f"voyage:other@{OWN}", **KEYS}, None),
        ("voyage-elsewhere", {"embedder": "voyage", **KEYS}, None),
    ],
)
def test_texts_go_to_no_other_service_than_their_collections(
    provider: str, given: dict[str, Any], address: str | None
) -> None:
    """Whatever is configured and whichever keys are set; a server in a service's place is another service."""
    unset = dict.fromkeys([*KEYS, "embedding_api_key", "embedding_base_url", "openai_base_url"])
    settings = Settings().changed(**{**unset, **given})
    space = EmbeddingSpace(provider=provider, model="my-model", dimensions=64)
    chosen, embedder = service_in_use(settings, space), embedder_for(space, settings)
    assert (chosen and chosen.url, embedder and embedder.space) == (address, address and space)


async def test_a_model_missing_in_ollama_is_reported_with_the_command() -> None:
    """The message contains the command that downloads the model."""
    async with serving("ollama", faults=deque([_not_found])) as server:
        embedder = await new_embedder(named("ollama", server))
        error = await failed(embedder)
        await embedder.aclose()
    assert "has no model 'nomic-embed-text' (404)" in str(error)
    assert "get it with: ollama pull nomic-embed-text" in str(error)


@pytest.mark.parametrize(
    ("name", "message"),
    [("ollama", "Ollama does not answer at"), ("tei", "does not answer at"), ("vllm", "vLLM does not")],
)
async def test_a_server_that_is_not_running_is_reported_with_the_command(name: str, message: str) -> None:
    """The error is raised at once if the dimensions are requested from the server."""
    async with serving(name) as server:
        settings = named(name, server, "new-model")
    with pytest.raises(EmbedderUnavailableError) as caught:
        await load_embedder(settings)
    assert message in str(caught.value)
    assert f"start it with: {SERVICES[name].start}" in str(caught.value)
    assert "times" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_server_without_a_command_is_reported_with_its_setting() -> None:
    """An endpoint that only its address describes."""
    async with serving("openai-compatible") as server:
        settings = named("openai-compatible", server)
    with pytest.raises(EmbedderUnavailableError) as caught:
        await load_embedder(settings)
    assert "; start it, or check RETRIEVAL_EMBEDDER=openai-compatible:MODEL@ADDRESS" in str(caught.value)


async def test_the_dimensions_are_requested_again_from_a_busy_server() -> None:
    """A new collection fails no more than a later one where a server is overloaded for a moment."""
    busy = status(429, retry_after="0")
    async with serving("openai-compatible", dimensions=96, faults=deque([busy])) as server:
        embedder = await new_embedder(named("openai-compatible", server))
        await embedder.aclose()
    assert embedder.space.dimensions == 96
    assert len(server.received) == 2


async def test_a_server_of_two_models_is_reported_with_its_address() -> None:
    """The advice can be followed without changes, and shows no password."""
    two = {"/v1/models": {"data": [{"id": "m-one"}, {"id": "m-two"}]}}
    async with serving("vllm", speaks=replace(SPEECHES["vllm"], models=two)) as server:
        address = server.url.replace("http://", "http://me:secret@")
        with pytest.raises(EmbedderRejectedError) as caught:
            await load_embedder(Settings().changed(embedder=f"vllm:{address}"))
    message = f"vLLM serves m-one, m-two; name one: RETRIEVAL_EMBEDDER=vllm:MODEL@{server.url}"
    assert str(caught.value) == message


async def test_a_refused_connection_is_tried_once() -> None:
    """A refused connection fails at once: waiting would not change it."""
    async with serving("ollama") as server:
        embedder = await new_embedder(named("ollama", server))
    assert isinstance(embedder, OpenAIEmbedder)
    before = embedder.usage
    await failed(embedder)
    assert (embedder.usage.requests - before.requests, embedder.usage.retries) == (1, 0)
    await embedder.aclose()


@pytest.mark.parametrize("name", NAMES)
async def test_a_wrong_number_of_vectors_is_refused(name: str) -> None:
    """One line says how many came for how many."""
    answer = {"cohere": b'{"embeddings": {"float": [[1.0]]}}', "ollama": b'{"embeddings": [[1.0]]}'}
    body = answer.get(name, b'{"data": [{"index": 0, "embedding": [1.0]}]}')
    async with serving(name) as server:
        embedder = await new_embedder(named(name, server))
        server.faults.append(raw(body))
        error = await failed(embedder)
        await embedder.aclose()
    assert "answered with 1 vector for 2 texts; set RETRIEVAL_EMBEDDING_MAX_TEXTS=1" in str(error)


@pytest.mark.parametrize("name", NAMES)
async def test_changed_dimensions_are_reported(name: str) -> None:
    """The endpoint serves another model under the same name."""
    async with serving(name) as server:
        settings = named(name, server)
        first = await new_embedder(settings)
        await first.aclose()
        server.dimensions, server.speaks = 48, replace(server.speaks, dimensions="none that a request names")
        again = embedder_for(first.space, settings)
        assert again is not None
        error = await failed(again)
        await again.aclose()
    assert f"answered with 48 dimensions, not {first.space.dimensions}" in str(error)


def test_a_compatible_endpoint_needs_an_address() -> None:
    """The message says where it is set."""
    settings = Settings().changed(embedder="openai-compatible:m", embedding_base_url=None, openai_base_url=None)
    with pytest.raises(ConfigurationError, match="RETRIEVAL_EMBEDDING_BASE_URL"):
        configured_embedder(settings)


def test_a_space_of_no_service_has_none() -> None:
    """It is of a model on this machine, or of the caller's own."""
    assert service_of(EmbeddingSpace(provider="minilm", model="m", dimensions=3)) is None


async def _not_found(*_: object) -> Any:
    return SPEECHES["ollama"].refusal(404, 'model "nomic-embed-text" not found, try pulling it first')


async def failed(embedder: Embedder) -> EmbedderError:
    """The error of embedding two texts: one line, without the key."""
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(["apples", "pears"], TextRole.DOCUMENT)
    assert KEY not in repr(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value
