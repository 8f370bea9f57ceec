"""Conformance suites: what every implementation of a role must do, whoever wrote it.

One function a role, for anybody's tests::

    async def test_my_embedder_keeps_the_contract():
        await check_embedder(lambda: MyEmbedder())

A suite raises ``ConformanceError`` with the name of the first check that fails. A further role adds its
checks under a ``Suite`` of its own and a ``check_<role>`` function.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from retrieval.domain.arm import Arm
from retrieval.domain.embedding import Embedder, TextRole, Vectors
from retrieval.learning.policies.policy import Policy
from retrieval.learning.ranked import Ranked

T = TypeVar("T")

Check = Callable[[T], Awaitable[None]]


class ConformanceError(AssertionError):
    """An implementation breaks the contract of its role; ``role`` and ``check`` name where."""

    def __init__(self, role: str, check: str, message: str) -> None:
        super().__init__(f"{role} check {check!r} failed: {message}")
        self.role = role
        self.check = check


@dataclass(frozen=True, slots=True)
class Suite(Generic[T]):
    """The checks of one role, by name, in the order in which they run."""

    role: str
    checks: dict[str, Check[T]] = field(default_factory=dict)

    def add(self, check: Check[T]) -> Check[T]:
        """Register a check under its function's name, as a decorator."""
        name = getattr(check, "__name__", repr(check)).strip("_").replace("_", " ")
        self.checks[name] = check
        return check

    async def run(self, subject: T) -> None:
        """Run all checks on one subject. Raises ``ConformanceError`` at the first that fails."""
        for name, check in self.checks.items():
            try:
                await check(subject)
            except _BrokenError as broken:
                raise ConformanceError(self.role, name, str(broken)) from None
            except Exception as error:
                raise ConformanceError(self.role, name, f"{type(error).__name__}: {error}") from error


class _BrokenError(Exception):
    """A check found the contract broken."""


def _require(*, that: bool, otherwise: str) -> None:
    if not that:
        raise _BrokenError(otherwise)


async def _made(make: Callable[[], T | Awaitable[T]]) -> T:
    subject = make()
    return await subject if inspect.isawaitable(subject) else subject


_EMBEDDER: Suite[Embedder] = Suite("embedder")

_TEXTS = (
    "The invoice was paid twice and the customer asks for a refund.",
    "Install the driver, then restart the machine.",
    "coffee",
    "A backup that was never restored is a hope, not a backup. " * 8,
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
)
_ODD_TEXTS = (
    "",
    " ",
    "\n\t",
    "!?",
    "\u200d",
    "naïve café",
    "数据库检索",
    "بحث",
    "👩🏽‍🚀 🚀",
    "e\u0301",
    "a\x00b",
)
_TOLERANCE = 1e-4
"""How far two vectors of the same text may differ in one number: sums of a batch have another order."""

_LONG_SECONDS = 0.5


async def check_embedder(make: Callable[[], Embedder | Awaitable[Embedder]]) -> None:
    """Check everything that ``retrieval.domain.embedding.Embedder`` promises.

    ``make`` returns a new embedder, or an awaitable of one; it is called once, and the embedder is closed.
    Some 200 texts are embedded. Raises ``ConformanceError``.
    """
    embedder = await _made(make)
    try:
        await _EMBEDDER.run(embedder)
    except BaseException:
        # The last check has closed it when all went well; a failure to close must not hide what was found.
        with contextlib.suppress(Exception):
            await embedder.aclose()
        raise


@_EMBEDDER.add
async def _space_is_stable(embedder: Embedder) -> None:
    _require(
        that=embedder.space == embedder.space,
        otherwise="two readings of its space differ; return the same value",
    )
    _require(
        that=bool(embedder.space.provider and embedder.space.model),
        otherwise="its space names no provider or no model; vectors of different models would be compared",
    )


@_EMBEDDER.add
async def _shape(embedder: Embedder) -> None:
    vectors = await _documents(embedder, *_TEXTS)
    expected = (len(_TEXTS), embedder.space.dimensions)
    _require(that=vectors.shape == expected, otherwise=f"expected shape {expected}, got {vectors.shape}")


@_EMBEDDER.add
async def _dtype(embedder: Embedder) -> None:
    vectors = await _documents(embedder, *_TEXTS)
    _require(that=vectors.dtype == np.float32, otherwise=f"expected float32, got {vectors.dtype}")


@_EMBEDDER.add
async def _unit_length(embedder: Embedder) -> None:
    lengths = np.linalg.norm(await _documents(embedder, *_TEXTS), axis=1)
    _require(that=_close(lengths, np.ones_like(lengths)), otherwise=f"vectors have the lengths {lengths.tolist()}")


@_EMBEDDER.add
async def _deterministic(embedder: Embedder) -> None:
    first = await _documents(embedder, *_TEXTS)
    second = await _documents(embedder, *_TEXTS)
    _require(that=_close(first, second), otherwise="the same texts have other vectors the second time")


@_EMBEDDER.add
async def _empty_input(embedder: Embedder) -> None:
    for role in TextRole:
        vectors = await embedder.embed([], role)
        expected = (0, embedder.space.dimensions)
        _require(
            that=vectors.shape == expected and vectors.dtype == np.float32,
            otherwise=f"no texts gave {vectors.dtype} of shape {vectors.shape}, not float32 of {expected}",
        )


@_EMBEDDER.add
async def _any_sequence(embedder: Embedder) -> None:
    as_list = await embedder.embed(list(_TEXTS), TextRole.DOCUMENT)
    as_tuple = await embedder.embed(tuple(_TEXTS), TextRole.DOCUMENT)
    _require(that=_close(as_list, as_tuple), otherwise="a tuple of texts gives other vectors than a list")


@_EMBEDDER.add
async def _different_texts_differ(embedder: Embedder) -> None:
    vectors = await _documents(embedder, *_TEXTS)
    similar = vectors @ vectors.T - np.eye(len(_TEXTS), dtype=np.float32)
    _require(that=bool(similar.max() < 1 - _TOLERANCE), otherwise="two different texts have the same vector")


@_EMBEDDER.add
async def _order_kept(embedder: Embedder) -> None:
    forward = await _documents(embedder, *_TEXTS)
    backward = await _documents(embedder, *reversed(_TEXTS))
    _require(that=_close(forward, backward[::-1]), otherwise="vectors are not in the order of the texts")


@_EMBEDDER.add
async def _batch_independent(embedder: Embedder) -> None:
    together = await _documents(embedder, *_TEXTS)
    for place, text in enumerate(_TEXTS):
        alone = await _documents(embedder, text)
        _require(
            that=_close(alone[0], together[place]),
            otherwise=f"{text[:30]!r} has another vector alone than beside other texts",
        )


@_EMBEDDER.add
async def _duplicates_are_equal(embedder: Embedder) -> None:
    vectors = await _documents(embedder, _TEXTS[0], _TEXTS[1], _TEXTS[0])
    _require(that=len(vectors) == 3, otherwise=f"three texts, two of them equal, gave {len(vectors)} vectors")
    _require(that=_close(vectors[0], vectors[2]), otherwise="the same text twice in a call has two vectors")


@_EMBEDDER.add
async def _prefixes_applied(embedder: Embedder) -> None:
    document, query = embedder.space.document_prefix, embedder.space.query_prefix
    if document == query:
        return
    text = _TEXTS[0]
    as_document = await _documents(embedder, text)
    as_query = await embedder.embed([text], TextRole.QUERY)
    _require(
        that=not _close(as_document, as_query),
        otherwise="a query has the vector of a document despite prefixes",
    )
    # Where one prefix begins with the other, the longer one can be written out in the text itself.
    if query.startswith(document):
        written = await _documents(embedder, query.removeprefix(document) + text)
        _require(that=_close(written, as_query), otherwise="the query prefix is not what is put before a query")
    if document.startswith(query):
        written = await embedder.embed([document.removeprefix(query) + text], TextRole.QUERY)
        _require(that=_close(written, as_document), otherwise="the document prefix is not put before a document")


@_EMBEDDER.add
async def _long_text(embedder: Embedder) -> None:
    vectors = await _documents(embedder, "a long text about databases and indexes " * 2000)
    _require(that=_usable(vectors), otherwise="a text of 80,000 characters has no usable vector")


@_EMBEDDER.add
async def _odd_texts(embedder: Embedder) -> None:
    for text, vector in zip(_ODD_TEXTS, await _documents(embedder, *_ODD_TEXTS), strict=True):
        _require(that=_usable(vector[None, :]), otherwise=f"the text {text!r} has no usable vector")


@_EMBEDDER.add
async def _concurrent_calls(embedder: Embedder) -> None:
    expected = await _documents(embedder, *_TEXTS)
    calls = [_documents(embedder, *_TEXTS[place % len(_TEXTS) :]) for place in range(10)]
    for place, vectors in enumerate(await asyncio.gather(*calls)):
        _require(
            that=_close(vectors, expected[place % len(_TEXTS) :]),
            otherwise="calls at the same time mix up vectors",
        )


@_EMBEDDER.add
async def _event_loop_stays_free(embedder: Embedder) -> None:
    texts = [f"{number} {_TEXTS[3]}" for number in range(48)]
    began = time.monotonic()
    beats = [began]
    heart = asyncio.create_task(_beat(beats))
    try:
        await _documents(embedder, *texts)
    finally:
        heart.cancel()
    seconds = time.monotonic() - began
    beats.append(time.monotonic())
    _require(
        that=len(beats) > 2,
        otherwise="no other task ran during embed; compute in a thread",
    )
    longest = float(max(np.diff(beats)))
    # Relative to the call, so that a slow or busy machine changes nothing.
    _require(
        that=seconds < _LONG_SECONDS or longest < seconds / 2,
        otherwise=f"embed kept other tasks from running for {longest:.1f} of its {seconds:.1f} seconds",
    )


@_EMBEDDER.add
async def _closes_twice(embedder: Embedder) -> None:
    await embedder.aclose()
    await embedder.aclose()


async def _documents(embedder: Embedder, *texts: str) -> Vectors:
    return await embedder.embed(texts, TextRole.DOCUMENT)


async def _beat(beats: list[float]) -> None:
    while True:
        beats.append(time.monotonic())
        await asyncio.sleep(0.001)


def _close(some: Vectors, others: Vectors) -> bool:
    return some.shape == others.shape and bool(np.allclose(some, others, rtol=0, atol=_TOLERANCE))


def _usable(vectors: Vectors) -> bool:
    return bool(np.isfinite(vectors).all()) and _close(
        np.linalg.norm(vectors, axis=1), np.ones(len(vectors), np.float32)
    )


_POLICY: Suite[Policy] = Suite("policy")

_SHAPES = ((0, 5), (1, 1), (1, 5), (4, 0), (4, 1), (4, 4), (9, 2), (9, 5), (40, 10))
"""Numbers of candidates and of places."""

_DRAWINGS = 4000


async def check_policy(make: Callable[[], Policy | Awaitable[Policy]]) -> None:
    """Check everything that ``retrieval.learning.policies.policy.Policy`` promises.

    ``make`` returns a policy, or an awaitable of one; it is called once. Some 4,000 slates are drawn, with fixed seeds.
    Raises ``ConformanceError``.
    """
    await _POLICY.run(await _made(make))


@_POLICY.add
async def _says_what_it_is(policy: Policy) -> None:
    name, _, version = policy.recorded_as.rpartition("/")
    _require(that=name == policy.name != "", otherwise=f"it is recorded as {policy.recorded_as!r}, not by its name")
    _require(that=version.isdigit() and int(version) >= 1, otherwise=f"its version is {version!r}, not 1 or more")


@_POLICY.add
async def _every_place_is_taken_once(policy: Policy) -> None:
    for candidates, limit in _SHAPES:
        picked, slots = policy.pull(_candidates(candidates), limit, np.random.default_rng(1)).drawn
        places = min(candidates, limit)
        _require(
            that=len(picked) == len(slots) == places == len(set(picked)) and set(picked) <= set(range(candidates)),
            otherwise=f"for {places} places of {candidates} candidates it picked {picked}",
        )


@_POLICY.add
async def _probabilities_add_up(policy: Policy) -> None:
    for candidates, limit in _SHAPES:
        plan = policy.plan(_candidates(candidates), limit, np.random.default_rng(2))
        propensities, chances, places = plan.propensities, plan.chances, min(candidates, limit)
        _require(
            that=propensities.shape == (candidates,) and chances.shape == (candidates, places),
            otherwise=f"{candidates} candidates, {places} places: shapes {propensities.shape} and {chances.shape}",
        )
        _require(
            that=bool(((chances >= 0) & (chances <= 1)).all() and (propensities <= 1).all()),
            otherwise="a probability lies outside 0 to 1",
        )
        _require(
            that=np.allclose(chances.sum(axis=0), 1, atol=1e-9) and np.allclose(chances.sum(axis=1), propensities),
            otherwise="the chances of a place do not add up to 1, or those of a candidate not to its propensity",
        )


@_POLICY.add
async def _what_is_shown_was_possible(policy: Policy) -> None:
    for seed, (candidates, limit) in enumerate(_SHAPES * 10):
        pull = policy.pull(_candidates(candidates), limit, np.random.default_rng(seed))
        shown = pull.propensities[list(pull.drawn.picked)]
        _require(
            that=bool(((pull.rank_propensities > 0) & (pull.rank_propensities <= shown)).all()),
            otherwise=f"it showed with {shown} at places with {pull.rank_propensities}",
        )


@_POLICY.add
async def _probabilities_are_known_before(policy: Policy) -> None:
    for candidates, limit in _SHAPES:
        plan = policy.plan(_candidates(candidates), limit, np.random.default_rng(3))
        pull = policy.pull(_candidates(candidates), limit, np.random.default_rng(3))
        again = policy.pull(_candidates(candidates), limit, np.random.default_rng(3))
        _require(that=pull.drawn == again.drawn, otherwise="the same seed gives another slate the second time")
        _require(
            that=np.array_equal(plan.propensities, pull.propensities),
            otherwise="planned with the same seed, a slate has other propensities than drawn",
        )


@_POLICY.add
async def _draws_as_often_as_it_says(policy: Policy) -> None:
    rng = np.random.default_rng(4)
    plan = policy.plan(_candidates(9), 5, rng)
    counts = np.zeros_like(plan.chances)
    for _ in range(_DRAWINGS):
        counts[list(plan.draw(rng).picked), range(5)] += 1
    # Five standard deviations, for some forty numbers: one in 40,000 correct policies would fail by chance.
    allowed = 5 * np.sqrt(_DRAWINGS * plan.chances * (1 - plan.chances)) + 1e-6 * _DRAWINGS
    off = np.abs(counts - _DRAWINGS * plan.chances) - allowed
    candidate, place = np.unravel_index(off.argmax(), off.shape)
    _require(
        that=bool((off <= 0).all()),
        otherwise=f"candidate {candidate} stood at place {place} in {counts[candidate, place]:.0f} of {_DRAWINGS} "
        f"slates; its chance is {plan.chances[candidate, place]:.4f}",
    )


@_POLICY.add
async def _counts_each_event_once(policy: Policy) -> None:
    arm = Arm(successes=2.0, failures=1.0, uses=4, raw_successes=3)
    after = policy.update(arm, 0.75, weight=2.0, decay=0.5)
    expected = Arm(successes=2.5, failures=1.0, uses=5, raw_successes=4)
    _require(that=after == expected, otherwise=f"after one more event {arm} is {after}, not {expected}")


def _candidates(count: int) -> list[Ranked]:
    """Of every kind: used and new, with a learned reward and without."""
    return [
        Ranked(
            item_id=f"item {place}",
            score=1 - place / (count + 1),
            eligible=place % 3 != 1,
            arm=Arm(uses=place % 5, raw_successes=place % 5 // 2),
            logit_mean=0.3 * (place % 4) - 0.5 if place % 2 else None,
            logit_sd=0.5,
            reward_sd=0.1 * (place % 6),
        )
        for place in range(count)
    ]
