"""Retrieve metaphors: by similarity, by learned rewards, and by generation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import UUID

from retrieval.adapters.embedders.batching import all_of
from retrieval.apps.metaphors import metaphor as values
from retrieval.apps.metaphors.corpus import MetaphorCorpus, own_vector, vector_of
from retrieval.apps.metaphors.generator import Generator, SuggestionRequest, Suggestions, suggestion_prompt
from retrieval.apps.metaphors.metaphor import Entry, Metaphor, MetaphorSearch, Problem
from retrieval.apps.probation import ACTIVE, CANDIDATE
from retrieval.apps.result_list import AnswerList
from retrieval.collection import Collection, handle_of
from retrieval.domain import checks
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.arm import Expectation
from retrieval.domain.learning.context import Context
from retrieval.domain.learning.feedback import FeedbackReport
from retrieval.domain.llm import LLM, SECONDS_MAX, checked_llm
from retrieval.domain.records.search_record import score_spread
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.domain.search.hit import Explanation, SearchResult
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.serialization import Serializable
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.learning import count_verdicts, is_trained
from retrieval.platform import Platform

GENERATION_TIMEOUT_SECONDS = 20.0
EXPLORATION_RATE, RATE_MAX = 0.1, 1e6
LIMIT = 5

WAITING = (
    "metaphors wait for their vector, without which searches do not find them; "
    "make sure that the embedder answers, and open the corpus again"
)

AT_ONCE = 4
"""The problems of a batch that are answered at the same time."""

TRIED = 3
"""The number of the corpus's best metaphors that the prompt names as not fitting well, before the excluded ones."""

NO_MODEL = "nothing was generated: there is no language model; give the retriever one, such as platform.llm"

LATE = "nothing was generated: the batch's time for suggestions is used up; ask again for this problem alone"

KNOWN_FROM_VERDICTS = 20
"""The number of verdicts from which a domain can be unusual: with fewer, every domain would be."""


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


@dataclass(eq=False, repr=False, kw_only=True)
class Retrieved(AnswerList[values.ScoredMetaphor]):
    """Pairs of metaphor and score, best first."""

    problem: Problem
    """The problem that was asked about."""
    collection: str
    """The collection of the corpus."""
    metrics: RetrievalMetrics = RetrievalMetrics()
    explanations: tuple[Explanation, ...] = ()
    """The explanations of the scores, in the same order."""
    why_generated: str | None = None
    """The reason why candidates were generated; None: they were not."""


class RetrievalModel:
    """The learned reward of a corpus's metaphors, by a problem's domain, range of complexity, and cluster."""

    def __init__(self, corpus: MetaphorCorpus) -> None:
        self._corpus = corpus

    async def is_trained(self) -> bool:
        """Whether a model is in use; without one, predictions follow from a metaphor's own counts."""
        return await is_trained(handle_of(self._corpus.collection))

    async def predict(self, problem: Problem, metaphor: Metaphor) -> float:
        """The expected reward of the metaphor, 0 to 1. Raises ``UnknownItemError`` if it is not in the corpus."""
        return (await self._expectation(problem, metaphor)).mean

    async def get_uncertainty(self, problem: Problem, metaphor: Metaphor) -> float:
        """``Expectation.uncertainty`` of that prediction, 0 to 0.5. Raises ``UnknownItemError`` as ``predict`` does."""
        return (await self._expectation(problem, metaphor)).uncertainty

    async def _expectation(self, problem: Problem, metaphor: Metaphor) -> Expectation:
        key = values.checked_metaphor("metaphor", metaphor).id
        if not await self._corpus.get([key]):
            raise UnknownItemError(
                f"metaphor {checks.written(key)} is not in the corpus; add it first: await corpus.add(...)"
            )
        return (await self.expectations(problem, [key]))[key]

    async def expectations(
        self, problem: Problem, ids: Sequence[str], relevance: Mapping[str, float] | None = None
    ) -> dict[str, Expectation]:
        """The expected rewards of these metaphors, by id; see ``Collection.expectations``.

        ``relevance``: the similarity of each, 0 to 1 by id; models that are fitted on many verdicts use it.
        """
        problem = values.checked_problem(problem)
        return await self._corpus.collection.expectations(
            ids,
            context=values.situation_of(problem),
            vector=problem.embedding,
            query=None if problem.embedding is not None else problem.description,
            relevance=relevance,
        )


class MetaphorRetriever:
    """Finds candidate metaphors for problems, and learns from their outcomes."""

    def __init__(
        self,
        corpus: MetaphorCorpus,
        llm: LLM | None = None,
        *,
        platform: Platform,
        generate_below: float = values.GENERATE_BELOW,
        generate_after_backtracks: int = values.GENERATE_AFTER_BACKTRACKS,
        generation_timeout_seconds: float = GENERATION_TIMEOUT_SECONDS,
        away: float = values.AWAY,
        actor: str = "",
    ) -> None:
        """``llm`` suggests metaphors if none in the corpus fits (None: no suggestions).

        - ``platform``: the corpus's platform, which records the outcomes.
        - ``generate_below``, ``generate_after_backtracks``: candidates are generated below this top score (0 to 1), and
          from this number of returns on.
        - ``generation_timeout_seconds``: how long a retrieval waits for suggestions, above 0.
        - ``away``: how far a query is moved away from a failed metaphor, 0 (not at all) to 1.
        - ``actor``: the actor to record.

        Raises ``InvalidRequestError``.
        """
        if not isinstance(corpus, MetaphorCorpus) or not isinstance(platform, Platform):
            raise InvalidRequestError(
                "a retriever needs a corpus and its platform: "
                "MetaphorRetriever(await MetaphorCorpus.open(platform), platform.llm, platform=platform)"
            )
        self._platform = platform
        self.corpus = corpus
        self._below = checks.checked_number("generate_below", generate_below)
        self._after_backtracks = checks.checked_whole("generate_after_backtracks", generate_after_backtracks, 0)
        self._seconds = checks.checked_positive(
            "generation_timeout_seconds", generation_timeout_seconds, "20", SECONDS_MAX
        )
        model = checked_llm(llm)
        self._generator = None if model is None else Generator(corpus, model, lambda: platform.now, self._seconds)
        self._away = checks.checked_number("away", away)
        self._actor = Context(actor=actor).actor
        self.model = RetrievalModel(corpus)
        """The learned model, for single metaphors."""

    async def retrieve(
        self,
        problem: Problem,
        limit: int = LIMIT,
        exclude: Iterable[str] | None = None,
        context: str | None = None,
        *,
        prefer_concrete: bool = False,
        prefer_rich_operations: bool = False,
        backtracks: int | None = None,
    ) -> Retrieved:
        """The best metaphors for the problem, each with its score from 0 to 1, best first.

        The score is the cosine, at least 0, or once a model is trained, 0.4 × cosine + 0.6 × expected reward. Generated
        candidates join with 0.9 × cosine if the best score is low, ``context`` contains "no good candidates", there are
        enough ``backtracks``, or the domain is unusual. If a language model then suggests none, ``notes`` tell why.

        ``limit``: 1 to 1000. ``exclude``: ids to leave out. ``context``: why the caller returns with the problem.
        ``backtracks``: how often the caller has returned; None: the number of excluded ids if there is a context.
        ``prefer_concrete`` and ``prefer_rich_operations`` replace 0.3 of the similarity's weight. Raises
        ``InvalidRequestError`` (``InvalidLimitError``, ``InvalidVectorError``) and the errors of ``Collection.search``.
        """
        checks.check_flags(prefer_concrete=prefer_concrete, prefer_rich_operations=prefer_rich_operations)
        excluded, why = _distinct(exclude), values.checked_text("context", "" if context is None else context)
        if backtracks is None:
            backtracks = len(excluded) if why else 0
        return await self._answer(
            MetaphorSearch(
                problem=values.checked_problem(problem),
                limit=checks.checked_limit(limit, values.LIMIT_MAX),
                exclude=excluded,
                why=why,
                preferred=(values.CONCRETENESS,) * prefer_concrete + (values.RICHNESS,) * prefer_rich_operations,
                backtracks=checks.checked_whole("backtracks", backtracks, 0),
            )
        )

    async def retrieve_after_backtrack(
        self,
        problem: Problem,
        failed_metaphor: Metaphor,
        failure_reason: str,
        exclude: Iterable[str] | None = None,
        *,
        limit: int = LIMIT,
        backtracks: int | None = None,
    ) -> Retrieved:
        """The best metaphors after one failed, without the failed and the excluded ones.

        The reason "too abstract" prefers concrete metaphors, "missing concept" those with many operations; the query's
        vector moves away from the failed metaphor's. ``backtracks``: how often the caller has returned; None: the
        number of excluded metaphors, including the failed one. Raises as ``retrieve`` does.
        """
        failed = values.checked_metaphor("failed_metaphor", failed_metaphor)
        reason = values.checked_text("failure_reason", failure_reason)
        excluded = tuple(dict.fromkeys([*_distinct(exclude), failed.id]))
        search = MetaphorSearch(
            problem=values.checked_problem(problem),
            limit=checks.checked_limit(limit, values.LIMIT_MAX),
            exclude=excluded,
            why=f"Previous attempt with {failed.name!r} failed because: {reason}\n"
            "Looking for metaphors that avoid this issue.",
            preferred=values.preferred_after(reason),
            backtracks=len(excluded) if backtracks is None else checks.checked_whole("backtracks", backtracks, 0),
        )
        return await self._answer(await self._moved(search, failed))

    async def retrieve_by_embedding(self, problem: Problem, limit: int | None = None) -> Retrieved:
        """The corpus by similarity alone, best first: at most ``limit``, by default 1000. Not recorded."""
        start, search = time.perf_counter(), self._all(problem, limit)
        return self._retrieved(search, await self._similar(search), _since(start))

    async def retrieve_by_learning(self, problem: Problem, limit: int | None = None) -> Retrieved:
        """The corpus by expected reward alone; by similarity, with a note, until a model is trained.

        Best first, at most ``limit``, by default 1000. Not recorded.
        """
        start, search = time.perf_counter(), self._all(problem, limit)
        if await self.model.is_trained():
            return self._retrieved(search, (await self._learned(search))[: search.limit], _since(start))
        notes = ("nothing is learned yet: these are by similarity",)
        return self._retrieved(search, await self._similar(search), _since(start), notes=notes)

    async def retrieve_by_generation(self, problem: Problem, existing_candidates: Sequence[Metaphor]) -> Suggestions:
        """At most three metaphors that a language model suggests, stored as candidates; none without a model.

        The list's ``notes`` give the reasons of refused suggestions. ``existing_candidates``: tried metaphors that do
        not fit well. Raises ``LLMUnavailableError`` and ``LLMRejectedError``, also for an answer without a usable
        metaphor.
        """
        tried = [metaphor.name for metaphor in values.checked_metaphors("existing_candidates", existing_candidates)]
        prompt = suggestion_prompt(values.checked_problem(problem), tried)
        if self._generator is None:
            return Suggestions((), notes=(NO_MODEL,))
        return await self._generator.suggestions(SuggestionRequest(problem, prompt, "asked for"))

    async def retrieve_with_exploration(
        self, problem: Problem, exploration_rate: float = EXPLORATION_RATE, limit: int | None = None
    ) -> Retrieved:
        """The corpus by expected reward + rate × its uncertainty, which favours less tried metaphors.

        Until a model is trained, similarity stands for the expected reward. Best first, at most ``limit``, by default
        1000. Recorded, with metaphors that only the bonus shows as explored.
        """
        rate = checks.checked_number("exploration_rate", exploration_rate, RATE_MAX)
        start, search = time.perf_counter(), self._all(problem, limit)
        whole = replace(search, limit=values.LIMIT_MAX)
        is_trained = await self.model.is_trained()
        base = await (self._learned(whole) if is_trained else self._similar(whole))
        relevance = values.relevance_of_each(base)
        expected = await self.model.expectations(search.problem, list(relevance), relevance)
        bonus = {key: expectation.uncertainty for key, expectation in expected.items()}
        order = sorted(bonus, key=lambda key: (-bonus[key], key))
        added = {key: [values.part("uncertainty", rank, bonus[key], rate)] for rank, key in enumerate(order, 1)}
        explored = [
            values.entry_by(
                entry.metaphor, entry.relevance, *entry.explanation.contributions, *added.get(entry.metaphor.id, [])
            )
            for entry in base
        ]
        shown = sorted(explored, key=lambda entry: entry.order)[: search.limit]
        notes = () if is_trained else ("nothing is learned yet: similarity stands for the expected reward",)
        # An item that is shown only for its uncertainty is explored.
        best_ids = {entry.metaphor.id for entry in base[: len(shown)]}
        items = [
            entry.shown if entry.metaphor.id in best_ids else replace(entry.shown, slot=Slot.EXPLORE) for entry in shown
        ]
        origin = "metaphors.retrieve_with_exploration"
        return await self._recorded(search, shown, items, origin=origin, start=start, notes=notes)

    async def retrieve_batch(self, problems: Iterable[Problem], limit: int = LIMIT) -> dict[str, Retrieved]:
        """The answers of ``retrieve`` for each problem, by its id; one call embeds all problems.

        The whole batch waits for suggestions as long as one ``retrieve``; ``notes`` name the problems without.
        """
        each = checks.checked_list("problems", problems, "[Problem(id=..., description=...)]")
        checked = [values.checked_problem(problem) for problem in each]
        checks.checked_limit(limit, values.LIMIT_MAX)
        if len(checked) > values.BATCH_MAX:
            raise InvalidRequestError(f"there are {len(checked)} problems; at most {values.BATCH_MAX} in one call")
        if len({problem.id for problem in checked}) < len(checked):
            raise InvalidRequestError(
                "two problems have the same id, by which the answers are returned; give each its own"
            )
        bare = [problem for problem in checked if problem.embedding is None]
        texts = [problem.description for problem in bare]
        vectors: Sequence[Vector] = list(await self.corpus.collection.vectors_of(texts)) if texts else []
        embeddings = {problem.id: tuple(vector.tolist()) for problem, vector in zip(bare, vectors, strict=True)}
        searches = [
            MetaphorSearch(
                problem=replace(problem, embedding=embeddings.get(problem.id, problem.embedding)),
                limit=limit,
                until=time.perf_counter() + self._seconds,
            )
            for problem in checked
        ]
        turns = asyncio.Semaphore(AT_ONCE)

        async def answer(search: MetaphorSearch) -> Retrieved:
            async with turns:
                return await self._answer(search)

        answers = await all_of(map(answer, searches))
        return {problem.id: answer for problem, answer in zip(checked, answers, strict=True)}

    async def record_outcome(
        self,
        answer: Retrieved,
        metaphor: Metaphor | str,
        *,
        helpful: bool | None = None,
        reward: float | None = None,
        note: str = "",
    ) -> FeedbackReport:
        """Record the outcome of a retrieved metaphor: ``helpful`` or ``reward`` (0 to 1); it may settle a candidate.

        Raises ``InvalidRequestError`` and the errors of ``Platform.feedback``.
        """
        if not isinstance(answer, Retrieved):
            raise InvalidRequestError(f"answer is {checks.written(answer)}; give the answer of a retrieve call")
        if answer.collection != self.corpus.collection.name:
            raise InvalidRequestError(
                f"the answer is of corpus {answer.collection!r}, this retriever's is {self.corpus.collection.name!r}; "
                "record the outcome with a retriever of that corpus"
            )
        item_id = metaphor if isinstance(metaphor, str) else values.checked_metaphor("metaphor", metaphor).id
        is_recorded = answer.retrieval_id is not None
        report = await self._platform.feedback(
            answer.retrieval_id,
            item_id,
            helpful=helpful,
            reward=reward,
            collection=None if is_recorded else self.corpus.collection.name,
            context=None if is_recorded else values.situation_of(answer.problem),
            session="" if is_recorded else values.session_of(answer.problem),
            actor=self._actor,
            note=note,
            new=True,
        )
        # The verdict is stored even if the metaphor was deleted meanwhile.
        with suppress(UnknownItemError):
            await self.corpus.settle(item_id)
        return report

    def _all(self, problem: Problem, limit: int | None) -> MetaphorSearch:
        return MetaphorSearch(
            problem=values.checked_problem(problem),
            limit=values.LIMIT_MAX if limit is None else checks.checked_limit(limit, values.LIMIT_MAX),
        )

    async def _learned(self, search: MetaphorSearch) -> list[Entry]:
        """The metaphors by their expected rewards; those without one are left out."""
        metaphors = {metaphor.id: metaphor async for metaphor in self.corpus}
        relevance = values.relevance_of_each(await self._similar(replace(search, limit=values.LIMIT_MAX)))
        expected = await self.model.expectations(search.problem, list(metaphors), relevance)
        best = sorted(metaphors.keys() & expected.keys(), key=lambda key: (-expected[key].mean, key))
        return [
            values.entry_by(metaphors[key], relevance.get(key, 0.0), values.part("learned", rank, expected[key].mean))
            for rank, key in enumerate(best, 1)
        ]

    async def _moved(self, search: MetaphorSearch, failed: Metaphor) -> MetaphorSearch:
        """The search with its query moved away from the failed metaphor."""
        if not self._away:
            return search
        collection = self.corpus.collection
        stored = (await collection.embeddings([failed.id])).get(failed.id)
        away = await vector_of(collection, failed) if stored is None else stored
        question = await own_vector(collection, search.problem.embedding, search.problem.id)
        if question is None:
            [question] = await collection.vectors_of([search.problem.description])
        return replace(search, moved=values.away_from(question, away, self._away), about=question)

    async def _answer(self, search: MetaphorSearch) -> Retrieved:
        """The best metaphors of the corpus, with candidates if the rules require them and there are any."""
        answer = await self._with_candidates(search) if await self._may_generate(search) else None
        if answer is None:
            hits = await self._search(self.corpus.collection, search)
            milliseconds = hits.timings_ms.get("total", 0.0)
            shown = [*map(values.entry_of, hits)]
            answer = self._retrieved(search, shown, milliseconds, hits.retrieval_id, notes=hits.notes)
        if len(answer) < search.limit and (info := await self.corpus.collection.info()).pending:
            answer.notes += (f"{info.pending} of {info.items} {WAITING}",)
        return answer

    async def _may_generate(self, search: MetaphorSearch) -> bool:
        """Whether there is a model to ask, or a candidate of an earlier suggestion."""
        if self._generator is not None:
            return True
        stored = await self.corpus.collection.refresh(older_than_seconds=FRESH_SECONDS)
        if stored.documents <= len(self.corpus.static):
            return False
        return bool(await self._candidates(replace(search, limit=1)))

    async def _with_candidates(self, search: MetaphorSearch) -> Retrieved | None:
        """The best of the corpus and of the candidates; None: the rules require no candidates."""
        start = time.perf_counter()
        # Unrecorded, because the answer contains candidates too.
        hits = await self._search(await self._unrecorded(), replace(search, limit=max(search.limit, TRIED)))
        why = await self._why_generate(search, hits)
        if why is None:
            return None
        corpus = [*map(values.entry_of, hits)]
        suggested = await self._suggested(search, corpus, why)
        candidates = await self._candidates(search)
        # Candidates that have proved themselves belong to the corpus from the next retrieval on.
        await self.corpus.settle_all()
        best = sorted([*corpus, *candidates], key=lambda entry: entry.order)[: search.limit]
        return await self._recorded(
            search,
            best,
            [entry.shown for entry in best],
            origin="metaphors.retrieve",
            start=start,
            why_generated=why,
            notes=(*hits.notes, *suggested.notes),
        )

    async def _why_generate(self, search: MetaphorSearch, hits: SearchResult) -> str | None:
        if search.moved is not None or search.preferred:
            # The problem itself counts: a moved query scores lower, a preference raises scores without a better fit.
            hits = await self._search(await self._unrecorded(), replace(search, moved=None, preferred=(), limit=1))
        why = values.why_generate(
            hits[0].score if hits else 0.0,
            search.why,
            search.backtracks,
            below=self._below,
            after_backtracks=self._after_backtracks,
        )
        domain, handle = search.problem.domain, handle_of(self.corpus.collection)
        if why is not None or not domain:
            return why
        # A domain is unusual if there are enough verdicts, but none in it, and no metaphor comes from it.
        if await count_verdicts(handle, at_most=KNOWN_FROM_VERDICTS) < KNOWN_FROM_VERDICTS:
            return None
        if await count_verdicts(handle, domain=domain, at_most=1):
            return None
        is_known = domain in {metaphor.domain.strip().casefold() async for metaphor in self.corpus}
        return None if is_known else f"the domain {checks.written(domain)} is unusual"

    async def _suggested(self, search: MetaphorSearch, corpus: Sequence[Entry], why: str) -> Suggestions:
        """New suggestions; none while earlier suggestions for this text are untried."""
        if self._generator is None:
            return Suggestions((), notes=(NO_MODEL,))
        if await self._generator.still_untried(search.problem, search.exclude):
            return Suggestions(())
        failed = await self.corpus.get(search.exclude)
        tried = [*(entry.metaphor for entry in corpus[:TRIED]), *failed.values()]
        prompt = suggestion_prompt(search.problem, [metaphor.name for metaphor in tried], search.why)
        seconds = self._seconds if search.until is None else search.until - time.perf_counter()
        if seconds <= 0:
            return Suggestions((), notes=(LATE,))
        request = SuggestionRequest(search.problem, prompt, why)
        return await self._generator.in_time(request, min(seconds, self._seconds))

    async def _search(
        self, collection: Collection, search: MetaphorSearch, status: str = ACTIVE, *, is_learned: bool = True
    ) -> SearchResult:
        """The best metaphors of that status, with the learned reward or by similarity alone."""
        profile = search.profile(collection.profile)
        if not is_learned:
            profile = replace(profile, learned=Learned(combination=Combination.OFF))
        return await collection.search(
            search.problem.description,
            vector=search.vector,
            about=search.about,
            where=search.where(status),
            limit=search.limit,
            profile=None if profile is collection.profile else profile,
            syntax=False,
            context=search.context(actor=self._actor),
        )

    async def _unrecorded(self) -> Collection:
        """The collection, refreshed, because an older handle would not use a new model."""
        await self.corpus.collection.refresh(older_than_seconds=FRESH_SECONDS)
        return self.corpus.collection.unrecorded()

    async def _similar(self, search: MetaphorSearch, status: str = ACTIVE) -> list[Entry]:
        """The best metaphors by similarity alone, unrecorded."""
        hits = await self._search(await self._unrecorded(), search, status, is_learned=False)
        return [*map(values.entry_of, hits)]

    async def _candidates(self, search: MetaphorSearch) -> list[Entry]:
        """The untried candidates, without preferences, the most similar first, by 0.9 × similarity."""
        similar = await self._similar(replace(search, preferred=()), CANDIDATE)
        return [
            values.entry_by(
                entry.metaphor,
                entry.score,
                values.part("generated", rank, entry.score, values.UNTRIED_SHARE),
                kind="generated",
            )
            for rank, entry in enumerate(similar, 1)
        ]

    async def _recorded(
        self, search: MetaphorSearch, shown: Sequence[Entry], items: Sequence[ShownItem], *, origin: str,
        start: float, why_generated: str | None = None, notes: tuple[str, ...] = (),
    ) -> Retrieved:  # fmt: skip
        """Record an answer that combines several searches."""
        milliseconds = _since(start)
        retrieval_id = await self.corpus.collection.record_answer(
            search.problem.description,
            items,
            context=search.context(actor=self._actor, is_generated=why_generated is not None),
            vector=search.vector,
            about=search.about,
            origin=origin,
            retrieval_time_ms=milliseconds,
            notes=notes,
        )
        return self._retrieved(search, shown, milliseconds, retrieval_id, why_generated=why_generated, notes=notes)

    def _retrieved(
        self,
        search: MetaphorSearch,
        shown: Sequence[Entry],
        milliseconds: float,
        retrieval_id: UUID | None = None,
        *,
        why_generated: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> Retrieved:
        """The answer, with its figures."""
        return Retrieved(
            [(entry.metaphor, entry.score) for entry in shown],
            problem=search.problem,
            collection=self.corpus.collection.name,
            retrieval_id=retrieval_id,
            metrics=RetrievalMetrics(
                retrieval_time_ms=milliseconds,
                top_score=shown[0].score if shown else 0.0,
                score_spread=score_spread([entry.score for entry in shown]) or 0.0,
                generation_triggered=why_generated is not None,
                backtrack_count=search.backtracks,
            ),
            explanations=tuple(entry.explanation for entry in shown),
            notes=notes,
            why_generated=why_generated,
        )


def _since(start: float) -> float:
    """The milliseconds since ``start``, in seconds of ``time.perf_counter``."""
    return (time.perf_counter() - start) * 1e3


def _distinct(exclude: Iterable[str] | None) -> tuple[str, ...]:
    """The ids, each once. Raises ``InvalidRequestError`` for ids that are not texts."""
    ids = () if exclude is None else exclude
    return tuple(dict.fromkeys(checks.checked_texts("the ids to exclude", ids, "['chess']")))
