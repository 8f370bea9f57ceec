"""Retrieve metaphors: by similarity, by learned rewards, and by generation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from retrieval.adapters.embedders.batching import all_of
from retrieval.apps.metaphors.answering import (
    NO_MODEL,
    Answers,
    Entry,
    RetrievalModel,
    Retrieved,
    Searches,
    explored_entries,
    explored_items,
    learned_entries,
    relevance_of_each,
    retrieved,
)
from retrieval.apps.metaphors.corpus import MetaphorCorpus, text_vector
from retrieval.apps.metaphors.generator import Generator, SuggestionRequest, Suggestions, names_of
from retrieval.apps.metaphors.metaphor import Metaphor, checked_metaphor, checked_metaphors, checked_text
from retrieval.apps.metaphors.problem import (
    LIMIT_MAX,
    MetaphorSearch,
    Problem,
    checked_context,
    checked_ids,
    checked_limit,
    checked_problem,
    checked_problems,
    session_of,
    situation_of,
)
from retrieval.apps.metaphors.ranking import (
    AWAY,
    GENERATE_AFTER_BACKTRACKS,
    GENERATE_BELOW,
    DirectionPreference,
    away_from,
    context_after,
    preference_after,
)
from retrieval.domain.checks import check_flags, check_functions, checked_number, checked_positive, checked_whole
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.items.embedding import Vector, checked_vectors
from retrieval.domain.learning.feedback import FeedbackReport
from retrieval.domain.llm import LLM, SECONDS_MAX, checked_llm
from retrieval.engine.stages import Clock
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


class MetaphorRetriever:
    """Finds candidate metaphors for problems, and learns from their outcomes."""

    def __init__(
        self,
        corpus: MetaphorCorpus,
        llm: LLM | None = None,
        *,
        platform: Platform,
        generate_below: float = GENERATE_BELOW,
        generate_after_backtracks: int = GENERATE_AFTER_BACKTRACKS,
        generation_timeout_seconds: float = GENERATION_TIMEOUT_SECONDS,
        away: float = AWAY,
        actor: str = "",
        clock: Clock = time.perf_counter,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """``corpus`` is searched; ``llm`` suggests metaphors if none in it fits (None: no suggestions).

        - ``platform``: the corpus's platform, which records the outcomes.
        - ``generate_below``, ``generate_after_backtracks``: candidates are generated below this top score (0 to 1), and
          from this number of returns on.
        - ``generation_timeout_seconds``: how long a retrieval waits for suggestions, above 0.
        - ``away``: how far a query is moved away from a failed metaphor, 0 (not at all) to 1.
        - ``actor``: the actor to record.
        - ``clock``: seconds that never decrease, for times in metrics and limits. ``now``: the time of suggestions; by
          default the platform's.

        Raises ``InvalidRequestError``, naming the invalid argument.
        """
        if not isinstance(corpus, MetaphorCorpus) or not isinstance(platform, Platform):
            raise InvalidRequestError(
                "a retriever needs a corpus and its platform: "
                "MetaphorRetriever(await MetaphorCorpus.open(platform), platform.llm, platform=platform)"
            )
        self._platform = platform
        self.corpus = corpus
        check_functions(clock=clock, now=now)
        self._away = checked_number("away", away)
        self._clock = clock
        seconds = checked_positive("generation_timeout_seconds", generation_timeout_seconds, "20", SECONDS_MAX)
        model = checked_llm(llm)
        self._generator = None if model is None else Generator(corpus, model, now or (lambda: platform.now), seconds)
        self._searches = Searches(collection=corpus.collection, actor=checked_text("actor", actor))
        self._answers = Answers(
            corpus=corpus,
            searches=self._searches,
            generator=self._generator,
            below=checked_number("generate_below", generate_below),
            after_backtracks=checked_whole("generate_after_backtracks", generate_after_backtracks, 0),
            seconds=seconds,
            clock=clock,
        )
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
        backtracks: int = 0,
    ) -> Retrieved:
        """The best metaphors for the problem, each with its score from 0 to 1, best first.

        A score is the similarity (the cosine, at least 0), or once a model is trained, 0.4 × similarity + 0.6 ×
        expected reward. If the best score is low, ``context`` contains "no good candidates", there are enough
        ``backtracks``, or the domain is unusual, candidates are generated and join with the score 0.9 × similarity. If
        the language model fails, the answer has no suggestions, and ``notes`` give the reason.

        ``limit``: 1 to 1000. ``exclude``: ids to leave out. ``context``: why the caller returns with the problem.
        ``prefer_concrete`` and ``prefer_rich_operations`` replace 0.3 of the similarity's weight. Raises
        ``InvalidRequestError`` (``InvalidLimitError``, ``InvalidVectorError``) and the errors of ``Collection.search``.
        """
        check_flags(prefer_concrete=prefer_concrete, prefer_rich_operations=prefer_rich_operations)
        return await self._answer(
            MetaphorSearch(
                problem=checked_problem(problem),
                limit=checked_limit(limit),
                exclude=checked_ids(exclude),
                why=checked_context(context),
                preference=DirectionPreference(concrete=prefer_concrete, rich=prefer_rich_operations),
                backtracks=checked_whole("backtracks", backtracks, 0),
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

        The reason "too abstract" prefers concrete metaphors, "missing concept" those with many operations. The query's
        vector is moved away from the failed metaphor's. ``backtracks``: how often the caller has returned; None: the
        number of excluded metaphors, including the failed one, so pass it if ``exclude`` has untried ones. From two on,
        candidates are generated. Raises as ``retrieve`` does.
        """
        failed = checked_metaphor("failed_metaphor", failed_metaphor)
        reason = checked_text("failure_reason", failure_reason)
        excluded = tuple(dict.fromkeys([*checked_ids(exclude), failed.id]))
        search = MetaphorSearch(
            problem=checked_problem(problem),
            limit=checked_limit(limit),
            exclude=excluded,
            why=context_after(failed, reason),
            preference=preference_after(reason),
            backtracks=len(excluded) if backtracks is None else checked_whole("backtracks", backtracks, 0),
        )
        return await self._answer(await self._moved(search, failed))

    async def retrieve_by_embedding(self, problem: Problem, limit: int | None = None) -> Retrieved:
        """The corpus by similarity alone, best first: at most ``limit``, by default 1000. Not recorded."""
        start, search = self._clock(), self._all(problem, limit)
        return self._unrecorded(search, await self._searches.similar(search), start)

    async def retrieve_by_learning(self, problem: Problem, limit: int | None = None) -> Retrieved:
        """The corpus by expected reward alone; by similarity, with a note, until a model is trained.

        Best first, at most ``limit``, by default 1000. Not recorded.
        """
        start, search = self._clock(), self._all(problem, limit)
        if not await self.model.is_trained():
            entries = await self._searches.similar(search)
            return self._unrecorded(search, entries, start, "nothing is learned yet: these are by similarity")
        return self._unrecorded(search, (await self._learned(search))[: search.limit], start)

    async def retrieve_by_generation(self, problem: Problem, existing_candidates: Sequence[Metaphor]) -> Suggestions:
        """At most three metaphors that a language model suggests, stored as candidates; none without a model.

        The ``notes`` of the returned list give the reasons of refused suggestions, or that there is no model.
        ``existing_candidates``: tried metaphors that do not fit well. Raises ``LLMUnavailableError`` and
        ``LLMRejectedError``, also for an answer without a usable metaphor, in contrast to ``retrieve``.
        """
        tried = names_of(checked_metaphors("existing_candidates", existing_candidates))
        request = SuggestionRequest(problem=checked_problem(problem), tried=tried)
        if self._generator is None:
            return Suggestions(notes=(NO_MODEL,))
        return await self._generator.suggestions(request)

    async def retrieve_with_exploration(
        self, problem: Problem, exploration_rate: float = EXPLORATION_RATE, limit: int | None = None
    ) -> Retrieved:
        """The corpus by expected reward + rate × its standard deviation, which favours less tried metaphors.

        Until a model is trained, by similarity + rate × the standard deviation by the metaphor's own counts. Best
        first, at most ``limit``, by default 1000. Recorded, with metaphors that only the bonus shows as explored.
        """
        rate = checked_number("exploration_rate", exploration_rate, RATE_MAX)
        start, search = self._clock(), self._all(problem, limit)
        whole = replace(search, limit=LIMIT_MAX)
        is_trained = await self.model.is_trained()
        base = await (self._learned(whole) if is_trained else self._searches.similar(whole))
        relevance = relevance_of_each(base)
        expected = await self.model.expectations(search.problem, list(relevance), relevance)
        shown = explored_entries(base, expected, rate)[: search.limit]
        notes = () if is_trained else ("nothing is learned yet: similarity stands for the expected reward",)
        origin = "metaphors.retrieve_with_exploration"
        return self._with_collection(
            await self._answers.composed(
                search, shown, explored_items(shown, base), origin=origin, started=start, notes=notes
            )
        )

    async def retrieve_batch(self, problems: Iterable[Problem], limit: int = LIMIT) -> dict[str, Retrieved]:
        """The answers of ``retrieve`` for each problem, by its id; one call embeds all problems.

        The whole batch waits for suggestions as long as one ``retrieve``; ``notes`` name the problems without.
        """
        checked, limit = checked_problems(problems), checked_limit(limit)
        bare = [problem for problem in checked if problem.embedding is None]
        texts = [problem.description for problem in bare]
        vectors: Sequence[Vector] = list(await self.corpus.collection.vectors_of(texts)) if texts else []
        embeddings = {problem.id: tuple(vector.tolist()) for problem, vector in zip(bare, vectors, strict=True)}
        searches = [
            MetaphorSearch(
                problem=replace(problem, embedding=embeddings.get(problem.id, problem.embedding)),
                limit=limit,
                until=self._clock() + self._answers.seconds,
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
        """Record the outcome of a retrieved metaphor: ``helpful`` or ``reward`` (0 to 1).

        It counts in the problem's domain, range of complexity and cluster. It may settle a candidate, which then joins
        the corpus or is rejected. Raises ``InvalidRequestError`` and the errors of ``Platform.feedback``.
        """
        if not isinstance(answer, Retrieved):
            raise InvalidRequestError(f"answer is {answer!r:.80}; give the answer of a retrieve call")
        if answer.collection not in ("", self.corpus.collection.name):
            raise InvalidRequestError(
                f"the answer is of corpus {answer.collection!r}, this retriever's is {self.corpus.collection.name!r}; "
                "record the outcome with a retriever of that corpus"
            )
        item_id = metaphor if isinstance(metaphor, str) else checked_metaphor("metaphor", metaphor).id
        is_recorded = answer.retrieval_id is not None
        report = await self._platform.feedback(
            answer.retrieval_id,
            item_id,
            helpful=helpful,
            reward=reward,
            collection=None if is_recorded else self.corpus.collection.name,
            context=None if is_recorded else situation_of(answer.problem),
            session="" if is_recorded else session_of(answer.problem),
            actor=self._searches.actor,
            note=note,
            new=True,
        )
        # The verdict is stored even if the metaphor was deleted meanwhile.
        with suppress(UnknownItemError):
            await self.corpus.settle(item_id)
        return report

    def _all(self, problem: Problem, limit: int | None) -> MetaphorSearch:
        return MetaphorSearch(
            problem=checked_problem(problem), limit=LIMIT_MAX if limit is None else checked_limit(limit)
        )

    async def _learned(self, search: MetaphorSearch) -> list[Entry]:
        metaphors = [metaphor async for metaphor in self.corpus]
        similar = await self._searches.similar(replace(search, limit=LIMIT_MAX))
        relevance = relevance_of_each(similar)
        expected = await self.model.expectations(search.problem, [metaphor.id for metaphor in metaphors], relevance)
        return learned_entries(metaphors, expected, relevance)

    async def _moved(self, search: MetaphorSearch, failed: Metaphor) -> MetaphorSearch:
        """The search with its query moved away from the failed metaphor."""
        if not self._away:
            return search
        collection = self.corpus.collection
        stored = (await collection.embeddings([failed.id])).get(failed.id)
        away = await text_vector(collection, failed) if stored is None else stored
        question = await self._question(search.problem)
        return replace(search, moved=away_from(question, away, self._away), about=question)

    async def _question(self, problem: Problem) -> Vector:
        """The problem's vector."""
        if problem.embedding is not None:
            return await self._checked_vector(problem.embedding)
        vector: Vector = (await self.corpus.collection.vectors_of([problem.description]))[0]
        return vector

    async def _checked_vector(self, embedding: tuple[float, ...]) -> Vector:
        """A problem's own vector. Raises ``InvalidVectorError`` if it is not of the corpus's space."""
        space = await self.corpus.collection.space()
        if space is None:
            raise InvalidRequestError("the corpus has no embedding space; configure an embedder and open it again")
        vector: Vector = checked_vectors([embedding], space, ["the problem"])[0]
        return vector

    def _unrecorded(self, search: MetaphorSearch, entries: Sequence[Entry], start: float, *notes: str) -> Retrieved:
        return self._with_collection(retrieved(search, entries, None, (self._clock() - start) * 1e3, notes=notes))

    async def _answer(self, search: MetaphorSearch) -> Retrieved:
        answer = self._with_collection(await self._answers.answer(search))
        if len(answer) < search.limit and (info := await self.corpus.collection.info()).pending:
            answer.notes += (f"{info.pending} of {info.items} {WAITING}",)
        return answer

    def _with_collection(self, answer: Retrieved) -> Retrieved:
        answer.collection = self.corpus.collection.name
        return answer
