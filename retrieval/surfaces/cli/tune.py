"""``retrieval tune``: find the legs, fusion and weights that serve judged queries best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli.options import (
    CollectionName,
    DropSelfOption,
    Json,
    Judgements,
    Queries,
    WhereFromOption,
)
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.jobs.tune_collection import CollectionTuning
    from retrieval.platform import Platform

EXAMPLES = ("retrieval tune tickets --queries queries.jsonl --qrels qrels.tsv --apply",)


def tune(
    context: typer.Context,
    *,
    collection: CollectionName,
    queries: Queries,
    qrels: Judgements,
    where_from: WhereFromOption = None,
    drop_self: DropSelfOption = None,
    cutoff: Annotated[int, typer.Option("--cutoff", metavar="N", help="Tune nDCG at this many hits.")] = 10,
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", min=0, help="Of the random folds; equal seeds, equal answers."),
    ] = 0,
    apply: Annotated[
        bool, typer.Option("--apply", help="Store what is proposed as a new version of the profile.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Find better legs, fusion and weights from judged queries.

    Settings are chosen on some queries and measured on others; a change is
    proposed where the gain is more than chance. Only --apply stores it.
    """
    from retrieval.jobs.judgements import DropSelf, WhereFrom, read_qrels, read_queries
    from retrieval.jobs.tune_collection import apply_tuning, tune_collection
    from retrieval.surfaces.cli.output import console, print_json
    from retrieval.surfaces.cli.progress import Step, progress
    from retrieval.surfaces.cli.run import run
    from retrieval.surfaces.cli.tuning import print_tuning

    filters = tuple(map(WhereFrom.parse, where_from or ()))
    own = None if drop_self is None else DropSelf.parse(drop_self)
    asked, judgements = read_queries(queries), read_qrels(qrels)

    async def work(platform: Platform) -> tuple[CollectionTuning, int | None]:
        found = await platform.collection(collection, create=False)
        with progress(f"tune {collection}", "step") as update:
            tuning = await tune_collection(
                found,
                asked,
                judgements,
                where_from=filters,
                drop_self=own,
                cutoff=cutoff,
                seed=seed,
                progress=lambda stage, done, total: update(Step(done, total, done, stage)),
            )
        return tuning, await apply_tuning(found, tuning) if apply else None

    tuning, version = run(state_of(context), work)
    if as_json:
        print_json({**tuning.as_dict(), "applied_version": version})
    else:
        print_tuning(console(), tuning, applied_version=version)
