"""A search loop: retrieve, apply, challenge, verify, learn. Over a hundred problems its first try succeeds more often.

The world is simulated: in each domain a few metaphors work. Only a trial shows which ones; the problems' texts are a
weak hint. For comparison, similarity alone solves the same problems. A language model applies and challenges the
metaphors; if none is configured, a simulated one, whose words have no effect here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from retrieval import Platform, connect
from retrieval.adapters.llms.sim import SimLLM
from retrieval.apps.metaphors import Metaphor, MetaphorCorpus, MetaphorRetriever, Problem, Retrieved
from retrieval.domain.llm import LLM

PROBLEMS, ATTEMPTS = 100, 3
LEARN_AFTER = (10, 30)
"""The numbers of problems after which a model is fitted; its predictions then follow every outcome."""

WORKING = 8
"""Metaphors that work in a domain."""
SOLVES, SOLVES_ANYWAY = 0.85, 0.05
"""The rates at which a metaphor that works in the problem's domain, and any other metaphor, solve a problem."""

WHERE = {
    "software": ("the billing service", "the message queue", "the old module", "the build", "the search cluster"),
    "logistics": ("the harbour", "the warehouse", "the night deliveries", "the returns desk", "the cold chain"),
    "health": ("the emergency room", "the scanner", "the night shift", "the pharmacy", "the waiting list"),
    "education": ("the first year", "the language course", "the timetable", "the exams", "the new teachers"),
    "city": ("the ring road", "the old centre", "the sewers", "the bus lines", "the school district"),
}
WHAT = (
    "Work piles up in front of {}, and adding people makes it worse",
    "Nobody dares to change {}, because something far away breaks each time",
    "Small faults around {} spread before anybody notices",
    "Everyone relies on {}, and no one looks after it",
    "Good ideas about {} die before they are tried",
    "What is decided about {} in the morning is forgotten by the evening",
    "Effort goes into {} for years without anything to show for it",
    "Two groups quarrel over {} while customers leave",
)


@dataclass(frozen=True)
class World:
    """A world that knows what the loop does not: which metaphors work where."""

    seed: int
    works: dict[str, frozenset[str]]

    @classmethod
    async def made(cls, seed: int, retriever: MetaphorRetriever) -> World:
        """Draw the metaphors that work in each domain; similar ones are a little more likely to work."""
        chance, works = chance_of(seed), {}
        for domain, places in WHERE.items():
            ranked = await retriever.retrieve_by_embedding(Problem(id=domain, description=f"{domain}: {places[0]}"))
            ids = [metaphor.id for metaphor, _ in ranked]
            weights = [1 / (rank + len(ids) / 2) for rank in range(len(ids))]
            works[domain] = frozenset(draw(chance, ids, weights, WORKING))
        return cls(seed, works)

    def problems(self) -> list[Problem]:
        """Return a hundred problems, of every domain and complexity."""
        chance = chance_of("problems", self.seed)
        return [
            Problem(
                id=f"problem-{number}",
                description=chance.choice(WHAT).format(chance.choice(WHERE[domain])),
                domain=domain,
                complexity=round(chance.random(), 2),
            )
            for number, domain in enumerate(chance.choices(list(WHERE), k=PROBLEMS))
        ]

    def is_solved(self, problem: Problem, metaphor: Metaphor) -> bool:
        """True if the metaphor solves the problem, the same for every caller."""
        rate = SOLVES if metaphor.id in self.works[problem.domain] else SOLVES_ANYWAY
        return chance_of(self.seed, problem.id, metaphor.id).random() < rate


def chance_of(*what: object) -> random.Random:
    """Return a random generator with a seed made from the arguments."""
    return random.Random(repr(what))  # noqa: S311 - it simulates


def draw(chance: random.Random, ids: Sequence[str], weights: Sequence[float], number: int) -> list[str]:
    """Draw ``number`` of the ids, each at most once, with probabilities by weight."""
    return sorted(ids, key=lambda metaphor_id: chance.random() ** (1 / weights[ids.index(metaphor_id)]))[-number:]


async def apply(llm: LLM, problem: Problem, metaphor: Metaphor) -> str:
    """Ask for a plan: what the metaphor's operations mean for the problem."""
    operations = ", ".join(operation.name for operation in metaphor.operations)
    return await llm.complete(f"Solve: {problem.description}\nThink of it as {metaphor.name}; you can: {operations}")


async def challenge(llm: LLM, problem: Problem, plan: str) -> str:
    """Ask for the strongest objection to a plan."""
    return await llm.complete(f"What speaks against this plan for {problem.description!r}? {plan}")


async def solve(retriever: MetaphorRetriever, llm: LLM, world: World, problem: Problem) -> int:
    """Try up to three metaphors; return the attempt that worked, from 1, or 0."""
    answer: Retrieved = await retriever.retrieve(problem)
    tried: list[str] = []
    for attempt in range(1, ATTEMPTS + 1):
        metaphor, _ = answer[0]
        plan = await apply(llm, problem, metaphor)
        objection = await challenge(llm, problem, plan)
        is_solved = world.is_solved(problem, metaphor)  # verified in the world
        await retriever.record_outcome(answer, metaphor, helpful=is_solved, note=objection)
        if is_solved:
            return attempt
        tried.append(metaphor.id)
        answer = await retriever.retrieve_after_backtrack(problem, metaphor, "it did not hold", exclude=tried)
    return 0


async def run(
    platform: Platform, corpus: MetaphorCorpus, llm: LLM, seed: int = 1, learn_after: Sequence[int] = LEARN_AFTER
) -> tuple[list[int], list[int]]:
    """Return the attempt that solved each problem: with learned rewards, and by similarity alone."""
    # Nothing is generated here: a simulated model's suggestions are not useful.
    retriever = MetaphorRetriever(corpus, platform=platform)
    world = await World.made(seed, retriever)
    learning, similar = list[int](), list[int]()
    for number, problem in enumerate(world.problems()):
        if number in learn_after:
            await corpus.collection.learn()  # in production `retrieval worker` does this
        learning.append(await solve(retriever, llm, world, problem))
        similar.append(await by_similarity(retriever, world, problem))
    return learning, similar


async def by_similarity(retriever: MetaphorRetriever, world: World, problem: Problem) -> int:
    """Return the attempt that worked without learning, from 1, or 0."""
    best = await retriever.retrieve_by_embedding(problem, ATTEMPTS)
    return next((number for number, (metaphor, _) in enumerate(best, 1) if world.is_solved(problem, metaphor)), 0)


def at_first_try(attempts: Sequence[int]) -> float:
    """Return the share of problems that the first metaphor solved."""
    return sum(attempt == 1 for attempt in attempts) / len(attempts)


async def main() -> None:
    """Run the loop, and print how often the first metaphor solved the problem."""
    async with connect(tenant="metaphor-search-loop") as platform:
        # A separate corpus, without the verdicts of an earlier run.
        corpus = await MetaphorCorpus.open(platform, f"loop-{uuid4().hex[:8]}")
        learning, similar = await run(platform, corpus, platform.llm or SimLLM())
    quarter = PROBLEMS // 4
    print("solved at the first try   first quarter   last quarter")
    for name, attempts in (("retrieval that learns", learning), ("similarity alone", similar)):
        first, last = at_first_try(attempts[:quarter]), at_first_try(attempts[-quarter:])
        print(f"{name:24}  {first:13.0%}   {last:12.0%}")


if __name__ == "__main__":
    asyncio.run(main())
