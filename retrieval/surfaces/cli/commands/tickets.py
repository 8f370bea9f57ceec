"""``retrieval tickets``: similar tickets, previews and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from retrieval.domain.checks import refusal_of
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.errors import FAILED
from retrieval.surfaces.cli.options import argument, command, group, option, vector_file
from retrieval.surfaces.cli.output import field_rows, print_answer, table
from retrieval.surfaces.cli.run import Wait, opened
from retrieval.surfaces.since import moment_of

if TYPE_CHECKING:
    from retrieval.apps.tickets import RetrievalResponse, RetrievalService, SearchPreview


def response_lines(response: RetrievalResponse) -> Iterator[str]:
    """Two lines for each ticket, and one on the search."""
    for rank, ticket in enumerate(response.similar_tickets, 1):
        yield f"{rank:>2}. {ticket.similarity_score:.4f}  {ticket.ticket_id}  {ticket.title}"
        hours = f"{ticket.resolution_time_hours:g} h" if ticket.resolution_time_known else ""
        known = ", ".join(part for part in (ticket.priority, hours, ticket.domain) if part)
        scores = f"similarity {ticket.vector_similarity:.3f}, metadata {ticket.metadata_score:.3f}"
        yield f"    {scores} ({known})" if known else f"    {scores}"
    used = response.config_used
    weights = f"similarity {used['vector_weight']:g}, metadata {used['metadata_weight']:g}"
    totals = response.search_metadata
    yield f"{several(totals.total_found, 'ticket')} of {totals.index_total:,} · {weights}"


def preview_lines(previews: SearchPreview) -> Iterator[str]:
    """The summary of each weighting, its tickets, and the tickets that left."""
    for weighting in previews.previews:
        yield weighting.summary
        for entry in weighting.tickets:
            yield f"  {entry.rank:>2}. {entry.ticket.ticket_id}  {entry.ticket.title}  ({entry.why})"
        for entry in weighting.left:
            yield f"   –  {entry.ticket.ticket_id}  {entry.ticket.title}  ({entry.why})"


T = TypeVar("T")


_WHERE = "Where the tickets are; else RETRIEVAL_TICKETS_COLLECTION, else 'tickets'."
CollectionOption = Annotated[str | None, option("NAME", _WHERE, "--collection")]
Description = Annotated[str | None, option("TEXT", "The ticket's text below its title.", "--description", "-d")]
Domain = Annotated[str | None, option("NAME", "Only tickets of this domain.", "--domain")]
TopK = Annotated[int | None, option("N", "Tickets wanted, 1 to 100; else 20.", "--top-k", "-n")]
Candidates = Annotated[
    int | None, option("N", "The nearest tickets to score, --top-k to 1000; else --top-k.", "--candidates")
]
VectorWeight = Annotated[
    float | None,
    option("W", "The weight of similarity, 0 to 1; of one weight alone, the other is 1 - W.", "--vector-weight"),
]
MetadataWeight = Annotated[
    float | None,
    option("W", "The weight of priority and time, 0 to 1; two weights are used as given.", "--metadata-weight"),
]
_PRESETS = "semantic_match, balanced, priority_focused or fast_resolution"
PriorityWeight = Annotated[
    list[str] | None, option("NAME=W", "The value of a priority: High=0.9. Repeated: several.", "--priority-weight")
]
Hours = Annotated[
    float | None, option("H", "The resolution time in hours from which it scores 0.", "--time-normalization-hours")
]
AsOf = Annotated[str | None, option("TIME", "Search as at that time: 2026-03-01T12:00:00Z.", "--as-of")]
Exclude = Annotated[list[str] | None, option("ID", "A ticket to leave out. Repeated: several.", "--exclude")]

app = typer.Typer()
tickets = group(
    app,
    "tickets",
    "Find tickets like a new one, by meaning, priority and how soon they were resolved.",
    "retrieval tickets search 'Connection timeout' --preset semantic_match --exclude-self MM-9",
    "retrieval tickets preview 'Connection timeout' --domain MM",
)


@command(
    tickets,
    "retrieval tickets search 'Connection timeout' --description 'At peak hours' --domain MM --top-k 5",
    "retrieval tickets search 'Connection timeout' --preset semantic_match --exclude-self MM-9",
)
def search(
    *,
    title: Annotated[str | None, argument("TITLE", "The new ticket's title.")] = None,
    description: Description = None,
    query_text: Annotated[str | None, option("TEXT", "Words to search for, instead of a ticket.")] = None,
    query_embedding: Annotated[str | None, option("FILE", "A vector instead of the words: a JSON list.")] = None,
    domain_filter: Domain = None,
    top_k: TopK = None,
    candidates: Candidates = None,
    preset: Annotated[str | None, option("NAME", f"Weights by name: {_PRESETS}.")] = None,
    vector_weight: VectorWeight = None,
    metadata_weight: MetadataWeight = None,
    priority_weights: PriorityWeight = None,
    time_normalization_hours: Hours = None,
    as_of: AsOf = None,
    exclude_ids: Exclude = None,
    exclude_self: Annotated[str | None, option("ID", "The ticket itself, where it is stored.")] = None,
    collection: CollectionOption = None,
) -> None:
    """Find the tickets most similar to a new one."""
    from retrieval.apps.tickets import RetrievalRequest

    request = _validate(
        RetrievalRequest, title=title, description=description, query_text=query_text,
        query_embedding=vector_file("--query-embedding", query_embedding), domain_filter=domain_filter, top_k=top_k,
        candidates=candidates, preset=preset, vector_weight=vector_weight, metadata_weight=metadata_weight,
        priority_weights=_weights_of(priority_weights or ()), time_normalization_hours=time_normalization_hours,
        as_of=moment_of("--as-of", as_of), exclude_ids=exclude_ids, exclude_self=exclude_self,
    )  # fmt: skip
    if request.query_embedding is None and not request.text:
        raise typer.BadParameter("give it, --description, --query-text or --query-embedding", param_hint="TITLE")
    with _opened_service(collection) as (service, wait):
        response = wait(service.process(request))
    print_answer(response.model_dump(mode="json"), response_lines(response))


@command(
    tickets,
    "retrieval tickets preview 'Connection timeout' --domain MM",
    "retrieval tickets preview 'Connection timeout' --vector-weight 0.6 --metadata-weight 0.4",
)
def preview(
    *,
    title: Annotated[str, argument("TITLE", "The new ticket's title.")],
    description: Description = None,
    domain: Domain = None,
    top_k: TopK = None,
    candidates: Candidates = None,
    weightings: Annotated[
        list[str] | None, option("NAME", f"{_PRESETS}. Repeated: several; else all.", "--preset")
    ] = None,
    vector_weight: VectorWeight = None,
    metadata_weight: MetadataWeight = None,
    priority_weights: PriorityWeight = None,
    time_normalization_hours: Hours = None,
    as_of: AsOf = None,
    exclude_ids: Exclude = None,
    collection: CollectionOption = None,
) -> None:
    """Rank the same tickets under several weightings; show which move, and why.

    Nothing is recorded and nothing is changed.
    """
    from retrieval.apps.tickets import PreviewConfig

    config = _validate(
        PreviewConfig, top_k=top_k, candidates=candidates, weightings=weightings, vector_weight=vector_weight,
        metadata_weight=metadata_weight, priority_weights=_weights_of(priority_weights or ()),
        time_normalization_hours=time_normalization_hours, as_of=moment_of("--as-of", as_of), exclude_ids=exclude_ids,
    )  # fmt: skip
    with _opened_service(collection) as (service, wait):
        previews = wait(service.preview_search(title, description or "", domain, config))
    print_answer(previews.model_dump(mode="json"), preview_lines(previews))


@command(tickets, "retrieval tickets stats")
def stats(*, collection: CollectionOption = None) -> None:
    """Count the vectors, and the tickets of each domain."""
    with _opened_service(collection) as (service, wait):
        facts = wait(service.get_index_stats())
    print_answer(facts, table(["", ""], field_rows(facts)))


@command(tickets, "retrieval tickets health")
def health(*, collection: CollectionOption = None) -> None:
    """Check whether tickets can be found; the exit code is 1 if they cannot."""
    with _opened_service(collection) as (service, wait):
        facts = wait(service.health_check())
    print_answer(facts, table(["", ""], field_rows(facts)))
    if facts["status"] != "healthy":
        raise typer.Exit(FAILED)


def _weights_of(pairs: Sequence[str]) -> dict[str, float] | None:
    """Weights by priority, from ``High=0.9`` and the like; None without any. Raises ``InvalidRequestError``."""
    weights: dict[str, float] = {}
    for pair in pairs:
        name, _, weight = (part.strip() for part in pair.partition("="))
        try:
            weights[name] = float(weight)
        except ValueError:
            name = ""
        if not name:
            raise InvalidRequestError(f"cannot read --priority-weight {pair!r}: write NAME=W, such as High=0.9")
    return weights or None


def _validate(model: Callable[..., T], **options: object) -> T:
    """The pydantic model of the command's options. Raises ``InvalidRequestError``, which names the field."""
    from pydantic import ValidationError

    try:
        return model(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequestError(": ".join([*map(str, first["loc"]), refusal_of(first)])) from None


@contextmanager
def _opened_service(collection: str | None) -> Iterator[tuple[RetrievalService, Wait]]:
    """The service on the platform, for the collection or the configured one."""
    from retrieval.apps.tickets import RetrievalConfig, RetrievalService

    overrides: dict[str, Any] = {} if collection is None else {"collection": collection}
    config = RetrievalConfig(**overrides)
    with opened() as (platform, wait):
        yield RetrievalService(config, platform), wait
