"""Retrieval of metaphors: by similarity, by learned rewards, and by generation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from retrieval.apps.metaphors.answering import (
    NO_MODEL,
    Answers,
    Entry,
    RetrievalModel,
    Retrieved,
    Rules,
    Searches,
    explored_entries,
    explored_items,
    learned_entries,
    relevance_of_each,
    retrieved,
)
from retrieval.apps.metaphors.corpus import MetaphorCorpus, text_vector
from retrieval.apps.metaphors.generator import Generator, Suggested, Wanted, names_of
from retrieval.apps.metaphors.metaphor import Metaphor, checked_text
from retrieval.apps.metaphors.problem import (
    LIMIT_MAX,
    MetaphorSearch,
    Problem,
    checked_context,
    checked_count,
    checked_flag,
    checked_ids,
    checked_limit,
    checked_llm,
    checked_metaphor,
    checked_metaphors,
    checked_problem,
    checked_problems,
    checked_rate,
    checked_seconds,
    checked_share,
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
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.items.embedding import Vector, checked_vectors
from retrieval.domain.learning.feedback import FeedbackReport
from retrieval.domain.llm import LLM
from retrieval.engine.stages import Clock
from retrieval.platform import Platform

T = TypeVar("T")


GENERATION_TIMEOUT_SECONDS = 20.0
EXPLORATION_RATE = 0.1
LIMIT = 5

WAITING = (
    "metaphors wait for their vector, without which they are not found; "
    "see that the embedder answers, and open the corpus again"
)

AT_ONCE = 4
"""Problems of a batch that are answered at once."""


def utc_now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


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
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``corpus`` is searched; ``llm`` suggests metaphors if none in it fits (None: no suggestions).

        - ``platform``: the one that the corpus is on, which takes the outcomes.
        - ``generate_below``, ``generate_after_backtracks``: the top score (0 to 1) and the number of returns that call
          for generation.
        - ``generation_timeout_seconds``: how long a retrieval waits for suggestions before it goes without, above 0.
        - ``away``: how far a question is moved away from a metaphor that failed, 0 (not at all) to 1.
        - ``actor``: who asks, as it is recorded.

        Raises ``InvalidRequestError``, naming what cannot be.
        """
        if not isinstance(corpus, MetaphorCorpus) or not isinstance(platform, Platform):
            raise InvalidRequestError(
                "a retriever needs a corpus and its platform: "
                "MetaphorRetriever(await MetaphorCorpus.open(platform), platform.llm, platform=platform)"
            )
        self._platform = platform
        self.corpus = corpus
        self._away = checked_share("away", away)
        self._clock = clock
        seconds = checked_seconds(generation_timeout_seconds)
        self._generator = None if llm is None else Generator(corpus, checked_llm(llm), now, seconds)
        self._searches = Searches(collection=corpus.collection, actor=checked_text("actor", actor))
        self._answers = Answers(
            corpus=corpus,
            searches=self._searches,
            generator=self._generator,
            rules=Rules(
                below=checked_share("generate_below", generate_below),
                after_backtracks=checked_count("generate_after_backtracks", generate_after_backtracks),
                seconds=seconds,
            ),
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

        Scores are similarities (the cosine, 0 where it is negative), and once a model is trained 0.4 × similarity +
        0.6 × expected reward. Candidates are generated, and join with 0.9 × similarity, where the best score is low,
        ``context`` says "no good candidates", after enough ``backtracks``, or for an unusual domain. A language model
        that fails costs its suggestions alone, and ``notes`` say so.

        ``limit``: 1 to 1000. ``exclude``: ids that do not come back. ``context``: why the caller comes back.
        ``prefer_concrete`` and ``prefer_rich_operations`` weigh 0.3 of similarity's part. Raises
        ``InvalidRequestError`` (``InvalidLimitError``, ``InvalidVectorError``), and what ``Collection.search`` raises.
        """
        return await self._answered(
            MetaphorSearch(
                problem=checked_problem(problem),
                limit=checked_limit(limit),
                exclude=checked_ids(exclude),
                why=checked_context(context),
                preference=DirectionPreference(
                    concrete=checked_flag("prefer_concrete", prefer_concrete),
                    rich=checked_flag("prefer_rich_operations", prefer_rich_operations),
                ),
                backtracks=checked_count("backtracks", backtracks),
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
        """The best metaphors after one failed: without it and those excluded, and away from it.

        A reason that says "too abstract" makes concrete ones preferred, "missing concept" those with many operations.
        The question's vector is moved away from the failed metaphor's. ``backtracks``: how often the caller came back;
        None: every excluded id counts as one, the failed one too, so give it where ``exclude`` holds what was never
        tried. Two call for generation. Raises as ``retrieve`` does.
        """
        failed = checked_metaphor("failed_metaphor", failed_metaphor)
        reason = checked_text("failure_reason", failure_reason)
        excluded = tuple(dict.fromkeys([*checked_ids(exclude), failed.id]))
        asked = MetaphorSearch(
            problem=checked_problem(problem),
            limit=checked_limit(limit),
            exclude=excluded,
            why=context_after(failed, reason),
            preference=preference_after(reason),
            backtracks=len(excluded) if backtracks is None else checked_count("backtracks", backtracks),
        )
        return await self._answered(await self._moved(asked, failed))

    async def retrieve_by_embedding(self, problem: Problem, limit: int | None = None) -> Retrieved:
        """The corpus by similarity alone, best first: all of it (1000 at most), or ``limit``. It is not recorded."""
        started, asked = self._clock(), self._all(problem, limit)
        return self._unrecorded(asked, await self._searches.similar(asked), started)

    async def retrieve_by_learning(self, problem: Problem, limit: int | None = None) -> Retrieved:
        """The corpus by expected reward alone; by similarity, with a note, as long as no model is trained.

        Best first, all of it (1000 at most), or so many. It is not recorded.
        """
        started, asked = self._clock(), self._all(problem, limit)
        if not await self.model.is_trained():
            found = await self._searches.similar(asked)
            return self._unrecorded(asked, found, started, "nothing is learned yet: these are by similarity")
        return self._unrecorded(asked, (await self._learned(asked))[: asked.limit], started)

    async def retrieve_by_generation(self, problem: Problem, existing_candidates: Sequence[Metaphor]) -> Suggested:
        """Gives at most three metaphors that a language model suggests, kept as candidates; none without a model.

        The ``notes`` of the list that is returned say which suggestions were refused and why, near-duplicates among
        them, and that there is no model.
        ``existing_candidates``: what was tried and does not fit well. Raises ``LLMUnavailableError`` and
        ``LLMRejectedError``, also where nothing of the answer can be used; ``retrieve`` does without instead.
        """
        tried = names_of(checked_metaphors("existing_candidates", existing_candidates))
        wanted = Wanted(problem=checked_problem(problem), tried=tried)
        return Suggested(notes=(NO_MODEL,)) if self._generator is None else await self._generator.suggestions(wanted)

    async def retrieve_with_exploration(
        self, problem: Problem, exploration_rate: float = EXPLORATION_RATE, limit: int | None = None
    ) -> Retrieved:
        """The corpus by expected reward + rate × its standard deviation, which favours less tried metaphors.

        As long as no model is trained, by similarity + rate × the standard deviation of the metaphor's own counts. Best
        first, all of it (1000 at most), or so many; recorded, with what the bonus alone brought as explored.
        """
        rate = checked_rate(exploration_rate)
        started, asked = self._clock(), self._all(problem, limit)
        whole = replace(asked, limit=LIMIT_MAX)
        is_trained = await self.model.is_trained()
        base = await (self._learned(whole) if is_trained else self._searches.similar(whole))
        relevance = relevance_of_each(base)
        expected = await self.model.expectations(asked.problem, list(relevance), relevance)
        shown = explored_entries(base, expected, rate)[: asked.limit]
        notes = () if is_trained else ("nothing is learned yet: similarity stands for the expected reward",)
        origin = "metaphors.retrieve_with_exploration"
        return self._named(
            await self._answers.composed(
                asked, shown, explored_items(shown, base), origin=origin, started=started, notes=notes
            )
        )

    async def retrieve_batch(self, problems: Iterable[Problem], limit: int = LIMIT) -> dict[str, Retrieved]:
        """Gives what ``retrieve`` gives for each problem, by its id; one call embeds all, four are answered at once.

        Suggestions are waited for as long as in one ``retrieve``, all problems together; ``notes`` tell who went
        without.
        """
        given, wanted = checked_problems(problems), checked_limit(limit)
        bare = [problem for problem in given if problem.embedding is None]
        texts = [problem.description for problem in bare]
        vectors: Sequence[Vector] = list(await self.corpus.collection.vectors_of(texts)) if texts else []
        known = {problem.id: tuple(vector.tolist()) for problem, vector in zip(bare, vectors, strict=True)}
        asked = [
            MetaphorSearch(
                problem=replace(problem, embedding=known.get(problem.id, problem.embedding)),
                limit=wanted,
                until=self._clock() + self._answers.rules.seconds,
            )
            for problem in given
        ]
        answers = await few_at_once([partial(self._answered, search) for search in asked], AT_ONCE)
        return {problem.id: answer for problem, answer in zip(given, answers, strict=True)}

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

        It counts in the problem's domain, range of complexity and cluster. A candidate that has proved itself by it
        joins the corpus, and one that keeps failing is rejected. Raises ``InvalidRequestError`` and what
        ``Platform.feedback`` raises.
        """
        if not isinstance(answer, Retrieved):
            raise InvalidRequestError(f"answer is {answer!r:.80}; give what a retrieve call answered")
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
            # Its time tells a return to an earlier verdict from a repetition of that verdict.
            at=self._platform.now,
        )
        # The verdict is taken: that the metaphor was deleted meanwhile does not undo it.
        with suppress(UnknownItemError):
            await self.corpus.settle(item_id)
        return report

    def _all(self, problem: Problem, limit: int | None) -> MetaphorSearch:
        wanted = LIMIT_MAX if limit is None else checked_limit(limit)
        return MetaphorSearch(problem=checked_problem(problem), limit=wanted)

    async def _learned(self, search: MetaphorSearch) -> list[Entry]:
        metaphors = [metaphor async for metaphor in self.corpus]
        similar = await self._searches.similar(replace(search, limit=LIMIT_MAX))
        relevance = relevance_of_each(similar)
        expected = await self.model.expectations(search.problem, [metaphor.id for metaphor in metaphors], relevance)
        return learned_entries(metaphors, expected, relevance)

    async def _moved(self, search: MetaphorSearch, failed: Metaphor) -> MetaphorSearch:
        """The same with the question moved away from the failed metaphor."""
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
            return await self._given(problem.embedding)
        vector: Vector = (await self.corpus.collection.vectors_of([problem.description]))[0]
        return vector

    async def _given(self, embedding: tuple[float, ...]) -> Vector:
        """A problem's own vector. Raises ``InvalidVectorError`` for one that is not of the corpus's space."""
        space = await self.corpus.collection.space()
        if space is None:
            raise InvalidRequestError("the corpus has no embedding space; configure an embedder and open it again")
        vector: Vector = checked_vectors([embedding], space, ["problem"])[0]
        return vector

    def _unrecorded(self, search: MetaphorSearch, found: Sequence[Entry], started: float, *notes: str) -> Retrieved:
        return self._named(retrieved(search, found, None, (self._clock() - started) * 1e3, notes=notes))

    async def _answered(self, search: MetaphorSearch) -> Retrieved:
        found = self._named(await self._answers.answer(search))
        if len(found) < search.limit and (waiting := (await self.corpus.collection.info()).pending):
            known = await self.corpus.count()
            found.notes += (f"{waiting} of {known} {WAITING}",)
        return found

    def _named(self, found: Retrieved) -> Retrieved:
        found.collection = self.corpus.collection.name
        return found


async def few_at_once(calls: Sequence[Callable[[], Awaitable[T]]], most: int) -> list[T]:
    """Gives the results in order; when one call raises, the others are cancelled and the error is raised."""
    turns = asyncio.Semaphore(most)

    async def in_turn(call: Callable[[], Awaitable[T]]) -> T:
        async with turns:
            return await call()

    tasks = [asyncio.create_task(in_turn(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
