"""Times in LoCoMo's questions, searched within their conversation by recall, without a language model.

    python benchmarks/recall_temporal.py DATA

DATA holds the folder locomo in BEIR's format. Each question is asked at the end of its conversation (``as_of``), which
is the only clock that the data knows: questions such as "what did she do last week?" were meant at an earlier moment.
Those are therefore measured a second time, asked an hour after the evidence was told, as somebody would have who said
"last week" then. The result is printed as Markdown and goes to ``benchmarks/results/recall_temporal.md``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

from command import RESULTS, data_of
from tasks import LOCOMO

from retrieval import Collection, connect
from retrieval.apps.recall import DualRetriever, TimeExpressions
from retrieval.domain.search.time_expressions import time_expression
from retrieval.settings import Settings

LIMIT = 10
MODES = tuple(TimeExpressions)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its evidence."""

    text: str
    conversation: str
    category: str
    evidence: frozenset[str]
    asked_at: datetime
    told_at: datetime
    """The time when the last of its evidence was told."""

    def said(self, now: datetime) -> str:
        """The certainty of the question's time: ``dated``, ``relative``, ``vague`` or ``none``."""
        time = time_expression(self.text, now)
        return "none" if time is None else time.certainty.name.lower()


Moment = Callable[[Question], datetime]
Recalls = Mapping[TimeExpressions, Sequence[float]]


async def questions(collection: Collection, data: Path) -> list[Question]:
    """All that are judged."""
    queries, qrels = LOCOMO.queries(data)
    evidence = {query.query_id: frozenset(key for key, grade in qrels[query.query_id].items() if grade > 0)
                for query in queries}  # fmt: skip
    keys = sorted(frozenset().union(*evidence.values()))
    times = {key: item.occurred_at for key, item in (await collection.get(keys)).items() if item.occurred_at}
    return [
        Question(
            text=query.text,
            conversation=query.metadata["conversation"],
            category=query.metadata["category_name"],
            evidence=evidence[query.query_id],
            asked_at=datetime.fromisoformat(query.metadata["as_of"]).replace(tzinfo=UTC),
            told_at=max(times[key] for key in evidence[query.query_id]),
        )
        for query in queries
    ]


async def recalls(collection: Collection, questions_asked: Sequence[Question], moment: Moment) -> Recalls:
    """R@10 of each question, by the handling of times."""
    by_mode: dict[TimeExpressions, list[float]] = {mode: [] for mode in MODES}
    for mode in MODES:
        retriever = DualRetriever(collection.unrecorded(), None, time_expressions=mode)
        for question in questions_asked:
            where = {"conversation": question.conversation}
            hits = await retriever.search(question.text, where=where, limit=LIMIT, as_of=moment(question))
            by_mode[mode].append(len({hit.id for hit in hits} & question.evidence) / len(question.evidence))
    return by_mode


def table(
    questions_asked: Sequence[Question], by_mode: Recalls, groups: Mapping[str, Callable[[Question], bool]]
) -> list[str]:
    """R@10 of each group of questions, by the handling of times."""
    rows = ["| Questions | | " + " | ".join(MODES) + " |", "|---|---|" + "---|" * len(MODES)]
    for name, belongs in groups.items():
        places = [place for place, question in enumerate(questions_asked) if belongs(question)]
        figures = [f"{fmean(by_mode[mode][place] for place in places):.3f}" for mode in MODES] if places else []
        rows.append(f"| {name} | {len(places)} | " + " | ".join(figures) + " |")
    return rows


def report(questions_asked: Sequence[Question], at_the_end: Recalls, when_told: Recalls) -> str:
    """The page."""

    def of(certainty: str, moment: Moment) -> Callable[[Question], bool]:
        return lambda question: question.said(moment(question)) == certainty

    categories = sorted({question.category for question in questions_asked})
    groups: dict[str, Callable[[Question], bool]] = {"all": lambda _: True}
    groups |= {name: lambda question, name=name: question.category == name for name in categories}  # type: ignore[misc]
    groups |= {
        "temporal, with a time in the question": lambda question: (
            question.category == "temporal" and question.said(question.asked_at) != "none"
        ),
        'with a date ("in May 2023")': of("dated", _asked_at),
        'counted from now ("last week")': of("relative", _asked_at),
        'vague ("recently")': of("vague", _asked_at),
    }
    later: dict[str, Callable[[Question], bool]] = {
        'counted from now ("last week")': of("relative", _soon_after),
        'vague ("recently")': of("vague", _soon_after),
    }
    return "\n".join(
        [
            "# Times in questions",
            "",
            "R@10 on LoCoMo, within the conversation, by recall's default profile and the local model, without a",
            "language model. `filter`: nothing else is found; `prefer`: it ranks highest, what may have been told of",
            "it since a little higher, and nothing is left out; `off`: words like any others. Made by",
            "`benchmarks/recall_temporal.py`.",
            "",
            "Asked at the end of the conversation:",
            "",
            *table(questions_asked, at_the_end, groups),
            "",
            "Asked an hour after the evidence was told:",
            "",
            *table(questions_asked, when_told, later),
            "",
        ]
    )


def _asked_at(question: Question) -> datetime:
    return question.asked_at


def _soon_after(question: Question) -> datetime:
    return question.told_at + timedelta(hours=1)


async def main(data: Path) -> None:
    """Measure, print, write."""
    async with connect(settings=Settings().changed(embedder="minilm")) as platform:
        collection = await LOCOMO.ingested(platform, data)
        questions_asked = await questions(collection, data)
        page = report(
            questions_asked,
            await recalls(collection, questions_asked, _asked_at),
            await recalls(collection, questions_asked, _soon_after),
        )
    print(page)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "recall_temporal.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(data_of(__doc__)))
