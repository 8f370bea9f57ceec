"""``retrieval tickets``: similar tickets, previews and figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from retrieval.domain.checks import refusal_of
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.errors import FAILED, typed_name
from retrieval.surfaces.cli.options import Json, collection_option, examples
from retrieval.surfaces.cli.output import cell_text, plain_name
from retrieval.surfaces.cli.run import answer
from retrieval.surfaces.cli.search_options import moment_of, vector_of

if TYPE_CHECKING:
    from pydantic import BaseModel

    from retrieval.apps.tickets import RetrievalResponse, RetrievalService, SearchPreview, SimilarTicket
    from retrieval.platform import Platform


def response_lines(response: RetrievalResponse) -> Iterator[str]:
    """Two lines for each ticket, and one on the search."""
    for rank, ticket in enumerate(response.similar_tickets, 1):
        yield f"{rank:>2}. {ticket.similarity_score:.4f}  {ticket.ticket_id}  {ticket.title}"
        yield f"    {_parts(ticket)}"
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


def fact_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """A line for each fact; the facts of a mapping follow its name, indented."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield f"{plain_name(name)}:"
            yield from (f"  {inner or 'none'}: {cell_text(number)}" for inner, number in value.items())
        else:
            yield f"{plain_name(name)}: {cell_text(value)}"


def _parts(ticket: SimilarTicket) -> str:
    """``similarity 0.920, metadata 0.760 (High, 4.5 h, MM)``."""
    hours = f"{ticket.resolution_time_hours:g} h" if ticket.resolution_time_known else ""
    known = ", ".join(part for part in (ticket.priority, hours, ticket.domain) if part)
    scores = f"similarity {ticket.vector_similarity:.3f}, metadata {ticket.metadata_score:.3f}"
    return f"{scores} ({known})" if known else scores


T = TypeVar("T")

SEARCH = (
    "retrieval tickets search 'Connection timeout' --description 'At peak hours' --domain MM --top-k 5",
    "retrieval tickets search 'Connection timeout' --preset semantic_match --exclude-self MM-9",
)
PREVIEW = (
    "retrieval tickets preview 'Connection timeout' --domain MM",
    "retrieval tickets preview 'Connection timeout' --vector-weight 0.6 --metadata-weight 0.4",
)

_WHERE = "Where the tickets are; else RETRIEVAL_TICKETS_COLLECTION, else 'tickets'."
CollectionOption = Annotated[str | None, collection_option(_WHERE, "--collection")]
Description = Annotated[
    str | None, typer.Option("--description", "-d", metavar="TEXT", help="The ticket's text below its title.")
]
Domain = Annotated[str | None, typer.Option("--domain", metavar="NAME", help="Only tickets of this domain.")]
TopK = Annotated[int | None, typer.Option("--top-k", "-n", metavar="N", help="Tickets wanted, 1 to 100; else 20.")]
Candidates = Annotated[
    int | None,
    typer.Option("--candidates", metavar="N", help="The nearest tickets to score, --top-k to 1000; else --top-k."),
]
VectorWeight = Annotated[
    float | None,
    typer.Option("--vector-weight", metavar="W", help="Of similarity, 0 to 1; beside one weight the other is 1 - W."),
]
MetadataWeight = Annotated[
    float | None,
    typer.Option("--metadata-weight", metavar="W", help="Of priority and time, 0 to 1; both hold as given."),
]
_PRESETS = "semantic_match, balanced, priority_focused or fast_resolution"
PriorityWeight = Annotated[
    list[str] | None,
    typer.Option("--priority-weight", metavar="NAME=W", help="The value of a priority: High=0.9. Repeated: several."),
]
Hours = Annotated[
    float | None,
    typer.Option("--time-normalization-hours", metavar="H", help="Hours from which a resolution counts nothing."),
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="TIME", help="Search as one would have then: 2026-03-01T12:00:00Z.")
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", metavar="ID", help="A ticket to leave out. Repeated: several.")
]

app = typer.Typer(rich_markup_mode="rich", no_args_is_help=True, epilog=examples(*SEARCH, *PREVIEW))


@app.callback()
def tickets() -> None:
    """Find tickets like a new one, by meaning, priority and how soon they were resolved."""


@app.command(epilog=examples(*SEARCH))
def search(
    context: typer.Context,
    *,
    title: Annotated[str | None, typer.Argument(metavar="TITLE", help="The new ticket's title.")] = None,
    description: Description = None,
    query_text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Words to search for, instead of a ticket.")
    ] = None,
    query_embedding: Annotated[
        str | None, typer.Option(metavar="FILE", help="A vector instead of the words: a JSON list.")
    ] = None,
    domain_filter: Domain = None,
    top_k: TopK = None,
    candidates: Candidates = None,
    preset: Annotated[str | None, typer.Option(metavar="NAME", help=f"Weights by name: {_PRESETS}.")] = None,
    vector_weight: VectorWeight = None,
    metadata_weight: MetadataWeight = None,
    priority_weights: PriorityWeight = None,
    time_normalization_hours: Hours = None,
    as_of: AsOf = None,
    exclude_ids: Exclude = None,
    exclude_self: Annotated[
        str | None, typer.Option(metavar="ID", help="The ticket itself, where it is stored.")
    ] = None,
    collection: CollectionOption = None,
    as_json: Json = False,
) -> None:
    """Find the tickets most similar to a new one."""
    from retrieval.apps.tickets import RetrievalRequest

    request = _validate(
        context,
        RetrievalRequest,
        title=title,
        description=description,
        query_text=query_text,
        query_embedding=vector_of("--query-embedding", query_embedding),
        domain_filter=domain_filter,
        top_k=top_k,
        candidates=candidates,
        preset=preset,
        vector_weight=vector_weight,
        metadata_weight=metadata_weight,
        priority_weights=weights_of(priority_weights or ()),
        time_normalization_hours=time_normalization_hours,
        as_of=moment_of(as_of),
        exclude_ids=exclude_ids,
        exclude_self=exclude_self,
    )
    if request.query_embedding is None and not request.text:
        raise typer.BadParameter("give it, --description, --query-text or --query-embedding", param_hint="TITLE")
    work = _with_service(collection, lambda service: service.process(request))
    answer(context, work, response_lines, as_json=as_json, to_json=_dump)


@app.command(epilog=examples(*PREVIEW))
def preview(
    context: typer.Context,
    *,
    title: Annotated[str, typer.Argument(metavar="TITLE", help="The new ticket's title.")],
    description: Description = None,
    domain: Domain = None,
    top_k: TopK = None,
    candidates: Candidates = None,
    weightings: Annotated[
        list[str] | None, typer.Option("--preset", metavar="NAME", help=f"{_PRESETS}. Repeated: several; else all.")
    ] = None,
    vector_weight: VectorWeight = None,
    metadata_weight: MetadataWeight = None,
    priority_weights: PriorityWeight = None,
    time_normalization_hours: Hours = None,
    as_of: AsOf = None,
    exclude_ids: Exclude = None,
    collection: CollectionOption = None,
    as_json: Json = False,
) -> None:
    """Rank the same tickets under several weightings; show which move, and why.

    Nothing is recorded and nothing is changed.
    """
    from retrieval.apps.tickets import PreviewConfig

    config = _validate(
        context,
        PreviewConfig,
        top_k=top_k,
        candidates=candidates,
        weightings=weightings,
        vector_weight=vector_weight,
        metadata_weight=metadata_weight,
        priority_weights=weights_of(priority_weights or ()),
        time_normalization_hours=time_normalization_hours,
        as_of=moment_of(as_of),
        exclude_ids=exclude_ids,
    )
    work = _with_service(collection, lambda service: service.preview_search(title, description or "", domain, config))
    answer(context, work, preview_lines, as_json=as_json, to_json=_dump)


@app.command(epilog=examples("retrieval tickets stats"))
def stats(context: typer.Context, *, collection: CollectionOption = None, as_json: Json = False) -> None:
    """Count the vectors, and the tickets of each domain."""
    answer(context, _with_service(collection, lambda service: service.get_index_stats()), fact_lines, as_json=as_json)


@app.command(epilog=examples("retrieval tickets health"))
def health(context: typer.Context, *, collection: CollectionOption = None, as_json: Json = False) -> None:
    """Check whether tickets can be found; the exit code is 1 if they cannot."""
    facts = answer(
        context, _with_service(collection, lambda service: service.health_check()), fact_lines, as_json=as_json
    )
    if facts["status"] != "healthy":
        raise typer.Exit(FAILED)


def weights_of(pairs: Sequence[str]) -> dict[str, float] | None:
    """Weights by priority, from ``High=0.9`` and the like; None without any. Raises ``InvalidRequestError``."""
    weights: dict[str, float] = {}
    for pair in pairs:
        name, _, number = (part.strip() for part in pair.partition("="))
        try:
            weights[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise InvalidRequestError(f"cannot read --priority-weight {pair!r}: write NAME=W, such as High=0.9")
    return weights or None


def _validate(context: typer.Context, model: Callable[..., T], **options: object) -> T:
    """The pydantic model of the command's options. Raises ``InvalidRequestError``, which names the option."""
    from pydantic import ValidationError

    try:
        return model(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        names = {param.name: typed_name(param) for param in context.command.params}
        place = " ".join(names.get(part, part) for part in first["loc"] if isinstance(part, str))
        reason = refusal_of(first)
        raise InvalidRequestError(f"{place}: {reason}" if place else reason) from None


def _dump(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json")


def _with_service(
    collection: str | None, ask: Callable[[RetrievalService], Awaitable[T]]
) -> Callable[[Platform], Awaitable[T]]:
    """The work that asks the service on the platform, for the collection or the configured one."""
    from retrieval.apps.tickets import RetrievalConfig, RetrievalService

    overrides: dict[str, Any] = {} if collection is None else {"collection": collection}
    config = RetrievalConfig(**overrides)
    return lambda platform: ask(RetrievalService(config, platform))
