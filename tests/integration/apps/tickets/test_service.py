"""The service with missing fields, times, and the ticket itself left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from retrieval import EmbeddingSpace, Platform, RetrievalError, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.tickets import (
    ConfigurationError,
    ProcessingError,
    RetrievalConfig,
    RetrievalRequest,
    RetrievalService,
    ticket_item,
    tickets_profile,
)
from tests.support.tickets import TICKETS


async def ids_of(service: RetrievalService, **request: object) -> list[str]:
    """The ids of the tickets found, best first."""
    answer = await service.process(RetrievalRequest.model_validate({"query_text": "database timeout", **request}))
    return [ticket.ticket_id for ticket in answer.similar_tickets]


async def test_missing_fields_of_a_ticket_are_empty_and_cost_no_search(service: RetrievalService) -> None:
    """Missing domain, priority, labels, resolution and hours are empty; an unknown priority is kept as it is."""
    tickets = (await service.process(RetrievalRequest(query_text="timeout"))).similar_tickets
    by_key = {ticket.ticket_id: ticket for ticket in tickets}
    bare = by_key["SP-2"]
    assert (bare.priority, bare.domain, bare.labels, bare.resolution) == ("", "", [], None)
    assert bare.metadata_score == pytest.approx(0.6 * 0.5 + 0.4)  # negative hours count as none
    assert by_key["SP-1"].priority == "Somewhat urgent"
    assert (by_key["SP-1"].resolution_time_hours, by_key["SP-1"].resolution_time_known) == (24.0, False)
    assert by_key["SP-1"].metadata_score == pytest.approx(0.6 * 0.5 + 0.4 * 0.76)
    assert (bare.resolution_time_hours, bare.resolution_time_known) == (-3.0, True)


async def test_a_domain_that_no_ticket_has_finds_none(service: RetrievalService) -> None:
    """It is not an error, and the figures of an empty page are 0."""
    answer = await service.process(RetrievalRequest(query_text="timeout", domain_filter="mm"))
    about = answer.search_metadata
    assert answer.similar_tickets == []
    assert (about.query_domain, about.total_found, about.index_total) == ("mm", 0, 6)
    assert (about.avg_similarity, about.top_similarity) == (0, 0)


async def test_a_domain_finds_none_where_tickets_have_no_domains_at_all(platform: Platform) -> None:
    """The answer is empty, without an error."""
    await (await platform.collection("tickets")).add([{"_id": "1", "text": "timeout"}])
    assert await ids_of(RetrievalService(platform=platform), domain_filter="MM") == []


async def test_no_domain_is_every_domain(service: RetrievalService) -> None:
    """An empty name too, as an agent gives that has not classified its ticket; spaces around a name do not count."""
    assert await ids_of(service, domain_filter=" ") == await ids_of(service)
    assert await ids_of(service, domain_filter=" MM ") == await ids_of(service, domain_filter="MM") != []


async def test_without_vectors_the_service_says_what_is_missing(database_url: str, settings: Settings) -> None:
    """The health check and the search; the statistics count the tickets."""
    async with connect(database_url, settings=settings) as platform:
        await (await platform.collection("tickets")).add(map(ticket_item, TICKETS))
        service = RetrievalService(platform=platform)
        health = await service.health_check()
        assert (health["status"], health["dimension"]) == ("unhealthy", None)
        stats = await service.get_index_stats()
        assert (stats["total_vectors"], stats["metadata_entries"]) == (0, 6)
        with pytest.raises(RetrievalError, match="made without an embedder"):
            await ids_of(service)


async def test_a_running_service_follows_its_collection(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It uses a new space of its collection, and another collection of the same name."""
    for module in ("retrieval.engine.collection_handle", "retrieval.apps.tickets.service"):
        monkeypatch.setattr(f"{module}.FRESH_SECONDS", -1.0)
    async with (
        connect(database_url, settings=settings) as wordless,
        connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform,
    ):
        await (await wordless.collection("tickets")).add(map(ticket_item, TICKETS))
        service = RetrievalService(platform=platform)
        assert (await service.health_check())["status"] == "unhealthy"
        await (await platform.collection("tickets")).add(map(ticket_item, TICKETS))
        assert len(await ids_of(service)) == len(TICKETS)
        await (await platform.collection("tickets")).add([{"_id": "without text", "priority": "High"}])
        assert (await service.health_check()).items() >= {"status": "healthy", "pending": 0}.items()
        await wordless.remove_collection("tickets")
        own = EmbeddingSpace(provider="own", model="m", dimensions=2)
        tickets = await wordless.collection("tickets", space=own)
        await tickets.add(map(ticket_item, TICKETS[:1]), embeddings=[[1.0, 0.0]])
        answer = await service.process(RetrievalRequest(query_embedding=[1.0, 0.0]))
        assert (len(answer.similar_tickets), answer.search_metadata.index_total) == (1, 1)
        health = await service.health_check()
        assert (health["status"], health["error_type"]) == ("unhealthy", "InvalidRequestError")


async def test_as_of_shows_what_existed_and_was_known_then(service: RetrievalService) -> None:
    """Later tickets are not found; for a ticket open at that time, hours and resolution are neither used nor shown."""
    moment = datetime(2024, 2, 10, 9, tzinfo=UTC)
    answer = await service.process(RetrievalRequest(query_text="timeout", as_of=moment))
    by_key = {ticket.ticket_id: ticket for ticket in answer.similar_tickets}
    assert set(by_key) == {"MM-1", "MM-2"}
    assert by_key["MM-1"].metadata_score == pytest.approx(0.6 + 0.4 * 0.9)
    assert by_key["MM-2"].metadata_score == pytest.approx(0.6 * 0.8 + 0.4 * 0.76)
    still_open = by_key["MM-2"]
    assert (still_open.resolution_time_hours, still_open.resolution_time_known) == (24.0, False)
    assert still_open.resolution is None
    assert await ids_of(service, as_of=datetime(2024, 1, 10, 8, tzinfo=UTC)) == []


@pytest.mark.parametrize("days", [None, -2, 0, 40])
async def test_the_shown_hours_are_those_that_are_scored(platform: Platform, days: float | None) -> None:
    """Also of planned resolutions, of items that are not made by ``ticket_item``, and of unreadable times."""
    now = platform.now
    tickets = await platform.collection("tickets")
    ticket = {"title": "timeout", "priority": "High", "resolution_time_hours": 90}
    created = (now - timedelta(days=1)).isoformat()
    await tickets.add([ticket_item({**ticket, "ticket_id": "planned", "created": created})])
    await tickets.add([ticket_item({**ticket, "ticket_id": "unreadable", "created": created, "resolved_at": "n/a"})])
    await tickets.add([{**ticket, "_id": "plain", "occurred_at": created}, {**ticket, "_id": "undated"}])

    as_of = None if days is None else now + timedelta(days=days)
    answer = await RetrievalService(platform=platform).process(RetrievalRequest(query_text="timeout", as_of=as_of))
    if days is None:
        assert len(answer.similar_tickets) == 4
        assert {found.resolution_time_hours for found in answer.similar_tickets} == {90}
    for found in answer.similar_tickets:
        assert found.resolution_time_known == (days is None or days == 40)
        assert found.metadata_score == pytest.approx(0.6 * 0.8 + 0.4 * (1 - found.resolution_time_hours / 100))
        score = 0.7 * found.vector_similarity + 0.3 * found.metadata_score
        assert found.similarity_score == pytest.approx(score)


def test_as_of_needs_its_zone() -> None:
    """Without a zone the time is ambiguous."""
    with pytest.raises(ValidationError, match="timezone"):
        RetrievalRequest.model_validate({"query_text": "x", "as_of": "2024-01-10T08:00:00"})


async def test_a_ticket_can_be_left_out_of_its_own_results(service: RetrievalService) -> None:
    """``exclude_self`` works together with the other exclusions; the page is filled with other tickets."""
    whole = await ids_of(service)
    assert await ids_of(service, exclude_self="MM-1") == [key for key in whole if key != "MM-1"]
    tickets = await ids_of(service, exclude_self="MM-1", exclude_ids=["SP-2", "CIW-1"], top_k=2)
    assert tickets == [key for key in whole if key not in ("MM-1", "SP-2", "CIW-1")][:2]


async def test_a_minus_or_a_quote_in_a_ticket_means_nothing(service: RetrievalService) -> None:
    """A ticket's text is not parsed as a query language."""
    assert await ids_of(service, query_text='"database" -timeout') != []


@pytest.mark.parametrize("weights", [(0.0, 0.0), (float("nan"), 0.3), (-0.5, 1.5), (float("inf"), 0)])
def test_weights_that_make_no_score_are_refused_everywhere(weights: tuple[float, float]) -> None:
    """In a request, in the configuration, and where the profile is made."""
    vector, metadata = weights
    with pytest.raises(ValidationError, match="weight"):
        RetrievalRequest(query_text="x", vector_weight=vector, metadata_weight=metadata)
    with pytest.raises(ValidationError, match="vector_weight"):
        RetrievalConfig(default_vector_weight=vector, default_metadata_weight=metadata)
    with pytest.raises(ProcessingError, match="vector_weight"):
        tickets_profile(vector, metadata)


@pytest.mark.parametrize(
    ("weights", "both"),
    [
        ({"vector_weight": 0.8}, (0.8, 0.2)),
        ({"metadata_weight": 0.5}, (0.5, 0.5)),
        ({"vector_weight": 1}, (1.0, 0.0)),
        ({"vector_weight": 0.8, "metadata_weight": 0.4}, (0.8, 0.4)),
        ({"vector_weight": 0.5, "metadata_weight": 0.0}, (0.5, 0.0)),
        ({}, (0.6, 0.4)),
    ],
)
async def test_one_weight_leaves_the_rest_to_the_other_and_two_hold(
    history: Platform, weights: dict[str, float], both: tuple[float, float]
) -> None:
    """This overrides the configuration; without weights in the request, the configuration's are completed likewise."""
    service = RetrievalService(RetrievalConfig(default_vector_weight=0.6), history)
    answer = await service.process(RetrievalRequest.model_validate({"query_text": "timeout", **weights}))
    used = answer.config_used
    assert (used["vector_weight"], used["metadata_weight"]) == both
    for ticket in answer.similar_tickets:
        score = both[0] * ticket.vector_similarity + both[1] * ticket.metadata_score
        assert ticket.similarity_score == pytest.approx(score)


def test_a_weight_of_the_environment_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text, as variables are."""
    monkeypatch.setenv("RETRIEVAL_DEFAULT_METADATA_WEIGHT", "0.1")
    assert RetrievalConfig().weights == (0.9, 0.1)


async def test_as_many_of_the_nearest_are_scored_as_are_wanted(service: RetrievalService) -> None:
    """Metadata order the nearest tickets, and bring in others only if more candidates are requested."""
    nearest = await ids_of(service, top_k=2, vector_weight=1)
    weighed = {"top_k": 2, "vector_weight": 0.1}
    assert sorted(await ids_of(service, **weighed)) == sorted(nearest)
    assert await ids_of(service, **weighed, candidates=2) == await ids_of(service, **weighed)
    whole = await ids_of(service, top_k=6, vector_weight=0.1)
    assert await ids_of(service, **weighed, candidates=6) == whole[:2]
    assert sorted(whole[:2]) != sorted(nearest)


async def test_fewer_candidates_than_results_are_refused(service: RetrievalService, history: Platform) -> None:
    """Both in a request and relative to the configuration's number of results; the message names the remedy."""
    with pytest.raises(ProcessingError, match=r"candidates is 3 and top_k 5: .*; give at least 5"):
        await ids_of(service, top_k=5, candidates=3)
    with pytest.raises(ProcessingError, match="give at least 20"):
        await ids_of(service, candidates=3)
    assert len(await ids_of(RetrievalService(RetrievalConfig(default_top_k=3), history), candidates=3)) == 3
    with pytest.raises(ProcessingError, match="give at least 5"):
        await service.preview_search("x", config={"top_k": 5, "candidates": 3})


async def test_dimensions_that_are_configured_must_be_the_collections(history: Platform) -> None:
    """The default of 3072 refuses nothing, because it was not set explicitly."""
    assert await ids_of(RetrievalService(RetrievalConfig(), history)) != []
    with pytest.raises(ConfigurationError, match="256 dimensions and 3072 are configured"):
        await ids_of(RetrievalService(RetrievalConfig(embedding_dimensions=3072), history))


async def test_a_service_leaves_the_platform_open_that_it_was_given(service: RetrievalService) -> None:
    """It is the caller's to close."""
    async with service:
        pass
    assert await ids_of(service) != []


async def test_a_search_is_recorded(service: RetrievalService, history: Platform) -> None:
    """The record is like that of every search; learned rewards do not change the formula."""
    await ids_of(service, domain_filter="MM")
    await history.recorded()
    assert history.recording.recorded == 1
    assert tickets_profile().learned.is_off


async def test_invalid_requests_are_refused() -> None:
    """In one line, before any platform is opened."""
    service = RetrievalService()
    for request in (None, "x", {"query_text": "x"}):
        with pytest.raises(ProcessingError, match="takes a RetrievalRequest"):
            await service.process(request)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="PreviewConfig"):
        await service.preview_search("x", config=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [{"topk": 5}, {"domain": "MM"}, {"as_of": "2024"}, {"as_of": "1.5e9"}, {"as_of": 2024}]
)
def test_a_request_with_an_unknown_name_or_a_number_for_a_time_is_refused(
    fields: dict[str, object],
) -> None:
    """A slip of the pen would search everything, and a year would be a second of 1970."""
    with pytest.raises(ValidationError):
        RetrievalRequest.model_validate({"query_text": "timeout", **fields})
    assert RetrievalRequest.model_validate({"query_text": "t", "as_of": "2024-01-01T00:00Z"}).as_of is not None
