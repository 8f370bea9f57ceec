"""``retrieval models``: what was learned from a collection's feedback, and which of it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.options import CollectionName, Json, state_of

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.adapters.store.learning.models import StoredModel
    from retrieval.platform import Platform


EXAMPLES = ("retrieval models tickets", "retrieval models tickets --use 0")


def models(
    context: typer.Context,
    *,
    collection: CollectionName,
    use: Annotated[
        str | None,
        typer.Option("--use", metavar="VERSION", help="Search with that version and no other; 0: none; or 'latest'."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models of the learned reward, the newest first, or choose one.

    The job 'learn' fits them, and uses one that is surely better than what it
    replaces on searches it was not fitted on; the reason says what it found.
    A chosen version stays until another one, or 'latest', is chosen.
    """
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.run import run

    async def work(platform: Platform) -> tuple[list[StoredModel], int]:
        found = await platform.collection(collection, create=False)
        if use is not None:
            await found.use_model(_version(use))
        return await found.models(), (await found.info()).model_version

    found, used = run(state_of(context), work)
    if as_json:
        print_json({"used": used, "models": [one.as_dict() for one in found]})
    elif found:
        console().print(_table(found, used))
    else:
        console().print(
            f"nothing was learned yet; with feedback there, run: retrieval jobs run learn --collection {collection}",
            soft_wrap=True,
        )


def _version(given: str) -> int | None:
    """The version; None for ``latest``. Raises ``InvalidRequestError`` for anything else."""
    if given == "latest":
        return None
    if not given.isdecimal():
        from retrieval.domain.errors import InvalidRequestError

        raise InvalidRequestError(f"--use takes a version's number, 0 or 'latest', not {given!r:.40}")
    return int(given)


def _table(found: list[StoredModel], used: int) -> Table:
    from retrieval.surfaces.cli.output import table

    return table(
        ["version", "used", "kind", "verdicts", "made", "reason"],
        (
            (one.version, one.version == used, one.kind, one.events, f"{one.created_at:%Y-%m-%d %H:%M}", one.reason)
            for one in found
        ),
    )
