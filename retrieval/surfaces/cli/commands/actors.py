"""``retrieval actors``: pseudonyms for actors, and the quarantine of their feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import Json, Yes, confirm, examples, group, option
from retrieval.surfaces.cli.run import answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from retrieval.adapters.store.records.forgetting import Pseudonymised
    from retrieval.platform import Platform


Actor = Annotated[str, typer.Argument(metavar="ACTOR", help="The actor's name, as recorded.")]

app = typer.Typer()
actors = group(
    app,
    "actors",
    "Replace actors' names by pseudonyms, or exclude their feedback.",
    "retrieval actors pseudonymise ann@example.com --yes",
)


@actors.command(epilog=examples("retrieval actors pseudonymise ann@example.com --yes"))
def pseudonymise(
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
    answer(lambda platform: platform.pseudonymise(actor), present, as_json=as_json)


@actors.command(epilog=examples("retrieval actors quarantine bot-7 --reason spam"))
def quarantine(
    *,
    actor: Actor,
    reason: Annotated[str, option("TEXT", "The reason, for later reference.")] = "",
    as_json: Json = False,
) -> None:
    """Exclude an actor's past and future feedback.

    The events are kept, with their weights.
    """
    _change(lambda platform: platform.quarantine(actor, reason=reason), "no longer", as_json=as_json)


@actors.command(epilog=examples("retrieval actors release bot-7"))
def release(*, actor: Actor, as_json: Json = False) -> None:
    """Let an actor's feedback count again."""
    _change(lambda platform: platform.release(actor), "again", as_json=as_json)


def _change(work: Callable[[Platform], Awaitable[int]], how: str, *, as_json: bool) -> None:
    def present(events: int) -> str:
        return f"{several(events, 'event')} of feedback {how} {'counts' if events == 1 else 'count'}"

    answer(work, present, as_json=as_json, to_json=lambda events: {"events": events})
