"""``retrieval actors``: pseudonyms for actors, and the quarantine of their feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import Json, Yes, confirm, examples
from retrieval.surfaces.cli.run import answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from retrieval.adapters.store.records.forgetting import Pseudonymised
    from retrieval.platform import Platform


EXAMPLES = ("retrieval actors pseudonymise ann@example.com --yes",)

Actor = Annotated[str, typer.Argument(metavar="ACTOR", help="The actor's name, as recorded.")]

app = typer.Typer(rich_markup_mode="rich", no_args_is_help=True, epilog=examples(*EXAMPLES))


@app.callback()
def actors() -> None:
    """Replace actors' names by pseudonyms, or exclude their feedback."""


@app.command(epilog=examples(*EXAMPLES))
def pseudonymise(
    context: typer.Context,
    *,
    actor: Actor,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Replace an actor's name by a pseudonym in recorded searches and feedback.

    The pseudonym is random: nothing leads back to the name. Names of
    sessions are removed; the words of queries, and notes, stay as they are.
    """

    def present(report: Pseudonymised) -> str:
        searches, events = several(report.retrievals, "search"), several(report.feedback, "event")
        return f"{searches} and {events} of feedback now bear {report.pseudonym}"

    confirm(f"Replace {actor:.80} permanently in all records?", yes=yes, as_json=as_json)
    answer(context, lambda platform: platform.pseudonymise(actor), present, as_json=as_json)


@app.command(epilog=examples("retrieval actors quarantine bot-7 --reason spam"))
def quarantine(
    context: typer.Context,
    *,
    actor: Actor,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for later reference.")] = "",
    as_json: Json = False,
) -> None:
    """Exclude an actor's past and future feedback.

    The events are kept, with their weights.
    """
    _change(context, lambda platform: platform.quarantine(actor, reason=reason), "no longer", as_json=as_json)


@app.command(epilog=examples("retrieval actors release bot-7"))
def release(context: typer.Context, *, actor: Actor, as_json: Json = False) -> None:
    """Let an actor's feedback count again."""
    _change(context, lambda platform: platform.release(actor), "again", as_json=as_json)


def _change(context: typer.Context, work: Callable[[Platform], Awaitable[int]], how: str, *, as_json: bool) -> None:
    def present(events: int) -> str:
        return f"{several(events, 'event')} of feedback {how} {'counts' if events == 1 else 'count'}"

    answer(context, work, present, as_json=as_json, to_json=lambda events: {"events": events})
