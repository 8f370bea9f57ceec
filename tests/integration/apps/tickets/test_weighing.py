"""Previews: one search, several weightings, what moved and why."""

from __future__ import annotations

import pytest

from retrieval import Platform
from retrieval.apps.tickets import (
    PRESETS,
    PreviewConfig,
    PriorityWeights,
    RetrievalRequest,
    RetrievalService,
    SearchPreview,
)

TITLE, DESCRIPTION = "Database timeout", "The connection to the database times out."


async def preview_of(service: RetrievalService, config: object = None, domain: str | None = None) -> SearchPreview:
    """A preview of the same question."""
    return await service.preview_search(TITLE, DESCRIPTION, domain, config)  # type: ignore[arg-type]


@pytest.mark.parametrize("candidates", [None, 6])
async def test_each_ranking_is_what_the_service_would_answer(service: RetrievalService, candidates: int | None) -> None:
    """The four presets, the default first, rank the same candidates; tickets and scores are those of ``process``."""
    comparison = await preview_of(service, {"top_k": 4, "candidates": candidates})
    assert (comparison.baseline, comparison.candidates) == ("balanced", candidates or 4)
    assert {preview.weighting.name for preview in comparison.previews} == set(PRESETS)
    for preview in comparison.previews:
        request = RetrievalRequest(
            title=TITLE, description=DESCRIPTION, preset=preview.weighting.name, top_k=4, candidates=candidates
        )
        tickets = (await service.process(request)).similar_tickets
        assert [ticket.ticket.ticket_id for ticket in preview.tickets] == [ticket.ticket_id for ticket in tickets]
        for previewed_ticket, ticket in zip(preview.tickets, tickets, strict=True):
            assert previewed_ticket.ticket.similarity_score == pytest.approx(ticket.similarity_score)


async def test_contributions_and_changes_add_up(service: RetrievalService) -> None:
    """A contribution for each signal, whose sum is the score; changes against the first weighting; ranks both."""
    preview = await preview_of(service, ["semantic_match", "priority_focused"])
    first, second = preview.previews
    before = {ticket.ticket.ticket_id: ticket for ticket in first.tickets}
    assert any(ticket.moved for ticket in second.tickets)
    for ticket in second.tickets:
        earlier = before[ticket.ticket.ticket_id]
        assert sum(ticket.contributions.values()) == pytest.approx(ticket.ticket.similarity_score)
        assert (ticket.rank_before, ticket.moved) == (earlier.rank, earlier.rank - ticket.rank)
        for name, change in ticket.changes.items():
            assert change == pytest.approx(ticket.contributions[name] - earlier.contributions[name])
    for name in ("vector_similarity", "priority", "resolution_time"):
        assert sum(ticket.against_others[name] for ticket in second.tickets) == pytest.approx(0)
    assert all(ticket.moved == 0 and ticket.why == f"stays at {ticket.rank}" for ticket in first.tickets)


async def test_why_names_what_moved_it(service: RetrievalService) -> None:
    """If metadata count, an urgent, soon resolved ticket replaces another one, and ``why`` explains the change."""
    weightings = [
        {"name": "words", "vector_weight": 1, "metadata_weight": 0},
        {"name": "metadata", "vector_weight": 0.3, "metadata_weight": 0.7},
    ]
    preview = await preview_of(service, {"weightings": weightings, "top_k": 2, "candidates": 6})
    words, metadata = preview.previews
    assert [ticket.ticket.ticket_id for ticket in words.tickets] == ["SP-2", "MM-1"]
    assert [ticket.ticket.ticket_id for ticket in metadata.tickets] == ["MM-1", "MM-2"]
    came, (went,) = metadata.tickets[1], metadata.left
    assert (metadata.entered, came.rank_before, came.moved) == (["MM-2"], 4, 2)
    assert (went.ticket.ticket_id, went.rank, went.moved) == ("SP-2", 3, -2)
    assert min(came.against_others["priority"], came.against_others["resolution_time"]) > 0
    assert "priority adds 0.336 (+0.336; on average " in came.why
    assert went.why.startswith("down 2, from 1 to 3: priority adds 0.210 (+0.210; on average ")
    assert metadata.summary.endswith("2 of 2 moved, 1 entered and 1 left")


async def test_the_weights_of_a_search_configuration_are_held_against_the_services_own(
    service: RetrievalService,
) -> None:
    """As an agent's configuration names them; priorities and hours may be its own too."""
    comparison = await preview_of(service, {"top_k": 3, "vector_weight": 0.5, "metadata_weight": 0.5})
    assert [preview.weighting.name for preview in comparison.previews] == ["balanced", "custom"]
    custom = (await preview_of(service, PreviewConfig(priority_weights=PriorityWeights(Critical=0.0)))).previews[1]
    first, second = custom.tickets[:2]
    assert (first.ticket.ticket_id, second.ticket.ticket_id) == ("SP-2", "MM-1")
    assert second.changes == pytest.approx({"vector_similarity": 0, "priority": -0.18, "resolution_time": 0})
    assert second.why == "down 1, from 1 to 2: priority adds 0.000 (-0.180; on average -0.030)"


async def test_a_preview_is_one_search_and_not_recorded(service: RetrievalService, history: Platform) -> None:
    """A preview leads to no action, so nothing can be learned from it; its domain is the filter."""
    preview = await preview_of(service, domain="MM")
    assert (preview.domain, preview.candidates) == ("MM", 2)
    await history.recorded()
    assert history.recording.recorded == 0


async def test_a_preview_of_nothing_is_empty(service: RetrievalService) -> None:
    """Each weighting has an empty page."""
    comparison = await preview_of(service, domain="nowhere")
    assert [preview.tickets for preview in comparison.previews] == [[]] * 4
