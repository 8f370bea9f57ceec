"""Similar tickets, previews and figures of tickets, for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from retrieval.apps.tickets import RetrievalResponse, SearchPreview, SimilarTicket
from retrieval.surfaces.cli.output import console, count, plain, print_json


def show(found: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print it as JSON, or the lines."""
    if as_json:
        print_json(found)
        return
    for line in lines:
        console().print(plain(line), soft_wrap=True)


def found_lines(found: RetrievalResponse) -> Iterator[str]:
    """Two lines a ticket, and one on how they were found."""
    for rank, ticket in enumerate(found.similar_tickets, 1):
        yield f"{rank:>2}. {ticket.similarity_score:.4f}  {ticket.ticket_id}  {ticket.title}"
        yield f"    {_parts(ticket)}"
    used = found.config_used
    weights = f"similarity {used['vector_weight']:g}, metadata {used['metadata_weight']:g}"
    yield f"{count(found.search_metadata.total_found, 'ticket')} of {found.search_metadata.index_total:,} · {weights}"


def preview_lines(found: SearchPreview) -> Iterator[str]:
    """Each weighting's summary, then its tickets and those that went out."""
    for one in found.previews:
        yield one.summary
        for moved in one.tickets:
            yield f"  {moved.rank:>2}. {moved.ticket.ticket_id}  {moved.ticket.title}  ({moved.why})"
        for gone in one.left:
            yield f"   –  {gone.ticket.ticket_id}  {gone.ticket.title}  ({gone.why})"


def fact_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """A line a fact; those of a mapping below its name."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {inner}: {number}" for inner, number in value.items())
        else:
            yield f"{name}: {value}"


def _parts(ticket: SimilarTicket) -> str:
    """``similarity 0.920, metadata 0.760 (High, 4.5 h, MM)``."""
    hours = f"{ticket.resolution_time_hours:g} h" if ticket.resolution_time_known else ""
    known = ", ".join(part for part in (ticket.priority, hours, ticket.domain) if part)
    scores = f"similarity {ticket.vector_similarity:.3f}, metadata {ticket.metadata_score:.3f}"
    return f"{scores} ({known})" if known else scores
