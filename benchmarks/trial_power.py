"""What the trial of a model lets through, by what the model truly gains; and what it gains by how far it reaches.

    python benchmarks/trial_power.py DATA

DATA holds the test collections in BEIR's format. The users of ``learning_curve.py`` give verdicts on its questions. The
pool of each question is that of one recorded search, and the rest happens in memory, so that many crowds can be tried:
after each number of verdicts a model is fitted and tried, and its true gain is measured on the questions that nobody
asks, by the judgements. Several rules decide from the figures of the same trial. Rankings stay as they were at first.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from command import data_of, machine, say, write
from learning_curve import PATIENT, WORLDS, Crowd, Remembering, World, fill
from report import table
from server import Server, running
from simulated_users import Users
from tasks import CISI

from retrieval import connect, read_items
from retrieval.adapters.store.learning.training import RatedSearch, read_rated_searches
from retrieval.domain.items.embedding import TextRole, Vector
from retrieval.domain.search.fusion import leg_features_again
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.learning.examples import Direction, Event, Examples, Slate, cosine
from retrieval.learning.learned_model import fit
from retrieval.learning.logistic import RELEVANCE
from retrieval.learning.stack import AFFINITY, LENGTH, LogitStack, affinity_signal, length_signal
from retrieval.learning.trial import LEAST_QUESTIONS, ONE_SIDED_975, ONE_SIDED_995, TrialOutcome, trial
from retrieval.services.evaluate import measure, parse_metric
from retrieval.services.judgements import JudgedQuery
from retrieval.services.workplace import JobTarget

LOOKS = (250, 500, 1000, 2000, 4000)
CROWDS = 6
STRAY_CLICKS = 0.3
WRONG = (0.0, 0.1, 0.3)
HARM = -0.005
"""The gain below which a model harms."""
BINS = (-1.0, HARM, -HARM, 0.02, 0.05, 0.1, 1.0)
EARLY, EARLY_GAIN, LATE = (500, 1000), 0.02, 2000
ONE_SIDED_90, ONE_SIDED_95 = 1.28, 1.645
REACHES = {"the ten that are shown": 10, "the first 20": 20, "all candidates": None}
_METRIC = parse_metric("nDCG@10")


@dataclass(frozen=True, slots=True)
class Pool:
    """A question with its candidates, best first; all sequences have this order."""

    query: JudgedQuery
    vector: Vector
    item_ids: Sequence[str]
    relevance: Sequence[float]
    legs: Mapping[str, Sequence[float]]

    def of_place(self, place: int) -> dict[str, float]:
        """The legs' scores of the candidate at that place."""
        return {leg: scores[place] for leg, scores in self.legs.items()}


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit as the simulated users see it."""

    item_id: str
    rank: int


@dataclass(frozen=True, slots=True)
class Tried:
    """One model after its trial."""

    collection: str
    wrong: float
    seed: int
    verdicts: int
    questions: int
    loss: float
    """Less log-loss, in standard errors."""
    value: float
    """More discounted reward, in standard errors."""
    former: float
    """The lesser of both in the trial before, at fewer verdicts; 0: this is the first."""
    gains: Mapping[str, float]
    """The true gain of nDCG@10 on questions that nobody asks, by the model's reach."""

    @property
    def gain(self) -> float:
        """The gain with all candidates ranked again, as the platform does."""
        return self.gains["all candidates"]

    @property
    def is_testable(self) -> bool:
        """True if there are enough questions for a trial."""
        return self.questions >= LEAST_QUESTIONS


Rule = Callable[[Tried], bool]
"""Whether a model may be used, by its trial."""

RULES: Mapping[str, Rule] = {
    "both by 97.5 %, the platform's": lambda tried: min(tried.loss, tried.value) > ONE_SIDED_975,
    "both by 95 %": lambda tried: min(tried.loss, tried.value) > ONE_SIDED_95,
    "value alone by 97.5 %": lambda tried: tried.value > ONE_SIDED_975,
    "log-loss alone by 97.5 %": lambda tried: tried.loss > ONE_SIDED_975,
    "both together by 99.5 %": lambda tried: (tried.loss + tried.value) / math.sqrt(2) > ONE_SIDED_995,
    "both by 90 % in two trials in a row": lambda tried: min(tried.loss, tried.value, tried.former) > ONE_SIDED_90,
}
USED = next(iter(RULES.values()))


def _cisi(data: Path) -> World:
    queries, qrels = CISI.queries(data)
    return World("cisi", CISI, queries[::3] + queries[1::3], queries[2::3], qrels)


async def pools_of(server: Server, data: Path, world: World, embedder: Remembering) -> tuple[list[Pool], list[Pool]]:
    """The pools of the questions that are asked, and of the others."""
    place = await fill(server, data, world, Learned(combination=Combination.LOGIT_STACK), embedder)
    async with connect(server.url_of(place.database), settings=PATIENT, embedder=embedder) as platform:
        collection = await platform.collection(world.task.collection)
        target = JobTarget(platform.tenant_id, await collection.refresh())
        where = platform.workplace.place(target)
        pools = []
        for query in [*world.asked, *world.held_out]:
            result = await collection.search(query.text, where=query.where, syntax=False)
            await platform.recorded()
            pages = read_rated_searches(where, [result.retrieval_id] if result.retrieval_id else [])
            [record] = [search async for page in pages for search in page]
            [vector] = await embedder.embed([query.text], TextRole.QUERY)
            pools.append(_pool(query, record, vector / np.linalg.norm(vector)))
    return pools[: len(world.asked)], pools[len(world.asked) :]


def _pool(query: JudgedQuery, record: RatedSearch, vector: Vector) -> Pool:
    signals = record.pool_signals
    order = np.argsort(-np.array(signals["scaled"]), kind="stable").tolist()
    legs = leg_features_again(signals["legs"], signals["bests"])
    return Pool(
        query,
        vector,
        [record.pool_items[place] for place in order],
        [signals["scaled"][place] for place in order],
        {leg: [scores[place] for place in order] for leg, scores in legs.items()},
    )


def examples_of(world: World, asked: Sequence[Pool], crowd: Crowd, octets: Mapping[str, int]) -> Iterator[Examples]:
    """What the users' verdicts teach, after each of ``LOOKS``."""
    by_query = {pool.query.query_id: pool for pool in asked}
    users = Users(world.asked, world.qrels, crowd.seed, noise=crowd.noise, wrong=crowd.wrong)
    rated: list[Event] = []
    slates: list[Slate] = []
    due = iter(LOOKS)
    look = next(due)
    for query in users:
        pool = by_query[query.query_id]
        shown = pool.item_ids[:10]
        verdicts = users.verdicts(query, [Shown(item, rank) for rank, item in enumerate(shown, 1)])
        for item, helped in verdicts.items():
            place = shown.index(item)
            rated.append(
                Event(
                    item_id=item, buckets=(), reward=float(helped), relevance=pool.relevance[place],
                    signals=pool.of_place(place), rank=place + 1, question=query.text, vector=pool.vector,
                )
            )  # fmt: skip
        rewards = [float(verdicts[item]) if item in verdicts else None for item in shown]
        legs = {leg: scores[:10] for leg, scores in pool.legs.items()}
        slates.append(
            Slate(
                question=query.text, vector=pool.vector, buckets=(), item_ids=shown, relevance=pool.relevance[:10],
                legs=legs, rewards=rewards,
            )
        )  # fmt: skip
        if len(rated) >= look:
            yield Examples(rated=list(rated), slates=list(slates), clusters={}, octets=octets)
            if (look := next(due, 0)) == 0:
                return


@dataclass(frozen=True, slots=True)
class Others:
    """The questions that nobody asks."""

    world: World
    pools: Sequence[Pool]
    octets: Mapping[str, int]

    def gain(self, stack: LogitStack, directions: Mapping[str, Direction], reach: int | None) -> float:
        """The gain of nDCG@10 where the model ranks the first ``reach`` candidates again (None: all)."""
        first = self._ndcg(lambda pool: list(pool.item_ids))
        return self._ndcg(lambda pool: self._again(pool, stack, directions, reach)) / first - 1

    def _ndcg(self, ranking: Callable[[Pool], list[str]]) -> float:
        ranked = {pool.query.query_id: ranking(pool) for pool in self.pools}
        return fmean(measure(ranked, {key: self.world.qrels[key] for key in ranked}, _METRIC).values())

    def _again(
        self, pool: Pool, stack: LogitStack, directions: Mapping[str, Direction], reach: int | None
    ) -> list[str]:
        totals = [directions[item].total if item in directions else None for item in pool.item_ids]
        signals = {
            RELEVANCE: np.array(pool.relevance),
            AFFINITY: affinity_signal([cosine(pool.vector, total) for total in totals]),
            LENGTH: length_signal([self.octets.get(item, 0) for item in pool.item_ids]),
        } | {leg: np.array(scores) for leg, scores in pool.legs.items()}
        order = np.argsort(-stack.score(signals)[:reach], kind="stable")
        return [*(pool.item_ids[place] for place in order), *pool.item_ids[len(order) :]]


def _standard_errors(outcome: TrialOutcome, name: str) -> float:
    if not outcome.metrics:
        return 0.0
    mean, bound = outcome.metrics[name], outcome.metrics[f"{name}_at_least"]
    return ONE_SIDED_975 * mean / (mean - bound) if mean != bound else 0.0


async def run(data: Path, server: Server) -> list[Tried]:
    """Every model of every crowd."""
    embedder = Remembering()
    tried = []
    for name, make in {**WORLDS, "cisi": _cisi}.items():
        folder = name.partition("-")[0]
        if not (data / folder).is_dir():
            say(f"NOT MEASURED: {data} holds no {folder}")
            continue
        world = make(data)
        asked, others = await pools_of(server, data, world, embedder)
        lines = read_items(data / world.task.collection / "corpus.jsonl.gz")
        items = [line.item for line in lines if line.item is not None]
        octets = {item.item_id: len(item.title.encode()) + len(item.body.encode()) for item in items}
        unasked = Others(world, others, octets)
        for seed, wrong in itertools.product(range(CROWDS), WRONG):
            crowd, former = Crowd(seed, STRAY_CLICKS, wrong), 0.0
            for verdicts, examples in zip(LOOKS, examples_of(world, asked, crowd, octets), strict=True):
                outcome, fitted = trial(examples, share=0.6)[Combination.LOGIT_STACK], fit(examples)
                stack = fitted.stack if outcome.passed and not outcome.is_shared else fitted.shared
                gains = {
                    label: round(unasked.gain(stack, fitted.directions, reach), 4) for label, reach in REACHES.items()
                }
                loss, value = (round(_standard_errors(outcome, name), 2) for name in ("log_loss_less", "value_more"))
                questions = int(outcome.metrics.get("questions", 0))
                tried.append(Tried(world.name, wrong, seed, verdicts, questions, loss, value, former, gains))
                former = min(loss, value)
            say(f"{world.name}, {crowd}: {tried[-1]}")
    return tried


Rows = list[dict[str, str]]


def page_of(tried: Sequence[Tried]) -> str:
    """The figures as a page."""
    shares = ", ".join(f"{share:.0%}" for share in WRONG)
    lines = [
        "# What the trial lets through",
        "",
        f"{len(tried)} models, fitted and tried in memory (`benchmarks/trial_power.py`): {CROWDS} crowds for each",
        f"collection and share of wrong verdicts ({shares}), with 30 % stray clicks. The gain is that of nDCG@10 on",
        "questions that nobody asks.",
        "",
        "## By the true gain",
        "",
        f"How many models pass, of those with {LEAST_QUESTIONS} rated questions, by the number of verdicts.",
        "",
        table(_by_gain(tried)),
        "",
        "## Other rules",
        "",
        "The same trials, decided by other rules. Found early: of the models that gain 2 % or more after 500 or 1,000",
        "verdicts.",
        "",
        table(_by_rule(tried)),
        "",
        "## By the reach",
        "",
        "The gain of the untested model after 2,000 verdicts, by the number of candidates that it ranks again, and how",
        "many models pass.",
        "",
        table(_by_reach(tried)),
    ]
    return "\n".join(lines) + "\n"


def _by_gain(tried: Sequence[Tried]) -> Rows:
    rows = []
    for low, high in itertools.pairwise(BINS):
        row = {"true gain": f"{low:+.1%} to {high:+.1%}"}
        for verdicts in LOOKS:
            models = [one for one in tried if one.verdicts == verdicts and low <= one.gain < high and one.is_testable]
            row[str(verdicts)] = f"{sum(map(USED, models))} of {len(models)}"
        rows.append(row)
    return rows


def _by_rule(tried: Sequence[Tried]) -> Rows:
    testable = [one for one in tried if one.is_testable]
    early = [one for one in testable if one.gain >= EARLY_GAIN and one.verdicts in EARLY]
    rows = []
    for name, rule in RULES.items():
        gains = [one.gain for one in testable if rule(one)]
        rows.append(
            {
                "rule": name,
                "used": f"{len(gains)} of {len(testable)}",
                "found early": f"{sum(map(rule, early))} of {len(early)}",
                f"lose more than {-HARM:.1%}": str(sum(gain < HARM for gain in gains)),
                "worst": f"{min(gains, default=0.0):+.1%}",
            }
        )
    return rows


def _by_reach(tried: Sequence[Tried]) -> Rows:
    rows = []
    for name, wrong in dict.fromkeys((one.collection, one.wrong) for one in tried):
        models = [one for one in tried if (one.collection, one.wrong, one.verdicts) == (name, wrong, LATE)]
        gains = {label: f"{fmean(one.gains[label] for one in models):+.1%}" for label in REACHES}
        passed = sum(one.is_testable and USED(one) for one in models)
        rows.append(
            {"collection": name, "wrong verdicts": f"{wrong:.0%}", **gains, "pass": f"{passed} of {len(models)}"}
        )
    return rows


def main() -> None:
    """The command."""
    data = data_of(__doc__)
    with running() as server:
        tried = asyncio.run(run(data, server))
    write("trial_power", {"machine": machine(), "tried": [asdict(one) for one in tried]}, page_of(tried))


if __name__ == "__main__":
    main()
