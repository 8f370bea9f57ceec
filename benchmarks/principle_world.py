"""A store of principles in simulation: sessions come, new principles arrive, some of what is shown is judged.

What a session is shown is chosen by the product's own functions, or by the policy that it replaces.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from retrieval.apps.principles.principle import FoundPrinciple, Principle, boosted, choose
from retrieval.apps.probation import ACTIVE, CANDIDATE, status_after

START = datetime(2026, 1, 1, tzinfo=UTC)
GOOD, BAD = 0.7, 0.3
"""From which hidden helpfulness on a principle is good, and up to which it is bad."""

KNOWN_FROM = 3
"""Verdicts from which on a principle that is shown for its score has risen."""


@dataclass(frozen=True)
class About:
    """The size of the world."""

    established: int = 40
    """Principles that are there at the start, each judged five times."""
    arriving: int = 60
    """Principles that arrive, evenly, during the first three quarters of the sessions."""
    sessions: int = 600
    sessions_a_day: int = 4
    places: int = 10
    judged: float = 0.3
    """The share of what is shown that is judged."""
    topics: int = 8
    session_tags: int = 2
    elsewhere: float = 0.6
    """The share of a principle's helpfulness that remains in a session without any of its tags."""
    untagged: int = 5
    """One of this number of newcomers has no tags and helps everywhere; its text does not show that."""


@dataclass
class State:
    """The store's knowledge and the truth."""

    about: About
    known: dict[str, Principle]
    helps: dict[str, float]
    """The hidden helpfulness, 0 to 1."""
    arrived: dict[str, int]
    """The session before which each newcomer arrived."""
    rng: random.Random

    def helpfulness(self, principle: Principle, tags: Collection[str]) -> float:
        """The probability that the principle helps in a session with these tags."""
        fits = not principle.tags or any(tag in tags for tag in principle.tags)
        return self.helps[principle.id] * (1.0 if fits else self.about.elsewhere)


Policy = Callable[[State, Collection[str], datetime], list[FoundPrinciple]]


def by_score(state: State, tags: Collection[str], now: datetime) -> list[FoundPrinciple]:  # noqa: ARG001 - a policy's signature
    """The policy that is replaced: the success rate, 0 where there is none; nothing is explored."""
    ranked = sorted(state.known.values(), key=lambda one: (-(one.success_rate or 0.0), one.created_at, one.id))
    return [FoundPrinciple(one, one.success_rate or 0.0) for one in ranked[: state.about.places]]


def as_written(state: State, tags: Collection[str], now: datetime) -> list[FoundPrinciple]:  # noqa: ARG001 - a policy's signature
    """Success rate and tags, explored ones appended, and the whole cut at the number of places: none is left."""

    def score(principle: Principle) -> float:
        return (principle.success_rate or 0.0) + boosted(principle, tags) - principle.score

    ranked = sorted(state.known.values(), key=lambda one: (-score(one), one.created_at, one.id))
    return [FoundPrinciple(one, score(one)) for one in ranked[: state.about.places]]


def with_slots(slots: int) -> Policy:
    """The product's policy: the mean of Beta(successes + 1, failures + 1), tags, and ``slots`` places to explore."""

    def policy(state: State, tags: Collection[str], now: datetime) -> list[FoundPrinciple]:
        # A single row picks as many do, in a fraction of the time; nobody asks for the propensities here.
        every = state.known.values()
        return choose(every, tags, state.rng, now=now, most=state.about.places, slots=slots, rows=1)

    return policy


def oracle(state: State, tags: Collection[str], now: datetime) -> list[FoundPrinciple]:  # noqa: ARG001 - a policy's signature
    """An oracle that knows the truth."""
    ranked = sorted(state.known.values(), key=lambda one: -state.helpfulness(one, tags))
    return [FoundPrinciple(one, state.helpfulness(one, tags)) for one in ranked[: state.about.places]]


NO_EXPLORATION, OURS = "Beta mean + tags, no exploration", "Beta mean + tags + 2 explored"
POLICIES: Mapping[str, tuple[Policy, str]] = {
    "success rate, untested 0": (by_score, ACTIVE),
    "the same + tags, explored ones behind a full page": (as_written, ACTIVE),
    NO_EXPLORATION: (with_slots(0), ACTIVE),
    "Beta mean + tags + 1 explored": (with_slots(1), CANDIDATE),
    OURS: (with_slots(2), CANDIDATE),
    "the truth": (oracle, ACTIVE),
}
"""Each with the status that newcomers get: candidates can only be explored."""

OLD = "success rate, untested 0"


@dataclass
class RunResult:
    """The result of one run."""

    shown: dict[str, int] = field(default_factory=dict)
    """Newcomers, with the session that showed them first."""
    risen: dict[str, int] = field(default_factory=dict)
    """Newcomers, with the session that first showed them for their score, judged at least three times before."""
    rated: dict[str, int] = field(default_factory=dict)
    """Newcomers, with the session of their first verdict."""
    helpfulness: list[float] = field(default_factory=list)
    """By session: the mean helpfulness of what was shown."""
    bad: list[float] = field(default_factory=list)
    """By session: the share of bad ones in what was shown."""
    state: State | None = None


def simulate(about: About, policy: Policy, status: str, seed: int) -> RunResult:
    """One run; the same seed gives every policy the same principles, arrivals and tags of sessions."""
    world, rng = random.Random(seed), random.Random(seed + 1_000_000)  # noqa: S311 - a simulation
    state = _at_start(about, world, rng)
    waiting = _newcomers(about, world, status)
    session_tags = [world.sample(_topics(about), about.session_tags) for _ in range(about.sessions)]
    outcome = RunResult(state=state)
    for session, tags in enumerate(session_tags):
        now = START + timedelta(days=session / about.sessions_a_day)
        while waiting and waiting[0][0] <= session:
            at, principle, helps = waiting.pop(0)
            state.known[principle.id] = replace(principle, created_at=now)
            state.helps[principle.id], state.arrived[principle.id] = helps, at
        _run_session(state, outcome, session, tags, policy(state, tags, now))
    return outcome


def _run_session(
    state: State, outcome: RunResult, session: int, tags: Collection[str], chosen: Sequence[FoundPrinciple]
) -> None:
    outcome.helpfulness.append(
        sum(state.helpfulness(choice.principle, tags) for choice in chosen) / max(1, len(chosen))
    )
    outcome.bad.append(sum(state.helps[choice.principle.id] <= BAD for choice in chosen) / max(1, len(chosen)))
    for choice in chosen:
        name, principle = choice.principle.id, choice.principle
        if name in state.arrived:
            outcome.shown.setdefault(name, session)
            if not choice.is_exploratory and principle.use_count >= KNOWN_FROM:
                outcome.risen.setdefault(name, session)
        if state.rng.random() < state.about.judged:
            judge(state, principle, helped=state.rng.random() < state.helpfulness(principle, tags))
            if name in state.arrived:
                outcome.rated.setdefault(name, session)


def judge(state: State, principle: Principle, *, helped: bool) -> None:
    """Count a verdict, and whether the principle has proved itself by it, or failed."""
    judged = replace(principle, use_count=principle.use_count + 1, success_count=principle.success_count + helped)
    if judged.status == CANDIDATE and (status := status_after(judged.use_count, judged.success_count)):
        judged = replace(judged, status=status)
    state.known[principle.id] = judged


def _topics(about: About) -> list[str]:
    return [f"topic {number}" for number in range(about.topics)]


def _at_start(about: About, world: random.Random, rng: random.Random) -> State:
    state = State(about, {}, {}, {}, rng)
    for number in range(about.established):
        principle, helps = _principle(about, world, f"old {number}", ACTIVE)
        state.helps[principle.id] = helps
        successes = sum(world.random() < helps for _ in range(5))
        created_at = START - timedelta(days=60 + number)
        state.known[principle.id] = replace(principle, use_count=5, success_count=successes, created_at=created_at)
    return state


def _newcomers(about: About, world: random.Random, status: str) -> list[tuple[int, Principle, float]]:
    every = about.sessions * 3 // 4 / about.arriving
    return [(int(number * every), *_newcomer(about, world, number, status)) for number in range(about.arriving)]


def _newcomer(about: About, world: random.Random, number: int, status: str) -> tuple[Principle, float]:
    principle, helps = _principle(about, world, f"new {number}", status)
    return (replace(principle, tags=()) if number % about.untagged == 0 else principle), helps


def _principle(about: About, world: random.Random, name: str, status: str) -> tuple[Principle, float]:
    tags = tuple(world.sample(_topics(about), 2))
    return Principle(id=name, title=name, tags=tags, status=status), world.betavariate(1.2, 1.2)
