"""Learn from a collection's feedback: fit a model, try it on what it was not fitted on, publish it if it is better."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import anyio
import numpy as np

from retrieval.adapters.store.learning.models import (
    RewardedQueries,
    add_model,
    is_model_chosen,
    read_definition,
    withdraw_model,
)
from retrieval.adapters.store.learning.training import count_learnable, count_new_verdicts
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learned import Combination, Learned
from retrieval.jobs.learning_examples import read_examples
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded
from retrieval.learning.examples import Direction, unit
from retrieval.learning.fitting import Fitted, fit
from retrieval.learning.learned_model import LearnedModel
from retrieval.learning.trial import Incumbent, Outcome, trial

LEAST_VERDICTS = 50
"""So many new verdicts make a new model worth fitting."""


_log = logging.getLogger(__name__)

UNUSED = "the profile does not use what is learned"


class _Tried(NamedTuple):
    """What a trial was about, and how it went."""

    outcomes: Mapping[Combination, Outcome]
    incumbent: Incumbent | None
    verdicts: int
    until: datetime


async def is_there_to_learn(workplace: Workplace, target: Target) -> bool:
    """Whether enough verdicts came since a model was fitted last, or those are gone that one is trusted by."""
    least = min(LEAST_VERDICTS, target.collection.profile.learned.trusted_from or LEAST_VERDICTS)
    count = await count_new_verdicts(workplace.database, target.tenant_id, target.collection.collection_id, most=least)
    return count >= least or await _is_trust_lost(workplace, target)


async def learn(workplace: Workplace, target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Fit a model on the feedback there is, and publish it if a trial shows it to be better than what is in use.

    A profile with ``trusted_from`` has it published from so many verdicts on, whatever the trial says; where fewer are
    left than that, a model that was never better is taken out of use: ``withdrawn`` is its version.
    """
    until = datetime.now(UTC)
    examples = await read_examples(workplace, target, until=until)
    advance(len(examples.rated))
    incumbent = await _incumbent(workplace, target)
    withdrawn = await _withdrawn(workplace, target, incumbent, len(examples.rated))
    if not examples.rated:
        return {"verdicts": 0, "published": False, "reason": "there is no feedback yet", **withdrawn}
    if withdrawn:
        incumbent = None
    learned = target.collection.profile.learned
    outcomes = await anyio.to_thread.run_sync(lambda: trial(examples, incumbent, share=learned.share))
    workplace.end_of_step()
    fitted = await anyio.to_thread.run_sync(fit, examples)
    passed = frozenset(combination for combination, outcome in outcomes.items() if outcome.passed)
    made = LearnedModel(
        version=0,
        reward=fitted.reward,
        by_item=fitted.by_item,
        stack=fitted.stack,
        passed=passed,
        share=learned.share,
        space_id=target.collection.space.space_id if target.collection.space else None,
    )
    tried = _Tried(outcomes, incumbent, len(examples.rated), until)
    version, is_published = await _stored(workplace, target, made, fitted, tried)
    outcome = outcomes.get(learned.combination)
    return {
        "verdicts": tried.verdicts,
        "version": version,
        "published": is_published,
        "passed": sorted(passed),
        "reason": _reason(outcome, made, learned),
        **withdrawn,
    }


async def _is_trust_lost(workplace: Workplace, target: Target) -> bool:
    """Whether the model in use is trusted by more verdicts than are left, and may be taken out of use."""
    collection = target.collection
    trusted_from = collection.profile.learned.trusted_from
    where = (workplace.database, target.tenant_id, collection.collection_id)
    if trusted_from is None or not collection.model_version:
        return False
    left = await count_learnable(*where, most=trusted_from)
    rests = left < trusted_from and _rests_on_trust(await _incumbent(workplace, target), collection.profile.learned)
    return rests and not await is_model_chosen(*where)


async def _withdrawn(
    workplace: Workplace, target: Target, incumbent: Incumbent | None, verdicts: int
) -> dict[str, int]:
    """Take a model out of use that is trusted by more verdicts than are left, and was never better than anything."""
    collection = target.collection
    trusted_from = collection.profile.learned.trusted_from or 0
    if incumbent is None or verdicts >= trusted_from or not _rests_on_trust(incumbent, collection.profile.learned):
        return {}
    version = incumbent.model.version
    async with workplace.database.transaction(target.tenant_id) as connection:
        is_done = await withdraw_model(connection, collection.collection_id, version)
    return {"withdrawn": version} if is_done else {}


def _rests_on_trust(incumbent: Incumbent | None, learned: Learned) -> bool:
    return incumbent is not None and incumbent.model.is_trusted(learned) and not incumbent.model.has_passed(learned)


async def _incumbent(workplace: Workplace, target: Target) -> Incumbent | None:
    """The model in use; None: none is, or it cannot be read any more, which a new one mends."""
    version = target.collection.model_version
    stored = version and await read_definition(
        workplace.database, target.tenant_id, target.collection.collection_id, version
    )
    if not stored:
        return None
    try:
        return Incumbent(LearnedModel.from_dict(version, stored[0]), stored[1])
    except InvalidRequestError as error:
        _log.warning("%s", error)
        return None


async def _stored(
    workplace: Workplace, target: Target, made: LearnedModel, fitted: Fitted, tried: _Tried
) -> tuple[int, bool]:
    """The model's version, and whether it is in use now."""
    learned = target.collection.profile.learned
    # What the profile searches with must have passed: another one's success is no reason to change it.
    has_none = tried.incumbent is None or not tried.incumbent.model.passed
    has_won = learned.combination in made.passed or (bool(made.passed) and has_none)
    is_published = has_won or made.is_trusted(learned)
    outcome = tried.outcomes.get(learned.combination)
    async with workplace.database.transaction(target.tenant_id) as connection:
        version = await add_model(
            connection,
            target.collection.collection_id,
            kind=fitted.reward.kind,
            # One that is refused is never used; why it was is what is worth keeping.
            definition=made.as_dict() if is_published else {},
            metrics={combination.value: one.as_dict() for combination, one in tried.outcomes.items()},
            events=tried.verdicts,
            statistics_at=tried.until,
            is_published=is_published,
            reason=_reason(outcome, made, learned),
            queries=_queries(fitted.directions),
        )
    return version, is_published


def _reason(outcome: Outcome | None, made: LearnedModel, learned: Learned) -> str:
    """Why the model is used, or is not."""
    if outcome is None:
        return UNUSED
    if not outcome.passed and made.is_trusted(learned):
        return f"trusted from {learned.trusted_from} verdicts on, as the profile says; its trial: {outcome.reason}"
    return outcome.reason


def _queries(directions: Mapping[str, Direction]) -> list[RewardedQueries]:
    return [
        RewardedQueries(item, unit(one.total), one.rewards)
        for item, one in sorted(directions.items())
        if np.linalg.norm(one.total) > 1e-6
    ]
