"""``retrieval actors``: who asked and judged, and making their names pseudonyms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.options import Json, examples
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.adapters.store.actors import Pseudonymised
    from retrieval.platform import Platform

EXAMPLES = ("retrieval actors pseudonymise ann@example.com",)

app = typer.Typer(rich_markup_mode="rich", no_args_is_help=True, epilog=examples(*EXAMPLES))


@app.callback()
def actors() -> None:
    """Make the names of those who search and judge pseudonyms."""


@app.command(epilog=examples(*EXAMPLES))
def pseudonymise(
    context: typer.Context,
    *,
    actor: Annotated[str, typer.Argument(metavar="ACTOR", help="The name as it was given.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Replace an actor's name in recorded searches and feedback by a pseudonym.

    It is random: nothing leads back to the name. The sessions are forgotten;
    the words that were searched for, and notes, stay as they are.
    """
    from retrieval.surfaces.cli.output import console, count, print_json
    from retrieval.surfaces.cli.run import run

    async def work(platform: Platform) -> Pseudonymised:
        return await platform.pseudonymise(actor)

    done = run(state_of(context), work)
    if as_json:
        print_json(done.as_dict())
    else:
        console().print(
            f"{count(done.retrievals, 'search')} and {count(done.feedback, 'event')} of feedback now bear "
            f"{done.pseudonym}",
            soft_wrap=True,
        )
