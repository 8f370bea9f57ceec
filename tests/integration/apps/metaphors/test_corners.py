"""Edge cases: embedders that are down, verdicts by other ways, answers of another corpus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

import retrieval.sync
from retrieval import Platform, Profile
from retrieval.apps.metaphors import Metaphor, MetaphorCorpus, MetaphorRetriever, Problem
from retrieval.domain.errors import (
    EmbedderUnavailableError,
    InvalidRequestError,
    InvalidVectorError,
    LLMRejectedError,
    WrongDimensionError,
)
from tests.support.metaphors import CORPUS, ScriptedLLM, metaphor, suggestion

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOW = Problem(id="flow", description="water pressure flows unevenly", domain="logistics")
NewCorpus = Callable[..., Awaitable[MetaphorCorpus]]


class GatedLLM(ScriptedLLM):
    """A model that answers once enough ask at once."""

    def __init__(self, together: int) -> None:
        super().__init__([])
        self.together = together
        self.opened = asyncio.Event()

    async def complete_json(self, prompt: str, schema: Mapping[str, Any], *, system: str = "") -> Any:
        """Nothing, when all are there."""
        answer = await super().complete_json(prompt, schema, system=system)
        if len(self.prompts) >= self.together:
            self.opened.set()
        await self.opened.wait()
        return answer


async def test_a_batch_asks_for_four_problems_at_once(house: Platform, corpus: MetaphorCorpus) -> None:
    """If the problems ran one after the other, the first would wait forever for the fourth."""
    llm = GatedLLM(4)
    retriever = MetaphorRetriever(corpus, llm, platform=house, generate_below=1, generation_timeout_seconds=30)
    problems = [Problem(id=str(number), description=f"zebras quarrel {number}") for number in range(4)]
    answers = await retriever.retrieve_batch(problems)
    assert list(answers) == ["0", "1", "2", "3"]
    assert all("holds no metaphor" in answer.notes[0] for answer in answers.values())


async def test_a_batch_whose_time_is_used_up_asks_no_more(house: Platform, corpus: MetaphorCorpus) -> None:
    """The answer's note says that the time is used up."""
    llm = ScriptedLLM([])
    retriever = MetaphorRetriever(corpus, llm, platform=house, generate_below=1, generation_timeout_seconds=1e-9)
    answers = await retriever.retrieve_batch([Problem(id="late", description="zebras come late")])
    assert "used up" in answers["late"].notes[0]
    assert not llm.prompts


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([suggestion("Pipes", "anything")], "much like 'pipes'"),
        (LLMRejectedError("the model's answer is not JSON"), "not JSON"),
    ],
)
async def test_after_an_unusable_answer_the_model_is_not_called_at_once(
    house: Platform, corpus: MetaphorCorpus, answer: Any, why: str
) -> None:
    """The notes say why each time."""
    llm = ScriptedLLM(error=answer) if isinstance(answer, Exception) else ScriptedLLM(answer)
    retriever = MetaphorRetriever(corpus, llm, platform=house, generate_below=1)
    answers = [await retriever.retrieve(FLOW) for _ in range(3)]
    assert len(llm.prompts) == 1
    assert all(why in answer.notes[0] for answer in answers)


async def test_verdicts_from_anywhere_settle_candidates(house: Platform, new_corpus: NewCorpus) -> None:
    """Opening the corpus settles them, and so does a retrieval that considers candidates."""
    corpus = await new_corpus()
    name = corpus.collection.name
    for key in ("kite", "loom"):
        await corpus.add_candidate(metaphor(key, f"{key} threads and wind"))
    await judge(house, name, "kite")
    await MetaphorCorpus.open(house, name, CORPUS)
    assert [candidate.id for candidate in await corpus.candidates()] == ["loom"]
    await judge(house, name, "loom")
    await MetaphorRetriever(corpus, platform=house).retrieve(FLOW, context="no good candidates")
    assert [metaphor.id for metaphor in await corpus.dynamic()] == ["kite", "loom"]


async def judge(house: Platform, collection: str, key: str) -> None:
    """Three good verdicts."""
    for number in range(3):
        await house.feedback(item_id=key, collection=collection, helpful=True, session=str(number))


async def test_an_own_vector_is_what_a_metaphor_is_found_by(house: Platform, new_corpus: NewCorpus) -> None:
    """One of another space is refused, and nothing is stored."""
    own, static = (0.0, 3.0, *[0.0] * 254), (*[0.0] * 255, 3.0)
    corpus = await new_corpus([*CORPUS, Metaphor(id="static", name="Static", embedding=static)])
    await corpus.add(Metaphor(id="own", name="Own", embedding=own))
    assert (await corpus.embeddings(["own"]))["own"][1] == pytest.approx(1)
    retriever = MetaphorRetriever(corpus, platform=house)
    for key, vector in {"own": own, "static": static}.items():
        [(found, score)] = await retriever.retrieve(Problem(id="p", description="d", embedding=vector), limit=1)
        assert found.id == key
        assert score == pytest.approx(1)
    with pytest.raises(WrongDimensionError):
        await corpus.add(Metaphor(id="flat", name="Flat", embedding=(1.0, 2.0)))
    with pytest.raises(InvalidVectorError):
        await corpus.add(Metaphor(id="none", name="None", embedding=(0.0,) * 256))
    assert not await corpus.get(["flat", "none"])


async def test_huge_and_tiny_vectors_of_a_problem_are_as_good_as_any(house: Platform, corpus: MetaphorCorpus) -> None:
    """Their direction counts, before and after a backtrack."""
    retriever = MetaphorRetriever(corpus, platform=house, away=0)
    problems = [Problem(id="p", description="d", embedding=(size,) * 256) for size in (1e308, 1e-320, 1.0)]
    answers = [list(await retriever.retrieve(problem)) for problem in problems]
    assert answers[0] == answers[1] == answers[2]
    await MetaphorRetriever(corpus, platform=house).retrieve_after_backtrack(problems[0], CORPUS[0], "no")


async def test_pending_metaphors_are_noted_and_embedded_when_the_corpus_is_opened_again(
    house: Platform, new_corpus: NewCorpus, embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note comes with an answer of fewer metaphors than requested; those that were added later wait too."""

    async def down(*_: object) -> None:
        raise EmbedderUnavailableError("down")

    with monkeypatch.context() as patched:
        patched.setattr(embedder, "embed", down)
        corpus = await new_corpus([metaphor("unseen", "nobody embedded this before")])
        await corpus.add(metaphor("added", "nor this"))
    answer = await MetaphorRetriever(corpus, platform=house).retrieve(FLOW)
    assert not answer
    assert "2 of 2 metaphors wait for their vector" in answer.notes[-1]

    again = await MetaphorCorpus.open(house, corpus.collection.name, corpus.static)
    answer = await MetaphorRetriever(again, platform=house).retrieve(FLOW)
    assert {found.id for found, _ in answer} == {"unseen", "added"}
    assert not answer.notes


async def test_an_outcome_of_another_corpus_is_refused_before_it_counts(
    house: Platform, corpus: MetaphorCorpus, new_corpus: NewCorpus
) -> None:
    """A metaphor that was deleted meanwhile still gets its verdict."""
    other = await new_corpus()
    answer = await MetaphorRetriever(other, platform=house).retrieve(FLOW)
    with pytest.raises(InvalidRequestError, match="is of corpus"):
        await MetaphorRetriever(corpus, platform=house).record_outcome(answer, "pipes", helpful=True)
    assert (await other.collection.standings(["pipes"]))["pipes"].uses == 0
    await other.collection.delete(["pipes"])
    report = await MetaphorRetriever(other, platform=house).record_outcome(answer, "pipes", helpful=True)
    assert report.recorded == 1


async def test_a_profile_without_cosines_cannot_be_explored_with(house: Platform, new_corpus: NewCorpus) -> None:
    """The message names a suitable profile."""
    corpus = await new_corpus()
    await corpus.collection.set_profile(Profile(legs={"lexical": 1.0}))
    pipes = Problem(id="p", description="water pressure narrow pipes")
    with pytest.raises(InvalidRequestError, match="METAPHORS_PROFILE"):
        await MetaphorRetriever(
            await MetaphorCorpus.open(house, corpus.collection.name, CORPUS), platform=house
        ).retrieve_with_exploration(pipes)


async def test_invalid_metaphors_are_refused_with_a_reason(corpus: MetaphorCorpus, house: Platform) -> None:
    """Never with an error of Python's own."""
    wrong: list[Callable[[], Awaitable[Any]]] = [
        lambda: corpus.near_duplicates("x"),  # type: ignore[arg-type]
        lambda: corpus.embed("x"),  # type: ignore[arg-type]
        lambda: corpus.add_candidate("x"),  # type: ignore[arg-type]
        lambda: corpus.add(metaphor("new", "n"), provenance="hello"),  # type: ignore[arg-type]
        lambda: corpus.reject(["a"]),  # type: ignore[arg-type]
        lambda: MetaphorCorpus.open(house, static=None),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(InvalidRequestError):
            await call()


async def test_the_two_ways_of_asking_are_distinguished(corpus: MetaphorCorpus, house: Platform) -> None:
    """In words."""
    with pytest.raises(InvalidRequestError, match="without await"):
        retrieval.sync.MetaphorRetriever(corpus, platform=house)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="connect"):
        retrieval.sync.MetaphorCorpus(corpus.collection)  # type: ignore[arg-type]
