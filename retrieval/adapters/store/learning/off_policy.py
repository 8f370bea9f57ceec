"""Read off-policy estimates and the rewards of interleaved searches, by ``sql/learning/off_policy.sql``."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import product
from types import MappingProxyType
from typing import Any, LiteralString

from psycopg.rows import dict_row

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection
from retrieval.domain.learning.off_policy import CLIP, Estimate, Estimator, TargetPolicy, Weighing
from retrieval.domain.serialization import Serializable

_QUESTION: LiteralString = """
    %(collection_id)s, %(since)s, %(default_reward)s::double precision, %(clip)s::double precision,
    %(targets)s::integer[], %(retrieval_ids)s::uuid[], %(item_ids)s::text[], %(probabilities)s::double precision[],
    %(modelled)s::double precision[]
"""
_WEIGHING: LiteralString = f"SELECT * FROM off_policy_weighing({_QUESTION})"  # noqa: S608 - of the text above
_COMPARISON: LiteralString = f"SELECT * FROM off_policy_comparison({_QUESTION})"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTraffic:
    """The recorded searches to evaluate, and the reward of an impression without a verdict."""

    collection_id: int
    since: datetime
    default_reward: float | None = None
    """None: impressions without feedback are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetComparison(Serializable):
    """One estimator's estimates of two targets, and of the first minus the second."""

    serialized_names = MappingProxyType({"is_clipped": "clipped"})

    estimator: Estimator
    is_clipped: bool
    first: Estimate
    second: Estimate
    difference: Estimate


async def read_weighings(
    connection: Connection, traffic: RecordedTraffic, first: TargetPolicy, second: TargetPolicy
) -> tuple[Weighing, Weighing]:
    """The weighings of the traffic for the targets. The transaction acts as the tenant."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_WEIGHING, _question(traffic, first, second))
        ours, theirs = [
            Weighing(**{name: _number(value) for name, value in columns.items()}) for columns in await cursor.fetchall()
        ]
    return ours, theirs


async def read_comparison(
    connection: Connection, traffic: RecordedTraffic, first: TargetPolicy, second: TargetPolicy
) -> dict[tuple[Estimator, bool], TargetComparison]:
    """Read the comparison by estimator and whether it is clipped, in order; empty if no impression has a reward.

    Both targets have the same retrievals. The transaction acts as the tenant.
    """
    answer = await connection.rows(_COMPARISON, _question(traffic, first, second))
    rows = {(row[0], row[1]): _comparison(row) for row in answer}
    order = product(Estimator, (False, True))
    return {key: rows[key] for key in order if key in rows}


def _question(traffic: RecordedTraffic, first: TargetPolicy, second: TargetPolicy) -> dict[str, Any]:
    return {
        **asdict(traffic),
        "clip": CLIP,
        "targets": [1] * len(first.item_ids) + [2] * len(second.item_ids),
        "retrieval_ids": first.retrieval_ids + second.retrieval_ids,
        "item_ids": first.item_ids + second.item_ids,
        # The driver refuses a list that mixes integers and floats.
        "probabilities": list(map(float, first.probabilities + second.probabilities)),
        "modelled": list(map(float, first.modelled + second.modelled)),
    }


def _comparison(row: tuple[Any, ...]) -> TargetComparison:
    estimator, is_clipped, *figures = row
    numbers = [_number(figure) for figure in figures]
    first, second, difference = (
        Estimate(value=numbers[at], standard_error=numbers[at + 1]) for at in range(0, len(numbers), 2)
    )
    return TargetComparison(
        estimator=Estimator(estimator), is_clipped=is_clipped, first=first, second=second, difference=difference
    )


def _number(figure: Any) -> Any:
    return math.nan if figure is None else figure


_RESULTS = Compiled("""
    SELECT r.first_earned, r.second_earned
    FROM interleaved_results(%(collection_id)s, %(since)s, %(first)s, %(second)s) r
    ORDER BY r.retrieval_id
""")


async def interleaved_results(
    at: CollectionPlace, *, names: tuple[str, str], since: datetime
) -> list[tuple[float | None, float | None]]:
    """The rewards of the two profiles' hits in each search that interleaved them; both None without a verdict."""
    first, second = names
    return [(row[0], row[1]) for row in await at.read(_RESULTS, since=since, first=first, second=second)]


_PAIRS = Compiled("""
    SELECT least(r.request->'interleaved'->>'a', r.request->'interleaved'->>'b'),
        greatest(r.request->'interleaved'->>'a', r.request->'interleaved'->>'b')
    FROM retrievals AS r
    WHERE r.collection_id = %(collection_id)s AND r.retrieved_at >= %(since)s
        AND r.request->'interleaved' IS NOT NULL
    GROUP BY 1, 2 ORDER BY max(r.retrieved_at) DESC LIMIT %(most)s
""")


async def interleaved_pairs(at: CollectionPlace, *, since: datetime, most: int) -> list[tuple[str, str]]:
    """The names of the profiles that searches since then interleaved, the latest first."""
    return [(row[0], row[1]) for row in await at.read(_PAIRS, since=since, most=most)]
