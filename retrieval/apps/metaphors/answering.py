"""Answer a retrieval of metaphors: its sources, its contents and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.generator import Generator, SuggestionRequest, Suggestions, names_of
from retrieval.apps.metaphors.metaphor import IN_CORPUS, Metaphor, checked_metaphor, metaphor_of
from retrieval.apps.metaphors.problem import MetaphorSearch, Problem, checked_problem, situation_of
from retrieval.apps.metaphors.ranking import (
    LEARNED_SHARE,
    DirectionPreference,
    Scored,
    untried_explanation,
    untried_score,
    why_generate,
)
from retrieval.apps.probation import ACTIVE, CANDIDATE
from retrieval.collection import Collection, handle_of
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.learning.arm import Expectation
from retrieval.domain.records.search_record import score_spread
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.domain.search.hit import Contribution, Explanation, Hit, SearchResult
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.serialization import Serializable
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.learning import count_verdicts, is_trained
from retrieval.engine.stages import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalMetrics(Serializable):
    """The measurements of a retrieval; the view ``analytics_queries`` has the same by its ``retrieval_id``.

    For an empty answer the scores are 0 here and NULL in the view.
    """

    retrieval_time_ms: float = 0.0
    """The milliseconds of finding and ranking the candidates."""
    top_score: float = 0.0
    """The highest score; 0 without metaphors."""
    score_spread: float = 0.0
    """The first score minus the fifth, or minus the last if there are fewer; 0 without metaphors."""
    generation_triggered: bool = False
    """Whether generation was triggered: a model was asked, or its earlier suggestions were used."""
    backtrack_count: int = 0
    """The number of times that the caller has returned with this problem."""


class Retrieved(list[Scored]):
    """Pairs of metaphor and score, best first."""

    problem: Problem
    """The problem that was asked about."""
    retrieval_id: UUID | None
    """The id of the recorded answer, for outcomes, figures and replay; None: it is not recorded."""
    metrics: RetrievalMetrics
    explanations: tuple[Explanation, ...]
    """The explanations of the scores, in the same order."""
    notes: tuple[str, ...]
    """Notes for the caller, such as why nothing was generated."""
    why_generated: str | None
    """The reason why candidates were generated; None: they were not."""
    collection: str = ""
    """The collection of the corpus; empty: unknown."""

    def __init__(
        self,
        pairs: Iterable[Scored] = (),
        *,
        problem: Problem,
        retrieval_id: UUID | None = None,
        metrics: RetrievalMetrics = RetrievalMetrics(),
        explanations: Iterable[Explanation] = (),
        notes: Iterable[str] = (),
        why_generated: str | None = None,
    ) -> None:
        super().__init__(pairs)
        self.problem = problem
        self.retrieval_id = retrieval_id
        self.metrics = metrics
        self.explanations = tuple(explanations)
        self.notes = tuple(notes)
        self.why_generated = why_generated


class RetrievalModel:
    """The learned reward of a corpus's metaphors.

    It predicts by the verdicts on each metaphor in the problem's domain, range of complexity (thirds) and cluster of
    embeddings; see docs/concepts/learning.md.
    """

    def __init__(self, corpus: MetaphorCorpus) -> None:
        self._corpus = corpus

    async def is_trained(self) -> bool:
        """Whether a model is in use; without one, predictions follow only from a metaphor's counts."""
        return await is_trained(handle_of(self._corpus.collection))

    async def predict(self, problem: Problem, metaphor: Metaphor) -> float:
        """The expected reward of the metaphor, 0 to 1. Raises ``UnknownItemError`` if it is not in the corpus."""
        return (await self._expectation(problem, metaphor)).mean

    async def get_uncertainty(self, problem: Problem, metaphor: Metaphor) -> float:
        """The expected error of that prediction, 0 to 0.5. Raises ``UnknownItemError`` if it is not in the corpus.

        See ``Expectation.uncertainty``: it never rises with use. Unlike 1 / uses, it is finite for an untried metaphor
        and on the scale of the reward.
        """
        return (await self._expectation(problem, metaphor)).uncertainty

    async def _expectation(self, problem: Problem, metaphor: Metaphor) -> Expectation:
        key = checked_metaphor("metaphor", metaphor).id
        if not await self._corpus.get([key]):
            raise UnknownItemError(f"metaphor {key!r:.80} is not in the corpus; add it first: await corpus.add(...)")
        return (await self.expectations(problem, [key]))[key]

    async def expectations(
        self, problem: Problem, ids: Sequence[str], relevance: Mapping[str, float] | None = None
    ) -> dict[str, Expectation]:
        """The expected reward of each of these metaphors, by id, in one call; see ``Collection.expectations``.

        ``relevance``: the similarity of each, 0 to 1 by id; models that are fitted on many verdicts use it.
        """
        problem = checked_problem(problem)
        return await self._corpus.collection.expectations(
            ids,
            context=situation_of(problem),
            vector=problem.embedding,
            query=None if problem.embedding is not None else problem.description,
            relevance=relevance,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A metaphor in an answer."""

    metaphor: Metaphor
    score: float
    relevance: float
    """The metaphor's relevance, 0 to 1, the input of a model of the learned reward."""
    explanation: Explanation

    @property
    def shown(self) -> ShownItem:
        """The item to record."""
        return ShownItem(item_id=self.metaphor.id, score=self.score, signals={"relevance": self.relevance})


@dataclass(frozen=True, slots=True, kw_only=True)
class Searches:
    """Searches of the corpus's collection, recorded and unrecorded."""

    collection: Collection
    actor: str = ""

    async def answer(self, search: MetaphorSearch) -> SearchResult:
        """The best metaphors of the corpus, recorded."""
        return await self._of_corpus(self.collection, search)

    async def look(self, search: MetaphorSearch) -> SearchResult:
        """The best metaphors of the corpus, unrecorded, because the answer may contain candidates too."""
        return await self._of_corpus(await self._unrecorded(), search)

    async def similar(self, search: MetaphorSearch, status: str = ACTIVE) -> list[Entry]:
        """The best metaphors by similarity alone, unrecorded."""
        collection = await self._unrecorded()
        profile = replace(search.profile(collection.profile), learned=Learned(combination=Combination.OFF))
        hits = await collection.search(
            search.problem.description,
            vector=search.vector,
            where=search.where(status),
            limit=search.limit,
            profile=profile,
            syntax=False,
        )
        return entries(hits)

    async def candidates(self, search: MetaphorSearch) -> list[Entry]:
        """The untried candidates, by 0.9 × similarity, without preferences."""
        plain = replace(search, preference=DirectionPreference())
        return [
            Entry(
                metaphor=entry.metaphor,
                score=untried_score(entry.score),
                relevance=entry.score,
                explanation=untried_explanation(entry.score, rank),
            )
            for rank, entry in enumerate(await self.similar(plain, CANDIDATE), 1)
        ]

    async def _unrecorded(self) -> Collection:
        """The collection, refreshed, because an older handle would not use a new model."""
        await self.collection.refresh(older_than_seconds=FRESH_SECONDS)
        return self.collection.unrecorded()

    async def _of_corpus(self, collection: Collection, search: MetaphorSearch) -> SearchResult:
        default = collection.profile
        profile = search.profile(default)
        return await collection.search(
            search.problem.description,
            vector=search.vector,
            about=search.about,
            where=search.where(ACTIVE),
            limit=search.limit,
            profile=None if profile is default else profile,
            syntax=False,
            context=search.context(actor=self.actor),
        )


def entries(hits: Sequence[Hit]) -> list[Entry]:
    """The hits as metaphors."""
    return [
        Entry(metaphor=metaphor_of(hit), score=hit.score, relevance=relevance_of(hit), explanation=hit.explanation)
        for hit in hits
    ]


def relevance_of(hit: Hit) -> float:
    """The part of the score without the learned reward, 0 to 1."""
    learned = [part for part in hit.explanation.contributions if part.leg == "learned"]
    if not learned:
        return hit.score
    share = learned[0].weight if learned[0].weight < 1 else LEARNED_SHARE
    return (hit.score - learned[0].value) / (1 - share)


RELEVANCE_MAX = 1 + 1e-6
"""The largest cosine after rounding."""


def relevance_of_each(hits: Iterable[Entry]) -> dict[str, float]:
    """The relevance of each metaphor, 0 to 1, by id. Raises ``InvalidRequestError`` for scores that are not cosines."""
    relevance = {entry.metaphor.id: entry.relevance for entry in hits}
    if any(not 0 <= value <= RELEVANCE_MAX for value in relevance.values()):
        raise InvalidRequestError(
            "the profile of the corpus's collection gives scores outside 0 to 1, which cannot be combined with learned "
            "rewards; set METAPHORS_PROFILE, or a profile with only the leg dense and the fusion union"
        )
    return {key: min(1.0, value) for key, value in relevance.items()}


def learned_entries(
    metaphors: Iterable[Metaphor], expected: Mapping[str, Expectation], relevance: Mapping[str, float]
) -> list[Entry]:
    """The metaphors by their expected rewards; those without one are left out."""
    with_reward = [metaphor for metaphor in metaphors if metaphor.id in expected]
    best = sorted(with_reward, key=lambda entry: (-expected[entry.id].mean, entry.id))
    return [
        _entry(metaphor, relevance.get(metaphor.id, 0.0), [_part("learned", rank, expected[metaphor.id].mean)])
        for rank, metaphor in enumerate(best, 1)
    ]


def explored_entries(base: Sequence[Entry], expected: Mapping[str, Expectation], rate: float) -> list[Entry]:
    """The entries by score + rate × uncertainty of the expected reward, best first, then by id."""
    bonus = {
        entry.metaphor.id: expected[entry.metaphor.id].uncertainty for entry in base if entry.metaphor.id in expected
    }
    most_uncertain = sorted(bonus, key=lambda key: (-bonus[key], key))
    ranks = {key: rank for rank, key in enumerate(most_uncertain, 1)}
    explored = []
    for entry in base:
        key, parts = entry.metaphor.id, list(entry.explanation.contributions)
        if key in bonus:
            parts.append(_part("uncertainty", ranks[key], bonus[key], rate))
        explored.append(_entry(entry.metaphor, entry.relevance, parts))
    return sorted(explored, key=lambda entry: (-entry.score, entry.metaphor.id))


def explored_items(shown: Sequence[Entry], base: Sequence[Entry]) -> list[ShownItem]:
    """The items to record: an item that is shown only for its uncertainty is explored."""
    best_ids = {entry.metaphor.id for entry in base[: len(shown)]}
    return [
        entry.shown if entry.metaphor.id in best_ids else replace(entry.shown, slot=Slot.EXPLORE) for entry in shown
    ]


def _entry(metaphor: Metaphor, relevance: float, parts: Sequence[Contribution]) -> Entry:
    explanation = Explanation("union", tuple(parts))
    return Entry(metaphor=metaphor, score=explanation.score, relevance=relevance, explanation=explanation)


def _part(leg: str, rank: int, raw: float, weight: float = 1.0) -> Contribution:
    return Contribution(leg, rank, raw, weight, weight * raw)


TRIED = 3
"""The number of the corpus's best metaphors that the prompt names as not fitting well, before the excluded ones."""

NO_MODEL = "nothing was generated: there is no language model; give the retriever one, such as platform.llm"

LATE = "nothing was generated: the batch's time for suggestions is used up; ask again for this problem alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers the retrievals of a corpus."""

    corpus: MetaphorCorpus
    searches: Searches
    generator: Generator | None
    """None: no language model."""
    below: float
    """The top score, 0 to 1, below which candidates are generated."""
    after_backtracks: int
    """The number of returns from which candidates are generated."""
    seconds: float
    """The time to wait for suggestions."""
    clock: Clock

    async def answer(self, search: MetaphorSearch) -> Retrieved:
        """The best metaphors of the corpus, with candidates if the rules require them and there are any."""
        start = self.clock()
        if not await self._may_generate(search):
            return self._of_corpus(search, await self.searches.answer(search))
        hits = await self.searches.look(replace(search, limit=max(search.limit, TRIED)))
        why = await self._why_generate(search, hits)
        if why is None:
            return self._of_corpus(search, await self.searches.answer(search))
        search = replace(search, notes=(*search.notes, *hits.notes))
        return await self._with_candidates(search, entries(hits), why, start)

    async def composed(
        self, search: MetaphorSearch, shown: Sequence[Entry], items: Sequence[ShownItem], *, origin: str,
        started: float, why_generated: str | None = None, notes: Sequence[str] = (),
    ) -> Retrieved:  # fmt: skip
        """Record an answer that combines several searches."""
        milliseconds = (self.clock() - started) * 1e3
        context = search.context(actor=self.searches.actor, is_generated=why_generated is not None)
        retrieval_id = await self.corpus.collection.record_answer(
            search.problem.description,
            items,
            context=context,
            vector=search.vector,
            about=search.about,
            origin=origin,
            retrieval_time_ms=milliseconds,
            notes=notes,
        )
        return retrieved(search, shown, retrieval_id, milliseconds, why_generated=why_generated, notes=notes)

    async def _may_generate(self, search: MetaphorSearch) -> bool:
        """Whether there is a model to ask, or a candidate of an earlier suggestion."""
        if self.generator is not None:
            return True
        stored = await self.corpus.collection.refresh(older_than_seconds=FRESH_SECONDS)
        if stored.documents <= len(self.corpus.static):
            return False
        return bool(await self.searches.candidates(replace(search, limit=1)))

    async def _why_generate(self, search: MetaphorSearch, hits: SearchResult) -> str | None:
        why = why_generate(
            await self._top_score(search, hits),
            search.why,
            search.backtracks,
            below=self.below,
            after_backtracks=self.after_backtracks,
        )
        domain = search.problem.domain
        if why is None and domain and await _is_unusual(self.corpus.collection, domain):
            return f"the domain {domain!r:.80} is unusual"
        return why

    async def _top_score(self, search: MetaphorSearch, hits: SearchResult) -> float:
        """The best score of the corpus for the problem itself, without moves and preferences.

        A moved query scores lower, and a preference raises scores without a better fit.
        """
        if search.moved is not None or search.preference != DirectionPreference():
            hits = await self.searches.look(replace(search, moved=None, preference=DirectionPreference(), limit=1))
        return hits[0].score if hits else 0.0

    async def _with_candidates(self, search: MetaphorSearch, corpus: list[Entry], why: str, start: float) -> Retrieved:
        suggested = await self._suggested(search, corpus, why)
        candidates = await self.searches.candidates(search)
        # Candidates that have proved themselves belong to the corpus from the next retrieval on.
        await self.corpus.settle_all()
        best = sorted([*corpus, *candidates], key=lambda entry: (-entry.score, entry.metaphor.id))[: search.limit]
        return await self.composed(
            search,
            best,
            [entry.shown for entry in best],
            origin="metaphors.retrieve",
            started=start,
            why_generated=why,
            notes=(*search.notes, *suggested.notes),
        )

    async def _suggested(self, search: MetaphorSearch, corpus: Sequence[Entry], why: str) -> Suggestions:
        """New suggestions; none while earlier suggestions for this text are untried."""
        if self.generator is None:
            return Suggestions(notes=(NO_MODEL,))
        if await self.generator.still_untried(search.problem, search.exclude):
            return Suggestions()
        failed = await self.corpus.get(search.exclude)
        tried = names_of([*(entry.metaphor for entry in corpus[:TRIED]), *failed.values()])
        request = SuggestionRequest(problem=search.problem, tried=tried, failure=search.why, why=why)
        seconds = self.seconds if search.until is None else search.until - self.clock()
        if seconds <= 0:
            return Suggestions((), (LATE,))
        return await self.generator.in_time(request, min(seconds, self.seconds))

    def _of_corpus(self, search: MetaphorSearch, hits: SearchResult) -> Retrieved:
        notes = (*search.notes, *hits.notes)
        milliseconds = hits.timings_ms.get("total", 0.0)
        return retrieved(search, entries(hits), hits.retrieval_id, milliseconds, notes=notes)


def retrieved(
    search: MetaphorSearch, shown: Sequence[Entry], retrieval_id: UUID | None, milliseconds: float, *,
    why_generated: str | None = None, notes: Sequence[str] = (),
) -> Retrieved:  # fmt: skip
    """The answer, with its figures."""
    return Retrieved(
        [(entry.metaphor, entry.score) for entry in shown],
        problem=search.problem,
        retrieval_id=retrieval_id,
        metrics=RetrievalMetrics(
            retrieval_time_ms=milliseconds,
            top_score=shown[0].score if shown else 0.0,
            score_spread=score_spread([entry.score for entry in shown]) or 0.0,
            generation_triggered=why_generated is not None,
            backtrack_count=search.backtracks,
        ),
        explanations=[entry.explanation for entry in shown],
        notes=notes,
        why_generated=why_generated,
    )


KNOWN_FROM_VERDICTS = 20
"""The number of verdicts from which a domain can be unusual: with fewer, every domain would be."""


async def _is_unusual(collection: Collection, domain: str) -> bool:
    """Whether there are enough verdicts, but none in the domain, and no metaphor comes from it."""
    handle = handle_of(collection)
    if await count_verdicts(handle, at_most=KNOWN_FROM_VERDICTS) < KNOWN_FROM_VERDICTS:
        return False
    if await _is_domain_of_metaphor(collection, domain):
        return False
    return not await count_verdicts(handle, domain=domain, at_most=1)


async def _is_domain_of_metaphor(collection: Collection, domain: str) -> bool:
    async for _ in collection.scan({**IN_CORPUS, "domain": domain}, batch=1):
        return True
    return False
