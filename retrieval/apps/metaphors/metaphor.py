"""Metaphors, problems that need one, and the ranking of metaphors for a problem. Pure."""

from __future__ import annotations

import math
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from retrieval.apps.probation import ACTIVE
from retrieval.domain import checks
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import Vector
from retrieval.domain.items.item import Item
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context
from retrieval.domain.records.slate import ShownItem
from retrieval.domain.search.hit import Contribution, Explanation, Hit
from retrieval.domain.search.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination, Learned, Recording
from retrieval.domain.search.signals import AttributeValue, VectorSimilarity
from retrieval.domain.words import LETTERS, word_pattern


def checked_text(name: str, value: object, *, is_needed: bool = False) -> str:
    """The text. Raises ``InvalidRequestError`` for anything else, and for an empty text if ``is_needed``."""
    if not isinstance(value, str) or "\x00" in value:
        raise InvalidRequestError(f"{name} is {checks.written(value)}; it must be a text without NUL")
    if is_needed and not value.strip():
        raise InvalidRequestError(f"{name} is empty; give one")
    return value


def checked_numbers(name: str, values: object) -> tuple[float, ...] | None:
    """The numbers; None for None. Raises ``InvalidRequestError`` for anything but a list of finite numbers."""
    if values is None:
        return None
    try:
        numbers = () if isinstance(values, str | bytes) else tuple(map(float, cast("Iterable[float]", values)))
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise InvalidRequestError(f"{name} is {checks.written(values)}; give a list of finite numbers, or None")
    return numbers


_ARTICLES = frozenset({"a", "an", "the"})


def name_key(name: str) -> str:
    """The name without case, punctuation and English articles: equal for ``The Ant-Colony`` and ``ant colony``."""
    folded = unicodedata.normalize("NFKC", name).casefold().replace("'", "").replace("’", "")
    words = word_pattern(LETTERS, folded).findall(folded)
    return " ".join([word for word in words if word not in _ARTICLES] or words) or folded.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source and status of a metaphor in a corpus."""

    source: str
    """``static``, ``generated``, or an application's own name."""
    status: str
    """``active``: in the corpus; ``candidate``: not settled yet; ``archived``: rejected."""
    provenance: Mapping[str, Any]
    """The origin that the caller gave, such as model and time; may be empty."""


@checks.checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation with its effects. Raises ``InvalidRequestError`` for a missing name or a value of a wrong type."""

    name: str
    """The name, such as ``add_reservoir``."""
    effects: tuple[str, ...] = ()
    """The effects; an operation without effects makes a generated metaphor invalid."""
    description: str = ""

    def __post_init__(self) -> None:
        checked_text("an operation's name", self.name, is_needed=True)
        checked_text("an operation's description", self.description)
        object.__setattr__(self, "effects", tuple(checks.checked_texts("effects", self.effects, "['it rises']")))


STATIC, GENERATED = "static", "generated"
"""Sources: the curated corpus, and a language model. Any other text is an application's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metaphor:
    """A metaphor. Raises ``InvalidRequestError`` for a missing id or name, and for values of a wrong type."""

    id: str
    """Unique within a corpus, such as ``plumbing``."""
    name: str
    domain: str = ""
    """The field that it comes from, such as ``engineering``."""
    description: str = ""
    operations: tuple[Operation, ...] = ()
    examples: tuple[str, ...] = ()
    """Problems that it helped with."""
    concreteness: float | None = None
    """The ease of picturing it, 0 (abstract) to 1 (tangible); None: unknown."""
    embedding: tuple[float, ...] | None = None
    """Its vector in the corpus's space; None: it is made from the text. A corpus stores it, scaled to length 1."""

    def __post_init__(self) -> None:
        checked_text("a metaphor's id", self.id, is_needed=True)
        checked_text("a metaphor's name", self.name, is_needed=True)
        for name in ("domain", "description"):
            checked_text(f"a metaphor's {name}", getattr(self, name))
        operations = tuple(self.operations) if isinstance(self.operations, tuple | list) else (None,)
        if not all(isinstance(operation, Operation) for operation in operations):
            raise InvalidRequestError(f"the operations of metaphor {self.id!r} are not a list of Operation(name=...)")
        object.__setattr__(self, "operations", operations)
        object.__setattr__(self, "examples", tuple(checks.checked_texts("examples", self.examples, "['a queue']")))
        object.__setattr__(self, "embedding", checked_numbers("a metaphor's embedding", self.embedding))
        if self.concreteness is not None:
            checks.checked_number("concreteness", self.concreteness)


_RECORDED = ("id", "name", "domain", "description", "examples", "concreteness")


def metaphor_from_record(record: Mapping[str, Any]) -> Metaphor:
    """The metaphor of that record; missing fields are empty. Raises ``InvalidRequestError`` for an invalid record."""
    fields = {name: record[name] for name in _RECORDED if name in record}
    return Metaphor(**fields, operations=tuple(Operation(**operation) for operation in record.get("operations", ())))


def checked_metaphor(name: str, metaphor: object) -> Metaphor:
    """The metaphor. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(metaphor, Metaphor):
        raise InvalidRequestError(
            f"{name} is {checks.written(metaphor)}; give a Metaphor, such as one that was retrieved"
        )
    return metaphor


def checked_metaphors(name: str, metaphors: object) -> list[Metaphor]:
    """The metaphors. Raises ``InvalidRequestError`` for anything but a list of metaphors."""
    each = checks.checked_list(name, metaphors, "[Metaphor(id=..., name=...)]")
    return [checked_metaphor(f"one of {name}", metaphor) for metaphor in each]


LEAST_OPERATIONS = 2
LEAST_DESCRIPTION = 20
"""The fewest operations of a valid metaphor, and the shortest description, in characters, without a warning."""


def validate_metaphor(metaphor: Metaphor) -> tuple[bool, list[str]]:
    """Whether a metaphor can be used, and its issues.

    Too few operations, and an operation without effects, make it invalid; other issues are only warnings. Raises
    ``InvalidRequestError`` for anything but a metaphor.
    """
    checked_metaphor("metaphor", metaphor)
    issues = []
    if len(metaphor.operations) < LEAST_OPERATIONS:
        issues.append(f"Too few operations (need at least {LEAST_OPERATIONS})")
    without = [operation for operation in metaphor.operations if not operation.effects]
    issues += [f"Operation '{operation.name}' has no effects" for operation in without]
    is_valid = not issues
    if len(metaphor.description) < LEAST_DESCRIPTION:
        issues.append("Description too short")
    if not metaphor.examples:
        issues.append("No examples provided (recommended)")
    return is_valid, issues


KIND = "metaphor"

NAME_KEY, RICHNESS, CONCRETENESS, PROVENANCE = "name_key", "richness", "concreteness", "provenance"
SUGGESTED_FOR = "suggested_for"
"""The filterable attribute with the ``problem_hash`` of a suggestion's provenance."""

FILTERABLE: Mapping[str, str] = MappingProxyType({NAME_KEY: "text", "domain": "text", SUGGESTED_FOR: "text"})

RICH_FROM = 6
"""The number of operations from which the richness of a metaphor is 1."""


def metaphor_item(
    metaphor: Metaphor, *, source: str = STATIC, status: str = ACTIVE, provenance: Mapping[str, Any] | None = None
) -> Item:
    """The item that stores a metaphor. Raises ``InvalidItemError`` for values that an item cannot hold."""
    attributes: dict[str, Any] = {
        "domain": metaphor.domain,
        "description": metaphor.description,
        "operations": list(map(asdict, metaphor.operations)),
        "examples": list(metaphor.examples),
        NAME_KEY: name_key(metaphor.name),
        RICHNESS: min(1.0, len(metaphor.operations) / RICH_FROM),
    }
    if metaphor.concreteness is not None:
        attributes[CONCRETENESS] = metaphor.concreteness
    if provenance:
        attributes[PROVENANCE] = dict(provenance)
        if "problem_hash" in provenance:
            attributes[SUGGESTED_FOR] = provenance["problem_hash"]
    return Item(
        item_id=metaphor.id,
        title=metaphor.name,
        body=_body(metaphor),
        kind=KIND,
        attributes=attributes,
        status=status,
        source=source,
    )


def metaphor_of(stored: Item | Hit) -> Metaphor:
    """The metaphor of an item, or of a hit, that ``metaphor_item`` made."""
    return metaphor_from_record({**stored.attributes, "id": stored.item_id, "name": stored.title})


def embedded_text(metaphor: Metaphor) -> str:
    """The text that is embedded. Operations make searches worse (docs/decisions/0024-metaphors.md)."""
    return f"{metaphor.name}\n{_body(metaphor)}".strip()


def _body(metaphor: Metaphor) -> str:
    helped = f"Helped with: {'; '.join(metaphor.examples)}." if metaphor.examples else ""
    return f"{metaphor.description}\n{helped}".strip()


@checks.checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem. Raises ``InvalidRequestError`` for a missing description, or a complexity outside 0 to 1."""

    id: str
    description: str
    domain: str = ""
    """The subject, such as ``logistics``; empty: unknown. Case and surrounding space are ignored."""
    complexity: float | None = None
    """0 to 1; None: unknown."""
    embedding: tuple[float, ...] | None = None
    """Its vector in the corpus's space; None: it is made from the description."""

    def __post_init__(self) -> None:
        checked_text("a problem's id", self.id, is_needed=True)
        checked_text("a problem's description", self.description, is_needed=True)
        Context(domain=self.domain, complexity=self.complexity)
        object.__setattr__(self, "domain", self.domain.strip().casefold())
        object.__setattr__(self, "embedding", checked_numbers("a problem's embedding", self.embedding))


LIMIT_MAX = 1000
"""The most metaphors that one call returns."""

BATCH_MAX = 1000
"""The most problems in one call."""


def checked_problem(problem: object) -> Problem:
    """The problem. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(problem, Problem):
        raise InvalidRequestError(f"problem is {checks.written(problem)}; give a Problem(id=..., description=...)")
    return problem


PREFERENCE_SHARE = 0.3
"""The share of preferences in the score by relevance; the remaining share is the similarity's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaphorSearch:
    """The arguments of a retrieval."""

    problem: Problem
    limit: int
    exclude: tuple[str, ...] = ()
    why: str = ""
    """The reason why the caller returns with the problem, in words."""
    preferred: tuple[str, ...] = ()
    """The attributes that count beside similarity: ``CONCRETENESS``, ``RICHNESS``."""
    backtracks: int = 0
    moved: Vector | None = None
    """The query's vector, moved away from the failed metaphor; None: not moved."""
    about: Vector | None = None
    """The original vector of a moved query, which determines the problem's cluster."""
    until: float | None = None
    """The time until which the call waits for suggestions, ``time.perf_counter`` seconds; None: no limit."""

    @property
    def vector(self) -> object:
        """The vector to search with; None: the embedded description."""
        return self.problem.embedding if self.moved is None else self.moved

    def where(self, status: str) -> dict[str, Any]:
        """The filter: metaphors of that status, without the excluded ones."""
        where: dict[str, Any] = {"kind": KIND, "status": status}
        return where | {"not": {"item_id": list(self.exclude)}} if self.exclude else where

    def profile(self, default: Profile) -> Profile:
        """The corpus's profile, changed by the preferences."""
        if not self.preferred:
            return default
        share = PREFERENCE_SHARE / len(self.preferred)
        attributes = [AttributeValue(weight=share, attribute=name) for name in self.preferred]
        return replace(default, signals=(VectorSimilarity(weight=1 - PREFERENCE_SHARE), *attributes))

    def context(self, *, actor: str = "", is_generated: bool = False) -> Context:
        """The context of a search, for learning and for its record. The session is the problem."""
        return replace(
            situation_of(self.problem),
            actor=actor,
            session=session_of(self.problem),
            backtracks=self.backtracks,
            generated=is_generated,
        )


def situation_of(problem: Problem) -> Context:
    """The situation to learn by: the problem's domain and complexity."""
    return Context(domain=problem.domain, complexity=problem.complexity)


def session_of(problem: Problem) -> str:
    """The problem's id; empty if it is too long for a session's name."""
    return problem.id if len(problem.id) <= MAX_NAME_LENGTH else ""


ScoredMetaphor = tuple[Metaphor, float]
"""A metaphor with its score."""

SIMILARITY_SHARE, LEARNED_SHARE = 0.4, 0.6
"""The shares of similarity and of the expected reward in a score, once a model is trained."""

UNTRIED_SHARE = 0.9
"""The factor of a candidate's similarity until the candidate has proved itself."""


def combine_scores(
    first: Iterable[ScoredMetaphor],
    second: Iterable[ScoredMetaphor],
    weights: tuple[float, float] = (SIMILARITY_SHARE, LEARNED_SHARE),
) -> list[ScoredMetaphor]:
    """Combine two rankings: the sum of weight × score by the metaphor's id, best first, then by id.

    A metaphor that is missing from a ranking has the score 0 in it. Raises ``InvalidRequestError`` for other rankings,
    and unless there are two finite weights of at least 0.
    """
    if (
        not isinstance(weights, list | tuple)
        or len(weights) != 2
        or not all(checks.is_number(weight, 0, sys.float_info.max) for weight in weights)
    ):
        raise InvalidRequestError(
            f"weights are {checks.written(weights)}; give two numbers of at least 0, such as (0.4, 0.6)"
        )
    metaphors: dict[str, Metaphor] = {}
    totals: dict[str, float] = {}
    for ranking, weight in zip((first, second), weights, strict=True):
        for pair in checks.checked_list("rankings", ranking, "the answer of retrieve"):
            is_pair = isinstance(pair, tuple | list) and len(pair) == 2
            if not (is_pair and isinstance(pair[0], Metaphor) and checks.is_finite(pair[1])):
                raise InvalidRequestError(
                    f"a ranking holds {checks.written(pair)}; give pairs of (metaphor, score), as of retrieve"
                )
            metaphor, score = pair
            metaphors.setdefault(metaphor.id, metaphor)
            totals[metaphor.id] = totals.get(metaphor.id, 0.0) + weight * score
    scored = [(metaphors[key], total) for key, total in totals.items()]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A metaphor in an answer."""

    metaphor: Metaphor
    relevance: float
    """The metaphor's relevance, 0 to 1, the input of a model of the learned reward."""
    explanation: Explanation
    score: float

    @property
    def shown(self) -> ShownItem:
        """The item to record."""
        return ShownItem(item_id=self.metaphor.id, score=self.score, signals={"relevance": self.relevance})

    @property
    def order(self) -> tuple[float, str]:
        """The key that sorts entries best first, then by id."""
        return -self.score, self.metaphor.id


def entry_by(metaphor: Metaphor, relevance: float, *parts: Contribution, kind: str = "union") -> Entry:
    """The metaphor with the sum of these parts as its score."""
    explanation = Explanation(kind, parts)
    return Entry(metaphor=metaphor, relevance=relevance, explanation=explanation, score=explanation.score)


def part(leg: str, rank: int, raw: float, weight: float = 1.0) -> Contribution:
    """The part of a score: weight × raw."""
    return Contribution(leg, rank, raw, weight, weight * raw)


def entry_of(hit: Hit) -> Entry:
    """The metaphor of a hit; its relevance is the part of the score without the learned reward."""
    relevance = hit.score
    learned = next((part for part in hit.explanation.contributions if part.leg == "learned"), None)
    if learned is not None:
        share = learned.weight if learned.weight < 1 else LEARNED_SHARE
        relevance = (hit.score - learned.value) / (1 - share)
    return Entry(metaphor=metaphor_of(hit), score=hit.score, relevance=relevance, explanation=hit.explanation)


RELEVANCE_MAX = 1 + 1e-6
"""The largest cosine after rounding."""


def relevance_of_each(hits: Iterable[Entry]) -> dict[str, float]:
    """The relevance of each metaphor, 0 to 1, by id. Raises ``InvalidRequestError`` for scores that are not cosines."""
    relevance = {entry.metaphor.id: entry.relevance for entry in hits}
    if any(not 0 <= value <= RELEVANCE_MAX for value in relevance.values()):
        raise InvalidRequestError(
            "the profile of the corpus's collection gives scores outside 0 to 1, which cannot be combined with learned "
            "rewards; set METAPHORS_PROFILE, or a profile with only the leg dense and the fusion union"
        )
    return {key: min(1.0, value) for key, value in relevance.items()}


TRUSTED_FROM = 20
"""The verdicts from which a model is used without winning a trial, because a small corpus gets few verdicts."""

METAPHORS_PROFILE = Profile(
    legs={LegName.DENSE.value: 1.0},
    fusion=Fusion(kind=FusionKind.UNION),
    # A metaphor with a distant meaning may still have helped, so all metaphors of a usual corpus are scored.
    depth=MAX_DEPTH,
    signals=(VectorSimilarity(weight=1.0),),
    learned=Learned(combination=Combination.SUM, share=LEARNED_SHARE, trusted_from=TRUSTED_FROM),
    # Replaying an answer needs all its candidates.
    recording=Recording(pool=MAX_DEPTH),
)
"""The cosine until a learned model is in use, then 0.4 × cosine + 0.6 × learned reward."""


AWAY = 0.4
"""The share of the failed metaphor's vector that is subtracted from the query's; see ``benchmarks/metaphors.py``."""

_LEAST_LENGTH = 1e-3


def preferred_after(failure_reason: str) -> tuple[str, ...]:
    """The attributes to prefer after a failure, by the words of its reason, in any case; none for other reasons."""
    reason = failure_reason.casefold()
    if "too abstract" in reason:
        return (CONCRETENESS,)
    return (RICHNESS,) if "missing concept" in reason else ()


def away_from(question: Vector, failed: Vector, strength: float = AWAY) -> Vector:
    """The query moved away from the failed vector, both of length 1 and shape (dimensions,): q' = q - strength × f.

    Negative feedback (Rocchio 1971), scaled to length 1. If q' is nearly zero, the original query.
    """
    moved = question.astype(np.float64) - strength * failed.astype(np.float64)
    length = float(np.linalg.norm(moved))
    if length < _LEAST_LENGTH:
        return question
    return (moved / length).astype(np.float32)


GENERATE_BELOW = 0.3
"""The top score below which candidates are generated."""

GENERATE_AFTER_BACKTRACKS = 2
"""The number of returns without success from which candidates are generated."""

NO_GOOD_CANDIDATES = "no good candidates"
"""The words of a context that cause candidates to be generated, regardless of case."""


def why_generate(
    top_score: float,
    context: str = "",
    backtracks: int = 0,
    *,
    below: float = GENERATE_BELOW,
    after_backtracks: int = GENERATE_AFTER_BACKTRACKS,
) -> str | None:
    """The reason for generating candidates, in words; None: there is none. ``top_score``: 0 to 1; 0 without a hit."""
    if NO_GOOD_CANDIDATES in context.casefold():
        return "the context says that there are no good candidates"
    if backtracks >= after_backtracks:
        return f"{backtracks} backtracks without success"
    if top_score < below:
        return f"the best score is {top_score:.2f}, below {below:g}"
    return None
