"""Read off-policy estimates and the rewards of interleaved searches, by ``sql/learning/off_policy.sql``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import product
from types import MappingProxyType
from typing import Any, LiteralString

from psycopg.rows import dict_row

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.domain.learning.off_policy import CLIP, Estimate, Estimator, TargetPolicy, Weighing
from retrieval.domain.serialization import Serializable

_WEIGHING: LiteralString = """
    SELECT * FROM off_policy_weighing(
        %(collection_id)s, %(since)s, %(default_reward)s::double precision, %(clip)s::double precision,
        %(retrieval_ids)s::uuid[], %(item_ids)s::text[], %(probabilities)s::double precision[],
        %(modelled)s::double precision[])
"""
_COMPARISON: LiteralString = """
    SELECT * FROM off_policy_comparison(
        %(collection_id)s, %(since)s, %(default_reward)s::double precision, %(clip)s::double precision,
        %(retrieval_ids)s::uuid[], %(item_ids)s::text[], %(probabilities)s::double precision[],
        %(modelled)s::double precision[],
        %(other_retrieval_ids)s::uuid[], %(other_item_ids)s::text[], %(other_probabilities)s::double precision[],
        %(other_modelled)s::double precision[])
"""


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


async def read_weighing(connection: Connection, traffic: RecordedTraffic, target: TargetPolicy) -> Weighing:
    """The weighing of the traffic for the target. The transaction acts as the tenant."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_WEIGHING, {**_parameters(traffic), **_columns(target)})
        (columns,) = await cursor.fetchall()
    return Weighing(**{name: _number(value) for name, value in columns.items()})


async def read_comparison(
    connection: Connection, traffic: RecordedTraffic, first: TargetPolicy, second: TargetPolicy
) -> dict[tuple[Estimator, bool], TargetComparison]:
    """Read the comparison by estimator and whether it is clipped, in order; empty if no impression has a reward.

    Both targets have the same retrievals. The transaction acts as the tenant.
    """
    other_columns = {f"other_{name}": values for name, values in _columns(second).items()}
    cursor = await connection.execute(_COMPARISON, {**_parameters(traffic), **_columns(first), **other_columns})
    rows = {(row[0], row[1]): _comparison(row) for row in await cursor.fetchall()}
    order = product(Estimator, (False, True))
    return {key: rows[key] for key in order if key in rows}


def _parameters(traffic: RecordedTraffic) -> dict[str, Any]:
    return {**asdict(traffic), "clip": CLIP}


def _columns(target: TargetPolicy) -> Mapping[str, list[Any]]:
    return {
        "retrieval_ids": target.retrieval_ids,
        "item_ids": target.item_ids,
        # The driver refuses a list that mixes integers and floats.
        "probabilities": list(map(float, target.probabilities)),
        "modelled": list(map(float, target.modelled)),
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
    database: Database, tenant_id: int, collection_id: int, *, names: tuple[str, str], since: datetime
) -> list[tuple[float | None, float | None]]:
    """The rewards of the two profiles' hits in each search that interleaved them; both None without a verdict."""
    first, second = names
    values = {"collection_id": collection_id, "since": since, "first": first, "second": second}
    return [(row[0], row[1]) for row in await database.read(tenant_id, _RESULTS.bind(**values))]
