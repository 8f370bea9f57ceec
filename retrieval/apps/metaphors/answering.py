"""How a retrieval is answered: from the corpus, and with generated candidates where they are called for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from retrieval.apps.metaphors.asked import Asked
from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.failures import Preference
from retrieval.apps.metaphors.generator import Generator, Suggested, Wanted, names_of
from retrieval.apps.metaphors.metaphor_item import IN_CORPUS
from retrieval.apps.metaphors.metrics import RetrievalMetrics
from retrieval.apps.metaphors.retrieved import Retrieved
from retrieval.apps.metaphors.searching import Entry, Searches, entries
from retrieval.apps.metaphors.triggers import KNOWN_FROM_VERDICTS, Situation, is_unusual, why_generate
from retrieval.collection import Collection
from retrieval.domain.hit import SearchResult
from retrieval.domain.shown_item import ShownItem
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.stopwatch import Clock

TRIED = 3
"""The best of the corpus, so many, are told to the model as not fitting well, before what is excluded."""

NO_MODEL = "nothing was generated: there is no language model; give the retriever one, such as platform.llm"

LATE = "nothing was generated: the time that a batch waits for suggestions is used up; ask again for this problem alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When candidates are generated, and how long they are waited for."""

    below: float
    """Top score, 0 to 1, under which they are."""
    after_backtracks: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What answers a corpus's retrievals."""

    corpus: MetaphorCorpus
    searches: Searches
    generator: Generator | None
    """None: no language model."""
    rules: Rules
    clock: Clock

    async def answer(self, asked: Asked) -> Retrieved:
        """The best of the corpus; together with candidates, if that is called for and there are any, or may be."""
        started = self.clock()
        if not await self._may_generate(asked):
            return self._of_corpus(asked, await self.searches.answer(asked))
        found = await self.searches.look(replace(asked, limit=max(asked.limit, TRIED)))
        why = await self._why_generate(asked, found)
        if why is None:
            return self._of_corpus(asked, await self.searches.answer(asked))
        return await self._with_candidates(asked, entries(found), why, started)

    async def composed(
        self, asked: Asked, shown: Sequence[Entry], items: Sequence[ShownItem], *, origin: str, started: float,
        why_generated: str | None = None, notes: Sequence[str] = (),
    ) -> Retrieved:  # fmt: skip
        """An answer that no search gave as it is; recorded all the same."""
        milliseconds = (self.clock() - started) * 1e3
        context = asked.context(actor=self.searches.actor, is_generated=why_generated is not None)
        retrieval_id = await self.corpus.collection.record_answer(
            asked.problem.description,
            items,
            context=context,
            vector=asked.vector,
            about=asked.about,
            origin=origin,
            retrieval_time_ms=milliseconds,
            notes=notes,
        )
        return retrieved(asked, shown, retrieval_id, milliseconds, why_generated=why_generated, notes=notes)

    async def _may_generate(self, asked: Asked) -> bool:
        """Whether there is a model to ask, or a candidate that it left."""
        if self.generator is not None:
            return True
        stored = await self.corpus.collection.refresh(older_than_seconds=FRESH_SECONDS)
        if stored.documents <= len(self.corpus.static):
            return False
        return bool(await self.searches.candidates(replace(asked, limit=1)))

    async def _why_generate(self, asked: Asked, found: SearchResult) -> str | None:
        situation = Situation(
            top_score=await self._top_score(asked, found), context=asked.why, backtracks=asked.backtracks
        )
        below, after = self.rules.below, self.rules.after_backtracks
        why = why_generate(situation, below=below, after_backtracks=after)
        if why is None and (domain := await unusual_domain(self.corpus.collection, asked.problem.domain)):
            return why_generate(replace(situation, unusual_domain=domain), below=below, after_backtracks=after)
        return why

    async def _top_score(self, asked: Asked, found: SearchResult) -> float:
        """How well the corpus fits the problem itself.

        A question that was moved away from it scores lower, and what is preferred scores high however little it fits.
        """
        if asked.moved is not None or asked.preference != Preference():
            found = await self.searches.look(replace(asked, moved=None, preference=Preference(), limit=1))
        return found[0].score if found else 0.0

    async def _with_candidates(self, asked: Asked, corpus: list[Entry], why: str, started: float) -> Retrieved:
        suggested = await self._suggested(asked, corpus, why)
        candidates = await self.searches.candidates(asked)
        # What use has proved is of the corpus from the next retrieval on: this one has looked at it already.
        await self.corpus.settle_all()
        best = sorted([*corpus, *candidates], key=lambda one: (-one.score, one.metaphor.id))[: asked.limit]
        return await self.composed(
            asked,
            best,
            [one.shown for one in best],
            origin="metaphors.retrieve",
            started=started,
            why_generated=why,
            notes=(*asked.notes, *suggested.notes),
        )

    async def _suggested(self, asked: Asked, corpus: Sequence[Entry], why: str) -> Suggested:
        """New suggestions; none where the model made some for this text that are still to be tried."""
        if self.generator is None:
            return Suggested(notes=(NO_MODEL,))
        if await self.generator.still_untried(asked.problem, asked.exclude):
            return Suggested()
        failed = await self.corpus.get(asked.exclude)
        tried = names_of([*(one.metaphor for one in corpus[:TRIED]), *failed.values()])
        wanted = Wanted(problem=asked.problem, tried=tried, failure=asked.why, why=why)
        left = self.rules.seconds if asked.until is None else asked.until - self.clock()
        return (
            await self.generator.in_time(wanted, min(left, self.rules.seconds)) if left > 0 else Suggested((), (LATE,))
        )

    def _of_corpus(self, asked: Asked, found: SearchResult) -> Retrieved:
        notes = (*asked.notes, *found.notes)
        milliseconds = found.timings_ms.get("total", 0.0)
        return retrieved(asked, entries(found), found.retrieval_id, milliseconds, notes=notes)


def retrieved(
    asked: Asked, shown: Sequence[Entry], retrieval_id: UUID | None, milliseconds: float, *,
    why_generated: str | None = None, notes: Sequence[str] = (),
) -> Retrieved:  # fmt: skip
    """The answer, with its figures."""
    return Retrieved(
        [(one.metaphor, one.score) for one in shown],
        problem=asked.problem,
        retrieval_id=retrieval_id,
        metrics=RetrievalMetrics.of(
            [one.score for one in shown],
            retrieval_time_ms=milliseconds,
            generation_triggered=why_generated is not None,
            backtrack_count=asked.backtracks,
        ),
        explanations=[one.explanation for one in shown],
        notes=notes,
        why_generated=why_generated,
    )


async def unusual_domain(collection: Collection, domain: str) -> str:
    """The domain, if it is unusual; empty where it is not, or none is stated."""
    if not domain:
        return ""
    verdicts = await collection.count_verdicts(at_most=KNOWN_FROM_VERDICTS)
    if verdicts < KNOWN_FROM_VERDICTS or await _is_a_metaphors(collection, domain):
        return ""
    told = is_unusual(
        verdicts=verdicts,
        verdicts_of_domain=await collection.count_verdicts(domain=domain, at_most=1),
        is_a_metaphors_domain=False,
    )
    return domain if told else ""


async def _is_a_metaphors(collection: Collection, domain: str) -> bool:
    async for _ in collection.scan({**IN_CORPUS, "domain": domain}, batch=1):
        return True
    return False
