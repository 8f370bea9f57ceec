"""``retrieval feedback``: verdicts on hits, singly or from a file; ``retrieval models``: the learned models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import CollectionName, argument, command, option
from retrieval.surfaces.cli.output import print_answer, table, tell
from retrieval.surfaces.cli.run import CONTINUES, opened, opened_collection

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.adapters.store.learning.models import StoredModel
    from retrieval.domain.learning.feedback import FeedbackReport


app = typer.Typer()

BATCH_EVENTS = 500


def judge_one(names: Sequence[str], collection: str | None, record: Mapping[str, Any]) -> None:
    """Store the event that the arguments describe, and print the outcome. Raises ``RetrievalError``."""
    from retrieval.adapters.readers.feedback_lines import feedback_from_record

    expected = 2 if collection is None else 1
    if len(names) != expected:
        raise InvalidRequestError(
            "name the search and the item: retrieval feedback RETRIEVAL_ID ITEM_ID --helpful; or with --collection "
            "NAME the item alone; or a file of events with --file"
        )
    if ("helpful" in record) == ("reward" in record):
        raise InvalidRequestError(
            "say how good it was, with one of: --helpful, --not-helpful, --reward R (a number from 0 to 1)"
        )
    subject = {"retrieval_id": names[0]} if collection is None else {"collection": collection}
    event = feedback_from_record({**record, **subject, "item_id": names[-1]})

    with opened() as (platform, wait):
        if collection is not None:
            wait(platform.collection(collection, create=False))
        _print(wait(platform.feedback_each([event], new=True)), 0)


def judge_file(file: str) -> None:
    """Store the events of a file; raises ``RetrievalError`` at the end if there were lines that cannot be used."""
    from retrieval.adapters.readers.feedback_lines import read_feedback
    from retrieval.adapters.readers.lines import STANDARD_INPUT
    from retrieval.domain.learning.feedback import Feedback, FeedbackReport
    from retrieval.engine.feedback import take_valid_feedback

    lines = read_feedback(file)
    refused, report = 0, FeedbackReport()
    with opened(when_interrupted=CONTINUES, leaves_threads=file == STANDARD_INPUT) as (platform, wait):
        while batch := list(islice(lines, BATCH_EVENTS)):
            valid = [(number, event) for number, event in batch if isinstance(event, Feedback)]
            part, errors = wait(
                take_valid_feedback(platform.database, platform.tenant_id, [event for _, event in valid], platform.now)
            )
            report += part
            faults = [(number, str(event)) for number, event in batch if not isinstance(event, Feedback)]
            faults += [(valid[index][0], f"{file}:{valid[index][0]}: {error}") for index, error in errors]
            # All of them, because no file keeps the rejected lines.
            for _, fault in sorted(faults):
                tell(f"rejected: {fault}")
            refused += len(faults)
    _print(report, refused)
    if refused:
        raise InvalidRequestError(
            f"{several(refused, 'line')} of {file} could not be used; correct them and run the same command "
            "again: the others count once"
        )


def _print(report: FeedbackReport, refused: int) -> None:
    rows = [("recorded", report.recorded), ("repeated", report.repeated), ("superseding", report.superseding)]
    rows += [(f"does not count: {reason}", number) for reason, number in report.discounted.items()]
    print_answer({**report.as_dict(), "rejected": refused}, table(["feedback", "events"], rows))


@command(
    app,
    "retrieval feedback 01890a5d-ac96-774b-bcce-b302099a8057 T-17 --helpful",
    "retrieval feedback --collection principles p1 --not-helpful --domain db",
    "retrieval feedback --file events.jsonl",
)
def feedback(
    *,
    names: Annotated[
        list[str] | None,
        argument("[RETRIEVAL_ID] ITEM_ID", "The search and the item it showed; with --collection, only the item."),
    ] = None,
    collection: Annotated[
        str | None, option("NAME", "Judge an item of it, without a search.", "--collection", "-c")
    ] = None,
    helpful: Annotated[bool | None, typer.Option("--helpful/--not-helpful", help="Whether it helped.")] = None,
    reward: Annotated[float | None, option("R", "Instead: its reward, 0 to 1.", "--reward", "-r")] = None,
    kind: Annotated[str | None, option("NAME", "The kind of verdict; else rating.")] = None,
    actor: Annotated[str | None, option("NAME", "Who judges.")] = None,
    domain: Annotated[str | None, option("NAME", "With --collection: the domain of the question.")] = None,
    complexity: Annotated[float | None, option("C", "With --collection: how hard it was, 0 to 1.")] = None,
    note: Annotated[str | None, option("TEXT", "A comment.")] = None,
    at: Annotated[str | None, option("TIME", "The time of the verdict: 2026-03-01T12:00:00+00:00; else now.")] = None,
    weight: Annotated[float | None, option("W", "How much it counts, 0 to 1.")] = None,
    key: Annotated[str | None, option("TEXT", "Identifies repetitions; else derived.")] = None,
    file: Annotated[
        str | None, option("FILE", "Events, one JSON object a line; - is standard input.", "--file", "-f")
    ] = None,
) -> None:
    """Rate a hit of a search, or an item in a situation.

    The last verdict of an actor on a hit counts.

    In a file each line is an event as over HTTP: item_id, reward or helpful,
    and retrieval_id, or collection and perhaps a context. Each invalid line is
    reported on standard error, and the others are stored.
    """
    situation = {"domain": domain, "complexity": complexity}
    options = {
        "kind": kind, "actor": actor, "note": note, "at": at, "weight": weight, "key": key, "reward": reward,
        "helpful": helpful, "context": {name: value for name, value in situation.items() if value is not None} or None,
    }  # fmt: skip
    record = {name: value for name, value in options.items() if value is not None}
    if file is None:
        judge_one(names or [], collection, record)
    elif record or names or collection:
        raise InvalidRequestError("--file takes no other arguments; write them into the file")
    else:
        judge_file(file)


@command(app, "retrieval models tickets", "retrieval models tickets --use 0")
def models(
    *,
    collection: CollectionName,
    use: Annotated[
        str | None, option("VERSION", "Search with that version and no other; 0: none; or 'latest'.")
    ] = None,
) -> None:
    """List the models of the learned reward, the newest first, or choose one.

    The job 'learn' fits models, and uses the newest if it is better than
    relevance alone on searches it was not fitted on; the reason explains the
    decision. A chosen version stays until another one, or 'latest', is chosen.
    """
    from retrieval.adapters.store.learning.models import is_model_chosen
    from retrieval.collection import handle_of
    from retrieval.domain.search.profile import version_of

    version = None if use is None else version_of(use)
    if version is None and use not in (None, "latest"):
        raise InvalidRequestError(f"--use takes a version's number, 0 or 'latest', not {written(use, 40)}")

    with opened_collection(collection) as (target, wait):
        if use is not None:
            wait(target.use_model(version))
        is_chosen = wait(is_model_chosen(wait(handle_of(target).place())))
        listed, used = wait(target.models()), wait(target.info()).model_version
    parts: list[str | Table] = []
    if listed:
        rows = (
            (row.version, row.version == used, row.kind, row.events, row.created_at, row.reason, trial_text(row))
            for row in listed
        )
        parts.append(table(["version", "used", "kind", "verdicts", "made", "reason", "trial"], rows))
        if is_chosen:
            parts.append(f"Chosen: {used or 'none'}, until: retrieval models {collection} --use latest")
    else:
        parts.append(f"nothing was learned yet; after feedback: retrieval jobs run learn --collection {collection}")
    print_answer({"used": used, "chosen": is_chosen, "models": listed}, parts)


def trial_text(model: StoredModel) -> str:
    """``sum: log-loss less 0.0120 ≥ 0.0040, value more 0.0310 ≥ 0.0110``: means and bounds, by combination."""
    said = "{}: log-loss less {:.4f} ≥ {:.4f}, value more {:.4f} ≥ {:.4f}"
    names = ("log_loss_less", "log_loss_less_at_least", "value_more", "value_more_at_least")
    tried = model.metrics.items()
    return "; ".join(said.format(name, *(of[key] for key in names)) for name, of in tried if "value_more" in of)
