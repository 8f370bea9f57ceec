"""Uses until the best of several new principles ranks first: the product beside plain Thompson sampling.

All arrive at once and say the same of themselves, so only verdicts tell them apart. A session is shown a few of them,
and each of these is judged: a verdict is a use. The better one is on top from the use on after which nothing else is
believed to be better, until the end.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from principle_world import START, About, State, judge

from retrieval.apps.principles.principle import Principle, best, choose
from retrieval.apps.probation import ACTIVE, CANDIDATE

BETTER = "better"


@dataclass(frozen=True)
class Contest:
    """Principles of which one is better."""

    rivals: int
    better: float
    """The probability that the better one helps."""
    others: float
    places: int = 3
    uses: int = 1000
    """Verdicts until the end."""


CONTESTS = (
    Contest(rivals=2, better=0.8, others=0.5, places=1),
    Contest(rivals=2, better=0.7, others=0.5, places=1),
    Contest(rivals=12, better=0.8, others=0.5),
    Contest(rivals=12, better=0.7, others=0.5),
)

Policy = Callable[[State, int, int], list[str]]
"""The ids that a session is shown, by state, session and number of places."""


def exploring(slots: int) -> Policy:
    """The product's choice with that many places to explore."""

    def policy(state: State, session: int, places: int) -> list[str]:
        now = START + timedelta(days=session / state.about.sessions_a_day)
        choices = choose(state.known.values(), (), state.rng, now=now, most=places, slots=slots, rows=1)
        return [choice.principle.id for choice in choices]

    return policy


def thompson(state: State, session: int, places: int) -> list[str]:  # noqa: ARG001 - a policy's signature
    """Those on top of a draw from Beta(successes + 1, failures + 1) each (Thompson, 1933): all compete, always."""
    draws = {
        name: state.rng.betavariate(principle.success_count + 1, principle.use_count - principle.success_count + 1)
        for name, principle in state.known.items()
    }
    return sorted(draws, key=draws.__getitem__, reverse=True)[:places]


POLICIES: Mapping[str, tuple[Policy, str]] = {
    "Beta mean + 1 explored": (exploring(1), CANDIDATE),
    "Beta mean + 2 explored": (exploring(2), CANDIDATE),
    "plain Thompson sampling": (thompson, ACTIVE),
}


@dataclass(frozen=True)
class Outcome:
    """The result of one contest."""

    uses: int | None
    """Verdicts until the better one was on top and stayed there; None: it was not on top at the end."""
    helpfulness: float
    """The mean helpfulness of what was shown."""


def hold(contest: Contest, policy: Policy, status: str, seed: int) -> Outcome:
    """One contest; the same seed gives the same outcome."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    names = [BETTER, *(f"other {number}" for number in range(1, contest.rivals))]
    rng.shuffle(names)
    helps = {name: contest.better if name == BETTER else contest.others for name in names}
    principles = {name: Principle(id=name, title=name, status=status, created_at=START) for name in names}
    state = State(About(), principles, helps, {}, rng)
    helpfulness, since, session = list[float](), 0, 0
    while len(helpfulness) < contest.uses:
        choices = policy(state, session, contest.places)
        for name in choices:
            helpfulness.append(helps[name])
            judge(state, state.known[name], helped=rng.random() < helps[name])
        if not is_on_top(state):
            since = len(helpfulness)
        session += 1
        if not choices:  # all have failed
            break
    return Outcome(None if since >= len(helpfulness) else since, statistics.fmean(helpfulness))


def is_on_top(state: State) -> bool:
    """True if the better one is believed to be the best, by its score, of all that is shown for its score."""
    ranked = best(list(state.known.values()), ())
    return bool(ranked) and ranked[0].principle.id == BETTER


def rows(seeds: int, contests: Sequence[Contest] = CONTESTS) -> list[dict[str, Any]]:
    """A row for each contest and policy."""
    table = []
    for contest in contests:
        for name, (policy, status) in POLICIES.items():
            outcomes = [hold(contest, policy, status, seed) for seed in range(seeds)]
            uses = sorted(outcome.uses for outcome in outcomes if outcome.uses is not None)
            table.append(
                {
                    "principles": contest.rivals,
                    "places": contest.places,
                    "helps": f"{contest.better} against {contest.others}",
                    "policy": name,
                    "on top at the end": round(len(uses) / seeds, 3),
                    "uses of those, median": statistics.median(uses) if uses else "never",
                    "uses until nine of ten are": uses[int(seeds * 0.9)] if len(uses) > seeds * 0.9 else "never",
                    "helpfulness": round(statistics.fmean(outcome.helpfulness for outcome in outcomes), 3),
                }
            )
    return table
