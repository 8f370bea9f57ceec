"""``retrieval memories``: look at a memory, and forget what is to be forgotten."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.surfaces.cli.completion import complete_collection
from retrieval.surfaces.cli.options import Json, examples
from retrieval.surfaces.cli.output import count, table
from retrieval.surfaces.cli.run import answer

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.apps.memories import MemoryStore
    from retrieval.platform import Platform


SHOW = ("retrieval memories show 01a20206-45aa-77ad-9d9a-229001806734",)
FORGET = (
    "retrieval memories forget 01a20206-45aa-77ad-9d9a-229001806734",
    "retrieval memories forget --user ann",
)

Collection = Annotated[
    str,
    typer.Option("--collection", metavar="NAME", help="Where the memories are.", autocompletion=complete_collection),
]

app = typer.Typer(rich_markup_mode="rich", no_args_is_help=True, epilog=examples(*SHOW, *FORGET))


@app.callback()
def memories() -> None:
    """Look at the memories of an assistant's projects, and forget them."""


@app.command(epilog=examples(*SHOW))
def show(
    context: typer.Context,
    *,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The memory's id.", show_default=False)],
    collection: Collection = "memories",
    as_json: Json = False,
) -> None:
    """Show a memory with its links, its access count and what took its place."""

    async def work(platform: Platform) -> dict[str, Any]:
        return (await (await _store(platform, collection)).get_memory(memory_id)).as_dict()

    def shown(found: dict[str, Any]) -> Table:
        return table(["", ""], ((name, _cell(value)) for name, value in found.items() if value))

    answer(context, work, shown, as_json=as_json)


@app.command(epilog=examples(*FORGET))
def forget(
    context: typer.Context,
    *,
    memory_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The memory's id.", show_default=False)
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="All memories of this user.")] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="ID", help="All of this project.")] = None,
    collection: Collection = "memories",
    as_json: Json = False,
) -> None:
    """Forget a memory, or all of a user or of a project. Nothing brings them back.

    What was recorded of them bears a pseudonym afterwards.
    """
    from retrieval.domain.errors import InvalidRequestError

    async def work(platform: Platform) -> int:
        if [memory_id, user, project].count(None) != 2:
            raise InvalidRequestError("say what to forget, one of: ID, --user NAME, --project ID")
        store = await _store(platform, collection)
        if user is not None:
            return await store.forget_user(user)
        if project is not None:
            return await store.forget_project(project)
        await store.forget(memory_id or "")
        return 1

    answer(
        context,
        work,
        lambda forgotten: f"{count(forgotten, 'memory')} forgotten",
        as_json=as_json,
        told=lambda forgotten: {"forgotten": forgotten},
    )


def _cell(value: Any) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


async def _store(platform: Platform, name: str) -> MemoryStore:
    """The store of a collection of memories that there is; none is made, and no other becomes one.

    Such a collection declares what a store of memories looks up by, whether or not it holds any.
    """
    from retrieval.apps.memories import MemoryStore
    from retrieval.domain.errors import InvalidRequestError
    from retrieval.domain.items.memory import FILTERABLE

    collection = await platform.collection(name, create=False)
    if not set(FILTERABLE) <= set((await collection.info()).filterable):
        raise InvalidRequestError(f"collection {name!r} holds no memories; name one that a MemoryStore stores into")
    return MemoryStore(platform, name)
