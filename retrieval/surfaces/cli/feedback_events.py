"""Feedback from the command line: one event, or those of a file with what cannot be used told line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from retrieval.adapters.readers.feedback_lines import FeedbackLine, feedback_from_record, read_feedback
from retrieval.adapters.readers.lines import STANDARD_INPUT
from retrieval.domain.errors import InvalidRequestError, RetrievalError
from retrieval.domain.feedback import FeedbackReport
from retrieval.engine.feedback import take_what_can_be
from retrieval.platform import Platform
from retrieval.surfaces.cli.output import console, count, plain, print_json, table
from retrieval.surfaces.cli.run import run
from retrieval.surfaces.cli.state import State

BATCH_EVENTS = 500
SHOWN = 10
"""How many reasons are shown."""


@dataclass(slots=True)
class Refused:
    """Lines that could not be used."""

    number: int = 0
    first: list[str] = field(default_factory=list)
    """What the first ``SHOWN`` of them lack."""

    def add(self, texts: Sequence[str]) -> None:
        """Count them, and keep those that will be shown."""
        self.number += len(texts)
        self.first += texts[: SHOWN - len(self.first)]


def judge_one(
    state: State, names: Sequence[str], collection: str | None, record: Mapping[str, Any], *, as_json: bool
) -> None:
    """Store the event that the arguments describe, and print what became of it. Raises ``RetrievalError``."""
    wanted = 2 if collection is None else 1
    if len(names) != wanted:
        raise InvalidRequestError(
            "name the search and the item: retrieval feedback RETRIEVAL_ID ITEM_ID --helpful; or with --collection "
            "NAME the item alone; or a file of events with --file"
        )
    place = {"retrieval_id": names[0]} if collection is None else {"collection": collection}
    event = feedback_from_record({**record, **place, "item_id": names[-1]})

    async def work(platform: Platform) -> FeedbackReport:
        return await platform.feedback_each([event])

    _print(run(state, work), Refused(), as_json=as_json)


def judge_file(state: State, file: str, *, others: bool, as_json: bool) -> None:
    """Store the file's events but for the lines that cannot be used; raises ``RetrievalError`` at the end for those."""
    if others:
        raise InvalidRequestError("a file says everything itself; leave the other arguments out")
    lines = read_feedback(file)

    async def work(platform: Platform) -> tuple[FeedbackReport, Refused]:
        return await _stored(platform, lines)

    report, refused = run(
        state,
        work,
        when_interrupted="interrupted; run the same command again to continue",
        reads_standard_input=file == STANDARD_INPUT,
    )
    _print(report, refused, as_json=as_json)
    if refused.number:
        raise InvalidRequestError(
            f"{count(refused.number, 'line')} of {file} could not be used; mend them and run the same command again: "
            "the others count once"
        )


async def _stored(platform: Platform, lines: Iterator[FeedbackLine]) -> tuple[FeedbackReport, Refused]:
    report, refused = FeedbackReport(), Refused()
    while batch := list(islice(lines, BATCH_EVENTS)):
        good = [(line, line.event) for line in batch if line.event is not None]
        part, errors = await take_what_can_be(
            platform.database, platform.tenant_id, [event for _, event in good], platform.now
        )
        report += part
        told = [(line.line, str(line.error)) for line in batch if line.error is not None]
        told += [(good[place][0].line, _said(good[place][0], error)) for place, error in errors]
        refused.add([text for _, text in sorted(told)])
    return report, refused


def _said(line: FeedbackLine, error: RetrievalError) -> str:
    return f"{line.file}:{line.line}: {error}"


def _print(report: FeedbackReport, refused: Refused, *, as_json: bool) -> None:
    err = console(stderr=True)
    for text in refused.first:
        err.print(plain(f"rejected: {text}"), soft_wrap=True)
    if refused.number > SHOWN:
        err.print(f"rejected: and {refused.number - SHOWN:,} more, which are not shown", soft_wrap=True)
    if as_json:
        print_json({**report.as_dict(), "rejected": refused.number})
        return
    rows = [("recorded", report.recorded), ("repeated", report.repeated), ("superseding", report.superseding)]
    rows += [(f"does not count: {reason}", number) for reason, number in report.discounted.items()]
    console().print(table(["feedback", "events"], rows))
