"""``retrieval models``: the models that were learned from a collection's feedback, and the one in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.options import CollectionName, Json
from retrieval.surfaces.cli.output import table
from retrieval.surfaces.cli.run import answer, of_collection

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.adapters.store.learning.models import StoredModel
    from retrieval.collection import Collection


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

    The job 'learn' fits models, and uses one that is better than the
    present one on searches it was not fitted on; the reason says what it
    found. A chosen version stays until another one, or 'latest', is chosen.
    """

    async def ask(found: Collection) -> tuple[list[StoredModel], int]:
        if use is not None:
            await found.use_model(_version(use))
        return await found.models(), (await found.info()).model_version

    def shown(answered: tuple[list[StoredModel], int]) -> Table | str:
        if answered[0]:
            return _table(*answered)
        return f"nothing was learned yet; with feedback there, run: retrieval jobs run learn --collection {collection}"

    def told(answered: tuple[list[StoredModel], int]) -> dict[str, object]:
        return {"used": answered[1], "models": [model.as_dict() for model in answered[0]]}

    answer(context, of_collection(collection, ask), shown, as_json=as_json, told=told)


def _version(given: str) -> int | None:
    """The version; None for ``latest``. Raises ``InvalidRequestError`` for anything else."""
    if given == "latest":
        return None
    if not given.isdecimal():
        from retrieval.domain.errors import InvalidRequestError

        raise InvalidRequestError(f"--use takes a version's number, 0 or 'latest', not {given!r:.40}")
    return int(given)


def _table(found: list[StoredModel], used: int) -> Table:
    return table(
        ["version", "used", "kind", "verdicts", "made", "reason"],
        (
            (
                model.version,
                model.version == used,
                model.kind,
                model.events,
                f"{model.created_at:%Y-%m-%d %H:%M}",
                model.reason,
            )
            for model in found
        ),
    )
