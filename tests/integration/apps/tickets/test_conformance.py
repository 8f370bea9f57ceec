"""The tickets' design, gone through section by section: names, defaults, formulas, behaviour."""

from __future__ import annotations

import asyncio
import inspect
import math

import numpy as np
import pytest
from pydantic import ValidationError

from retrieval import EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.tickets import (
    PRESETS,
    ConfigurationError,
    PriorityWeights,
    ProcessingError,
    RetrievalConfig,
    RetrievalRequest,
    RetrievalResponse,
    RetrievalService,
    SearchMetadata,
    SimilarTicket,
    ticket_item,
)
from retrieval.domain.errors import InvalidVectorError, WrongDimensionError
from retrieval.domain.items.embedding import TextRole
from tests.support.tickets import TICKETS

WORTH = {"MM-1": 1.0, "MM-2": 0.8, "CIW-1": 0.3, "CIW-2": 0.5, "SP-1": 0.5, "SP-2": 0.5}
HOURS = {"MM-1": 10.0, "MM-2": 4.5, "CIW-1": 250.0, "CIW-2": 1.0, "SP-1": None, "SP-2": -3.0}


async def cosines(query: str) -> dict[str, float]:
    """The similarity of each ticket with a text, by the embedder itself."""
    embedder = HashingEmbedder()
    texts = [ticket_item(ticket).indexed_text for ticket in TICKETS]
    documents = await embedder.embed(texts, TextRole.DOCUMENT)
    (query_vector,) = await embedder.embed([query], TextRole.QUERY)
    similarities = np.asarray(documents, dtype=np.float64) @ np.asarray(query_vector, dtype=np.float64)
    return {str(ticket["ticket_id"]): float(value) for ticket, value in zip(TICKETS, similarities, strict=True)}


def time_score(hours: float | None, normalization: float = 100.0) -> float:
    """max(0, 1 - hours / normalization), at most 1; hours that are not known are 24."""
    return min(1.0, max(0.0, 1 - (24.0 if hours is None else hours) / normalization))


# Search pipeline


async def test_title_and_description_become_one_text_like_those_that_are_stored(service: RetrievalService) -> None:
    """A stored ticket's own title and description are the same text, with similarity 1."""
    ticket = TICKETS[0]
    request = RetrievalRequest(title=ticket["title"], description=ticket["description"])
    first = (await service.process(request)).similar_tickets[0]
    assert first.ticket_id == "MM-1"
    assert first.vector_similarity == pytest.approx(1, abs=1e-3)


async def test_the_three_ways_to_ask_find_the_same(service: RetrievalService) -> None:
    """By a text, by title and description, by an embedding of the caller's."""
    text = "Database connection timeout\nduring peak hours"
    (embedding,) = await HashingEmbedder().embed([text], TextRole.QUERY)
    requests = (
        RetrievalRequest(query_text=text),
        RetrievalRequest(title="Database connection timeout", description="during peak hours"),
        RetrievalRequest(query_embedding=embedding.tolist()),
    )
    answers = [(await service.process(request)).similar_tickets for request in requests]
    assert answers[0] == answers[1] == answers[2] != []


# Hybrid scoring formula


async def test_the_hybrid_score_is_the_formula(service: RetrievalService) -> None:
    """.7 × similarity + .3 × (.6 × priority + .4 × time), each part as it is defined; sorted by it."""
    tickets = (await service.process(RetrievalRequest(query_text="database timeout"))).similar_tickets
    similar = await cosines("database timeout")
    assert {ticket.ticket_id for ticket in tickets} == set(WORTH)
    for ticket in tickets:
        metadata = 0.6 * WORTH[ticket.ticket_id] + 0.4 * time_score(HOURS[ticket.ticket_id])
        assert ticket.vector_similarity == pytest.approx(max(0, similar[ticket.ticket_id]), abs=1e-3)
        assert ticket.metadata_score == pytest.approx(metadata)
        assert ticket.similarity_score == pytest.approx(0.7 * ticket.vector_similarity + 0.3 * metadata)
    scores = [ticket.similarity_score for ticket in tickets]
    assert scores == sorted(scores, reverse=True)


async def test_weights_priorities_and_hours_are_the_requests(service: RetrievalService) -> None:
    """Each request may set all of them."""
    request = RetrievalRequest(
        query_text="database timeout",
        vector_weight=0.2,
        metadata_weight=0.8,
        priority_weights=PriorityWeights.model_validate({"Critical": 0.1, "Low": 0.9, "Somewhat urgent": 0.7}),
        time_normalization_hours=500,
    )
    tickets = {ticket.ticket_id: ticket for ticket in (await service.process(request)).similar_tickets}
    worth = {**WORTH, "MM-1": 0.1, "CIW-1": 0.9, "SP-1": 0.7}
    for key, ticket in tickets.items():
        metadata = 0.6 * worth[key] + 0.4 * time_score(HOURS[key], 500)
        assert ticket.similarity_score == pytest.approx(0.2 * ticket.vector_similarity + 0.8 * metadata)


async def test_a_weight_may_be_nothing(service: RetrievalService) -> None:
    """The score is the other part alone, and the answer has both."""
    similar = await cosines("database timeout")
    for vector, metadata in ((1, 0), (0, 1)):
        request = RetrievalRequest(query_text="database timeout", vector_weight=vector, metadata_weight=metadata)
        tickets = (await service.process(request)).similar_tickets
        assert len(tickets) == 6
        for ticket in tickets:
            part = ticket.vector_similarity if vector else ticket.metadata_score
            assert ticket.similarity_score == pytest.approx(part)
            assert ticket.vector_similarity == pytest.approx(max(0, similar[ticket.ticket_id]), abs=1e-3)
            assert ticket.metadata_score > 0


# Models


def test_priority_weights_have_their_defaults() -> None:
    """Critical, High, Medium, Low."""
    assert PriorityWeights().model_dump() == {"Critical": 1.0, "High": 0.8, "Medium": 0.5, "Low": 0.3}


def test_a_similar_ticket_has_the_designs_fields() -> None:
    """In their order; and whether the hours are known."""
    assert list(SimilarTicket.model_fields) == [
        "ticket_id", "title", "description", "similarity_score", "vector_similarity", "metadata_score", "priority",
        "labels", "resolution_time_hours", "domain", "resolution", "resolution_time_known",
    ]  # fmt: skip


def test_the_resolution_time_is_a_number_in_every_schema_of_the_answer() -> None:
    """A client with the design's types reads every answer; new information has its own field."""
    schema = SimilarTicket.model_json_schema(mode="serialization")["properties"]
    assert (schema["resolution_time_hours"]["type"], schema["resolution_time_known"]["type"]) == ("number", "boolean")


def test_a_request_has_the_designs_fields_and_defaults() -> None:
    """It also has optional fields."""
    defaults = RetrievalRequest().model_dump()
    assert (
        defaults.items()
        >= {
            "query_text": None,
            "query_embedding": None,
            "title": None,
            "description": None,
            "top_k": 20,
            "domain_filter": None,
            "vector_weight": 0.7,
            "metadata_weight": 0.3,
            "priority_weights": None,
            "time_normalization_hours": 100.0,
        }.items()
    )


@pytest.mark.parametrize("top_k", [0, 101, -1])
def test_top_k_is_1_to_100(top_k: int) -> None:
    """Both ends are in."""
    assert [RetrievalRequest(top_k=end).top_k for end in (1, 100)] == [1, 100]
    with pytest.raises(ValidationError, match="top_k"):
        RetrievalRequest(top_k=top_k)


def test_the_answer_has_the_designs_fields() -> None:
    """The response and its search metadata."""
    assert list(RetrievalResponse.model_fields) == ["similar_tickets", "search_metadata", "config_used"]
    assert list(SearchMetadata.model_fields) == [
        "query_domain", "total_found", "avg_similarity", "top_similarity", "index_total",
    ]  # fmt: skip


# Tools and service


async def test_the_index_has_its_figures(service: RetrievalService) -> None:
    """Vectors, dimension, tickets by domain, entries; archived tickets are none of them."""
    assert await service.get_index_stats() == {
        "total_vectors": 6,
        "dimension": 256,
        "domain_distribution": {"CIW": 2, "MM": 2, "": 1, "Specialty": 1},
        "metadata_entries": 6,
    }


async def test_a_health_check_never_raises(service: RetrievalService, history: Platform) -> None:
    """It is healthy with an index, and says why where it is not."""
    assert (await service.health_check()).items() >= {"status": "healthy", "total_vectors": 6}.items()
    nowhere = RetrievalService(RetrievalConfig(collection="none"), history)
    health = await nowhere.health_check()
    assert health["status"] == "unhealthy"
    assert "retrieval ingest none historical_tickets.csv" in health["error"]


def test_the_configuration_has_its_defaults_and_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """RETRIEVAL_<NAME>; the paths of a FAISS index are ignored."""
    monkeypatch.setenv("RETRIEVAL_FAISS_INDEX_PATH", "data/faiss_index/tickets.index")
    config = RetrievalConfig()
    assert config.model_dump() == {
        "collection": "tickets",
        "default_top_k": 20,
        "default_vector_weight": 0.7,
        "default_metadata_weight": 0.3,
        "default_time_normalization_hours": 100.0,
        "embedding_dimensions": 3072,
    }
    monkeypatch.setenv("RETRIEVAL_DEFAULT_TOP_K", "5")
    monkeypatch.setenv("RETRIEVAL_TICKETS_COLLECTION", "history")
    assert (RetrievalConfig().default_top_k, RetrievalConfig().collection) == (5, "history")


async def test_a_request_that_does_not_say_takes_the_configurations_values(history: Platform) -> None:
    """Top k, weights and hours come from the configuration; values of the request take precedence."""
    config = RetrievalConfig(
        default_top_k=2,
        default_vector_weight=0.4,
        default_metadata_weight=0.6,
        default_time_normalization_hours=20,
    )
    service = RetrievalService(config, history)
    response = await service.process(RetrievalRequest(query_text="connection timeout"))
    weights = {"vector_weight": 0.4, "metadata_weight": 0.6}
    assert response.config_used == {"top_k": 2, "domain_filter": None, **weights, "time_normalization_hours": 20.0}
    by_key = {ticket.ticket_id: ticket for ticket in response.similar_tickets}
    assert len(by_key) == 2
    assert by_key["MM-1"].metadata_score == pytest.approx(0.6 + 0.4 * 0.5)
    full = RetrievalRequest(query_text="x", top_k=3, vector_weight=0.9, metadata_weight=0.1)
    assert (await service.process(full)).config_used["vector_weight"] == 0.9


def test_process_health_check_and_stats_are_awaited() -> None:
    """The statistics too: they are counted in the database."""
    names = ("process", "health_check", "get_index_stats", "preview_search")
    assert all(inspect.iscoroutinefunction(getattr(RetrievalService, name)) for name in names)


# Example request and response


async def test_the_designs_example_is_answered_in_its_form(service: RetrievalService) -> None:
    """The JSON of the response has every key of the example, and the parameters that were passed."""
    request = RetrievalRequest.model_validate_json(
        '{"title": "Database connection timeout", "description": "Users experiencing timeouts during peak hours",'
        ' "domain_filter": "MM", "top_k": 10, "vector_weight": 0.8, "metadata_weight": 0.2}'
    )
    answer = (await service.process(request)).model_dump(mode="json")
    assert answer["config_used"] == {
        "top_k": 10,
        "domain_filter": "MM",
        "vector_weight": 0.8,
        "metadata_weight": 0.2,
    }
    first, second = answer["similar_tickets"]
    assert (first["ticket_id"], second["ticket_id"]) == ("MM-1", "MM-2")
    assert second["labels"] == ["#MM_ALDER"]
    assert (second["resolution_time_hours"], second["resolution"]) == (4.5, "Closed leaked connections")
    scores = [first["similarity_score"], second["similarity_score"]]
    assert answer["search_metadata"] == {
        "query_domain": "MM",
        "total_found": 2,
        "avg_similarity": pytest.approx(sum(scores) / 2),
        "top_similarity": scores[0],
        "index_total": 6,
    }


# FAISS index details


async def test_3072_dimensions_are_searched_exactly(database_url: str, settings: Settings) -> None:
    """Given embeddings of that length are stored, found in the order of their cosine, and told in the statistics."""
    random = np.random.default_rng(7)
    vectors = random.standard_normal((40, 3072))
    vector = random.standard_normal(3072)
    cosine = vectors @ vector / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vector)
    space = EmbeddingSpace(provider="given", model="text-embedding-3-large", dimensions=3072)
    async with connect(database_url, settings=settings) as platform:
        collection = await platform.collection("tickets", space=space)
        await collection.add([{"_id": f"T{number:02}"} for number in range(40)], embeddings=vectors)
        service = RetrievalService(platform=platform)
        request = RetrievalRequest(query_embedding=vector.tolist(), top_k=5, vector_weight=1, metadata_weight=0)
        ticket_ids = [ticket.ticket_id for ticket in (await service.process(request)).similar_tickets]
        assert ticket_ids == [f"T{number:02}" for number in np.argsort(-cosine)[:5]]
        assert (await service.get_index_stats())["dimension"] == 3072


# Domain filtering


async def test_a_domain_of_two_percent_fills_its_page(database_url: str, settings: Settings) -> None:
    """The filter is part of the search: 10 of 500 tickets are in the domain, far from the question, and all found."""
    random = np.random.default_rng(7)
    vectors = random.standard_normal((500, 64))
    vectors[:490] += 3  # the query's nearest tickets are in the other domain
    space = EmbeddingSpace(provider="given", model="numbers", dimensions=64)
    async with connect(database_url, settings=settings) as platform:
        collection = await platform.collection("tickets", space=space, filterable={"domain": "text"})
        records = [{"_id": str(number), "domain": "MM" if number >= 490 else "CIW"} for number in range(500)]
        await collection.add(records, embeddings=vectors)
        request = RetrievalRequest(query_embedding=[1.0] * 64, domain_filter="MM", top_k=10)
        response = await RetrievalService(platform=platform).process(request)
        assert sorted(ticket.ticket_id for ticket in response.similar_tickets) == [str(n) for n in range(490, 500)]
        assert {ticket.domain for ticket in response.similar_tickets} == {"MM"}
        assert response.search_metadata.index_total == 500


# Error handling


async def test_a_missing_query_gets_the_message_of_the_design(service: RetrievalService) -> None:
    """Also where the texts are blank."""
    for request in (RetrievalRequest(), RetrievalRequest(query_text=" ", title="", description="\n")):
        with pytest.raises(ProcessingError) as raised:
            await service.process(request)
        assert str(raised.value) == "Either query_embedding, query_text, or title/description required"


async def test_without_the_collection_the_error_says_how_to_make_it(platform: Platform) -> None:
    """``retrieval ingest`` replaces the script that built the index; after it the service answers."""
    service = RetrievalService(platform=platform)
    with pytest.raises(ConfigurationError, match="retrieval ingest tickets historical_tickets"):
        await service.process(RetrievalRequest(query_text="timeout"))
    await (await platform.collection("tickets")).add(map(ticket_item, TICKETS))
    assert (await service.process(RetrievalRequest(query_text="timeout"))).similar_tickets


async def test_an_embedding_that_does_not_fit_is_refused(service: RetrievalService) -> None:
    """Another length is refused with the required length; an empty list and non-numbers are refused too."""
    with pytest.raises(WrongDimensionError, match="256"):
        await service.process(RetrievalRequest(query_embedding=[1.0] * 3072))
    for embedding in ([], [math.nan] * 256):
        with pytest.raises(InvalidVectorError):
            await service.process(RetrievalRequest(query_embedding=embedding))


# Tuning hybrid scoring


def test_the_four_presets_are_the_designs_table() -> None:
    """By name, each with its two weights."""
    assert {name: tuple(weights) for name, weights in PRESETS.items()} == {
        "semantic_match": (0.9, 0.1),
        "balanced": (0.7, 0.3),
        "priority_focused": (0.5, 0.5),
        "fast_resolution": (0.6, 0.4),
    }


# Lazy loading


async def test_a_service_without_a_platform_opens_one_when_it_is_first_used(
    database_url: str, history_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the environment's settings, once for concurrent requests, closed at the end; making it opens nothing."""
    tenant = history_settings.tenant
    for name, value in (("DATABASE_URL", database_url), ("TENANT", tenant), ("EMBEDDER", "hashing")):
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    async with RetrievalService() as service:
        request = RetrievalRequest(query_text="login failure")
        answers = await asyncio.gather(service.process(request), service.process(request))
        assert [answer.similar_tickets[0].ticket_id for answer in answers] == ["CIW-2"] * 2


# Rebuilding the index: see tests/acceptance/test_cli_ingest_and_search.py
