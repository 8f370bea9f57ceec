"""A day of searches, answers and verdicts: every reader of records computes the same figures, to the digit.

The figures are constants. The form of the records may change; the figures for the same events may not.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from pydantic import SecretStr

from retrieval import Collection, Context, Platform, Profile, SearchResult, Settings
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.learning.off_policy import interleaved_results
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.domain.search.profile_parts import Exploration, PolicyName, Recording
from retrieval.engine.target import NamedProfile
from retrieval.jobs.learning import read_examples
from retrieval.services.compare import compare_profiles
from tests.support.database import SCHEMA
from tests.support.jobs import target_of

MORNING = datetime(2026, 3, 2, 6, tzinfo=UTC)
END = MORNING + timedelta(days=1)
BOTH = {"dense": 1.0, "lexical": 2.0}
SUM = Profile(legs=BOTH, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM), depth=20)
RANKS = Profile(legs=BOTH, fusion=Fusion(kind=FusionKind.RRF), depth=20, recording=Recording(pool=8))
DRAWN = Profile(
    legs={"lexical": 1.0},
    depth=20,
    exploration=Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, swaps=0.5),
)
BARE = Profile(legs=BOTH, depth=20, recording=Recording(pool=0))
WORDS = ("apple", "bridge", "cloud", "delta", "ember", "forest", "glass")


@dataclass
class Day:
    """The events of the day, and their places."""

    platform: Platform
    docs: Collection
    searches: list[SearchResult] = field(default_factory=list)
    seconds: float = 0.0

    def clock(self) -> float:
        """A clock that advances only with events."""
        return MORNING.timestamp() + self.seconds

    def later(self) -> None:
        """Something else happens."""
        self.seconds += 3.0


async def _searched(day: Day) -> None:
    docs = day.docs
    for number in range(30):
        day.later()
        words = f"{WORDS[number % 7]} {WORDS[number * 3 % 7]} common"
        context = Context(domain=("shop", "desk")[number % 2], actor=f"a{number % 3}", session=f"s{number % 4}")
        profile = (SUM, RANKS, DRAWN, DRAWN, BARE, None)[number % 6]
        where = {"group": [0, 1]} if number % 5 == 0 else None
        day.searches.append(await docs.search(words, profile=profile, where=where, limit=5, context=context))
        await _verdicts(day, number)
    day.later()
    day.searches.append(await docs.search("nothing has such words", legs=["lexical"]))
    day.searches.append(await docs.search(vector=np.ones(256), legs=["dense"], limit=3))


async def _verdicts(day: Day, number: int) -> None:
    """Verdicts on the first, second and last hits, one of them twice, one on an item that was not shown."""
    hits = day.searches[number]
    events = [
        Feedback(
            retrieval_id=hits.retrieval_id,
            item_id=hit.item_id,
            reward=(int(hit.item_id[1:]) * 7 + number) % 5 / 4,
            actor=f"a{rank}",
        )
        for rank, hit in enumerate(hits)
        if rank in (0, 1, 4)
    ]
    if number % 4 == 0 and events:
        events.append(Feedback(retrieval_id=hits.retrieval_id, item_id=events[0].item_id, reward=1.0, actor="a0"))
    if number % 9 == 0:
        events.append(Feedback(retrieval_id=hits.retrieval_id, item_id="i39", reward=1.0, actor="z"))
    day.later()
    await day.platform.recorded()
    await day.platform.feedback_each(events)


async def _mixed(day: Day) -> None:
    two = {"words": Profile(legs={"lexical": 1.0}), "meaning": Profile(legs={"dense": 1.0})}
    for number in range(6):
        day.later()
        search = await day.docs.interleave(
            f"{WORDS[number]} common", profiles=two, limit=4, context=Context(session="m")
        )
        for hit in search:
            day.later()
            reward = float(int(hit.item_id[1:]) % 3 == 0)
            await day.platform.feedback(search.retrieval_id, hit.item_id, reward=reward)


async def _composed(day: Day) -> None:
    for number in range(4):
        day.later()
        items = [
            ShownItem(item_id=f"i0{number}", score=0.9, signals={"relevance": 0.7, "urgency": 1.0}),
            ShownItem(item_id=f"i1{number}", score=0.4 - number, slot=Slot.EXPLORE, propensity=0.25),
        ]
        answer = await day.docs.record_answer(
            "no connection", items, origin="desk", retrieval_time_ms=12.5, context=Context(session="s0", domain="desk")
        )
        await day.platform.recorded()
        await day.platform.feedback(answer, f"i1{number}", reward=0.75)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def day(database_url: str) -> AsyncIterator[Day]:
    """The day, lived once."""
    settings = Settings(
        tenant="recorded-day", database_schema=SCHEMA, embedder="none", database_url=SecretStr(database_url)
    )
    clock = Day(platform=None, docs=None)  # type: ignore[arg-type]  # both come in a moment, and take the clock
    platform = Platform(settings, embedder=HashingEmbedder(), wall_clock=clock.clock, chance=random.Random(7))
    async with platform:
        docs = await platform.collection("docs")
        await docs.add(
            [
                {"_id": f"i{n:02}", "text": f"{WORDS[n % 7]} {WORDS[n % 5]} common {'long ' * (n % 4)}", "group": n % 3}
                for n in range(40)
            ]
        )
        await docs.set_profile(replace(SUM, depth=15))
        clock.platform, clock.docs = platform, docs
        await _searched(clock)
        await _mixed(clock)
        await _composed(clock)
        await platform.recorded()
        yield clock


def _number(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _rows(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(_number(value) for value in row) for row in rows]


def _summed(rows: Iterable[Sequence[Any]]) -> list[Any]:
    """The number of rows, and for each column the sum of its numbers, or the number of its distinct values.

    Numbers count more in later rows, so that the order counts too.
    """
    sums: list[Any] = [len(listed := list(rows))]
    for values in zip(*listed, strict=True):
        present = [value for value in values if value is not None]
        if present and all(isinstance(value, int | float) for value in present):
            sums.append(_number(float(sum(place * (value or 0) for place, value in enumerate(values, 1)))))
        else:
            sums.append(len(set(map(str, values))))
    return sums


async def _view(day: Day, name: str, *without: str) -> list[tuple[Any, ...]]:
    period: dict[str, Any] = {} if name in ("unused_items", "usage") else {"since": MORNING, "until": END}
    table = await day.platform.analytics(name, collection="docs", limit=1000, **period)
    return [tuple(value for column, value in row.items() if column not in without) for row in table]


async def _figures_of_views(day: Day) -> dict[str, Any]:
    return {
        "exploration": _rows(await _view(day, "exploration")),
        "positions": _rows(await _view(day, "positions")),
        "profiles": _rows(await _view(day, "profiles", "p50_ms", "p95_ms")),
        "latency": sorted({(row[2], row[3], row[4]) for row in await _view(day, "latency")}),
        "shown_items": _summed(sorted(await _view(day, "shown_items"))),
        "unused_items": _summed(sorted(await _view(day, "unused_items", "created_at"))),
        "queries": _summed(await _view(day, "queries", "retrieval_time_ms", "retrieval_id")),
        "rated": _summed(await _view(day, "rated", "collection_id", "swapped_at")),
        "poor_queries": _rows(sorted(await _view(day, "poor_queries"), key=str)),
        "usage": _summed(sorted(await _view(day, "usage", "pulls", "reward"))),
    }


async def _figures_of_judges(day: Day) -> dict[str, Any]:
    platform, stored = day.platform, await day.docs.refresh()
    where = (platform.database, platform.tenant_id)
    targets = [NamedProfile(name=leg, profile=Profile(legs={leg: 1.0})) for leg in ("lexical", "dense")]
    compared = await compare_profiles(*where, stored, *targets, since=MORNING)
    earned = await interleaved_results(
        CollectionPlace(*where, stored.collection_id), names=("meaning", "words"), since=MORNING - timedelta(days=1)
    )
    examples = await read_examples(
        platform.workplace, await target_of(platform, day.docs), until=datetime.now(UTC) + timedelta(days=1)
    )
    events = sorted(
        (rating.question or "", rating.item_id, rating.reward, rating.relevance or -1.0,
         rating.rank or 0, sum(rating.signals.values())) for rating in examples.rated
    )  # fmt: skip
    slates = sorted(
        (slate.question, "".join(slate.item_ids), sum(slate.relevance), sum(map(sum, slate.legs.values())),
         sum(reward or 0 for reward in slate.rewards)) for slate in examples.slates
    )  # fmt: skip
    return {
        "compared": (compared.searches, compared.changed, sorted(compared.left_out.items())),
        "weighings": _rows(
            (
                weighing.retrievals,
                weighing.impressions,
                weighing.rated,
                weighing.effective_sample_size,
                weighing.mean_weight,
                weighing.max_weight,
            )
            for weighing in compared.weighings
        ),
        "estimates": _rows(
            (
                str(estimate.estimator),
                estimate.is_clipped,
                estimate.first.value,
                estimate.second.value,
                estimate.difference.standard_error,
            )
            for estimate in compared.estimates
        ),
        "earned": sorted(_rows(earned), key=str),
        "events": _summed(events),
        "slates": _summed(slates),
    }


async def _figures_of_records(day: Day) -> dict[str, Any]:
    listed = await day.docs.retrievals(limit=100)
    searches = [await day.platform.retrieval(retrieval.retrieval_id) for retrieval in listed]
    replays = [await day.platform.replay(retrieval.retrieval_id) for retrieval in listed]
    impressions = [
        (
            rank,
            impression.item_id,
            impression.rank,
            impression.score,
            impression.slot.value,
            impression.propensity,
            impression.rank_propensity,
            impression.pulls,
        )
        for rank, search in enumerate(searches)
        for impression in search.impressions
    ]
    signals = [
        (name, *(part.get(key) for key in ("rank", "raw", "weight", "value")))
        for search in searches
        for impression in search.impressions
        for name, part in sorted(impression.signals.items())
        if name != "team"
    ]
    answers = await day.docs.answers_of("s0", limit=100)
    return {
        "told": _summed(
            (
                *(retrieval.origin, retrieval.query, retrieval.is_by_vector, str(retrieval.where)),
                *(str(sorted(retrieval.request)), retrieval.profile_version, retrieval.policy, retrieval.path),
                *(len(retrieval.notes), len(retrieval.timings_ms), retrieval.candidates),
            )
            for retrieval in searches
        ),
        "shown": _summed(impressions),
        "signals": _summed(signals),
        "teams": "".join(
            impression.signals["team"]
            for search in searches
            for impression in search.impressions
            if "team" in impression.signals
        ),
        "replays": [replay.is_reproduced for replay in replays].count(True),
        "why_not": sorted({why for replay in replays for why in replay.why_not}),
        "answers": _summed(
            (answer.origin, answer.query, hit.item_id, hit.rank, hit.score, hit.slot.value, hit.propensity)
            for answer in answers for hit in answer.hits
        ),
    }  # fmt: skip


EXPECTED: dict[str, Any] = {
    "answers": [48, 2, 8, 29, 3556.0, 926.343453, 3, 1067.56782],
    "compared": (15, 14,
                 [("a leg of the profile did not run", 11), ("an application composed it", 4),
                  ("it showed no hit", 1), ("no candidates were recorded with it", 11)]),
    "earned": [(0.0, 1.0), (0.0, 1.0), (0.0, 2.0), (1.0, 0.0), (1.0, 1.0), (1.0, 1.0)],
    "estimates": [("ips", False, 0.416666667, 0.294444444, 0.0480207921),
                  ("ips", True, 0.416666667, 0.294444444, 0.0480207921),
                  ("snips", False, 0.457317073, 0.490740741, 0.0430414017),
                  ("snips", True, 0.457317073, 0.490740741, 0.0430414017),
                  ("dr", False, 0.452155287, 0.480031818, 0.0260461843),
                  ("dr", True, 0.452155287, 0.480031818, 0.0260461843)],
    "events": [118, 14, 33, 3721.75, 1521.90993, 13059.0, 4699.61248],
    "exploration": [("docs", None, 185, 19, 6, 0.102702703, 102, 0.480392157, 11, 0.568181818, -0.0877896613,
                     0.103005027),
                    ("docs", date(2026, 3, 2), 185, 19, 6, 0.102702703, 102, 0.480392157, 11, 0.568181818,
                     -0.0877896613, 0.103005027)],
    "latency": [("exact", "candidates", 21), ("exact", "embed", 21), ("exact", "items", 21), ("exact", "learn", 21),
                ("exact", "total", 21), ("none", "candidates", 17), ("none", "embed", 17), ("none", "items", 17),
                ("none", "learn", 17), ("none", "total", 21)],
    "poor_queries": [("docs", "nothing has such words", "no result", 1, 0, None,
                      datetime(2026, 3, 2, 6, 3, 3, tzinfo=UTC))],
    "positions": [("docs", 1, 41, 36, 0.604166667, 0.0625, 0, 0, None, None, 0, None, None),
                  ("docs", 2, 41, 40, 0.50625, 0.05625, 2, 2, 1.0, 0.0, 2, 1.0, 0.0),
                  ("docs", 3, 37, 6, 0.666666667, 0.210818511, 1, 0, None, None, 1, 0.25, None),
                  ("docs", 4, 36, 6, 0.0, 0.0, 0, 0, None, None, 0, None, None),
                  ("docs", 5, 30, 30, 0.45, 0.0627437775, 0, 0, None, None, 0, None, None)],
    "profiles": [("docs", 2, 0, 5, 0, 0.950574275, 15, 5, 0.383333333, 0.0816496581,
                  datetime(2026, 3, 2, 6, 0, 33, tzinfo=UTC),
                  datetime(2026, 3, 2, 6, 2, 57, tzinfo=UTC)),
                 ("docs", 0, 0, 37, 1, 1.15666334, 103, 35, 0.52184466, 0.0389575291,
                  datetime(2026, 3, 2, 6, 0, 3, tzinfo=UTC),
                  datetime(2026, 3, 2, 6, 4, 45, tzinfo=UTC))],
    "queries": [42, 1, 41, 16, 2, 3, 1, 4, 6, 4361.0, 11.0, 1018.15729, 381.774101, 2, 250.0, 0.0, 4, 2, 2, 0.0,
                0.0],
    "rated": [118, 1, 40, 40, 33, 18800.0, 3, 6395.2149, 5532.10745, 3655.0, 7021.0, 7021.0],
    "replays": 27,
    "shown": [185, 499997.0, 38, 51547.0, 15381.5576, 3, 15412.5151, 13715.0075, 6389.90203],
    "shown_items": [38, 1, 38, 1, 3475.0, 338.0, 2215.03258, 2183.0, 316.475974, 108.006418, 18],
    "signals": [285, 4, 167491.0, 57714.889, 56819.0, 22081.4903],
    "slates": [40, 14, 27, 2084.01104, 2497.99727, 890.75],
    "teams": "abbabaabbaabbaabbabaabab",
    "told": [42, 2, 16, 11.0, 2, 4, 250.0, 4, 2, 45.0, 4475.0, 11891.0],
    "unused_items": [7, 1, 7, 1, 1, 2, 6],
    "usage": [86, 1, 33, 1, 3, 8784.0, 5234.0, 2040.64221, 617.381946, 3317.12688, 46],
    "weighings": [(15, 75, 45, 14.6173913, 4.53333333, 1.0), (15, 75, 45, 12.7894737, 3.13333333, 1.0)],
    "why_not": ["0 candidates were kept, and not all hits are among them: recording.pool is too small",
                "an application composed it (desk): there is no ranking to compute again",
                "it shows the hits of two profiles, whose mixture cannot be ranked again"],
}  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
async def test_every_figure_of_the_day_is_as_it_was(day: Day) -> None:
    """Views, off-policy estimates, interleaving, training examples, records, replays and answers."""
    figures = {**await _figures_of_views(day), **await _figures_of_judges(day), **await _figures_of_records(day)}
    assert figures == _near(EXPECTED)


def _near(value: Any) -> Any:
    """The same with numbers that need not be the same to the last digit: BM25 is a sum in the order of the lexemes."""
    if isinstance(value, dict):
        return {name: _near(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_near, value))
    return pytest.approx(value, rel=1e-6, abs=1e-9) if isinstance(value, float) else value
