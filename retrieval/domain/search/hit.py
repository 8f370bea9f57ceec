"""The answer of a search: hits, each with the explanation of its score."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Self, overload
from uuid import UUID

from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import ITEM_FIELDS, Item, PublicNames
from retrieval.domain.notebook import bar, table_html, text_html
from retrieval.domain.records.slate import Slot
from retrieval.domain.search.snippet import Snippet
from retrieval.domain.serialization import Serializable


class Contribution(NamedTuple):
    """One leg's part of a score."""

    leg: str
    rank: int
    """The item's rank in that leg, from 1."""
    raw_score: float
    """The leg's own score: cosine similarity, BM25."""
    weight: float
    """The leg's weight in the profile."""
    value: float
    """The leg's part of the score."""


@dataclass(frozen=True, slots=True)
class Explanation(Serializable):
    """The explanation of a hit's score. The contributions add up to the score."""

    serialized_properties = ("score",)

    fusion: str
    contributions: tuple[Contribution, ...]

    @property
    def score(self) -> float:
        """The sum of the contributions."""
        return sum(part.value for part in self.contributions)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values. Written out, for a page may have 1,000 hits, each with some ten contributions."""
        parts = [part._asdict() for part in self.contributions]
        return {"fusion": self.fusion, "score": self.score, "contributions": parts}

    def _repr_html_(self) -> str:
        """A row with a bar for each part of the score: the longest is the largest, whatever its sign."""
        largest = max((abs(part.value) for part in self.contributions), default=0.0)
        rows = [
            (
                text_html(part.leg),
                bar(part.value, largest),
                f"{part.value:.4f}",
                f"rank {part.rank}, raw {part.raw_score:.3f}, weight {part.weight:g}",
            )
            for part in self.contributions
        ]
        return table_html([*rows, ("", "", f"<b>{self.score:.4f}</b>", text_html(self.fusion))])

    def __str__(self) -> str:
        parts = [
            f"{part.value:.5f} {part.leg} (rank {part.rank}, raw {part.raw_score:.3f}, weight {part.weight:g})"
            for part in self.contributions
        ]
        return f"{self.score:.5f} = " + " + ".join(parts) + f"  [{self.fusion}]"


_REPR_HITS = 10
"""The hits of an answer that its ``repr`` shows."""


@dataclass(frozen=True, kw_only=True)
class Hit(PublicNames):
    """An item that a search returned."""

    score: float
    """Higher is better; comparable within one search only."""
    rank: int
    """The rank, from 1."""
    relevance: float | None = None
    """The probability that it is relevant, 0 to 1, comparable between searches; None: no calibration applies to it."""
    slot: Slot = Slot.EXPLOIT
    """``exploit``: its score put it there; ``explore`` or ``swap``: the search shows it to learn about it."""
    propensity: float = 1.0
    """The probability that it was shown at all, above 0 and at most 1."""
    snippet: Snippet | None = None
    """The part of its text that the query is about; None: not requested."""
    explanation: Explanation

    @classmethod
    def of_rows(cls, rows: Iterable[Iterable[Any]]) -> tuple[Self, ...]:
        """The hits whose fields have these values, in the fields' order: much faster than naming each of them."""
        each = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
        for values in each:
            values["tags"] = tuple(values["tags"])
        return tuple(map(cls._with, each))

    @property
    def item(self) -> Item:
        """The item as it was found, such as for ``add`` to another collection."""
        return Item.as_stored(**{name: getattr(self, name) for name in ITEM_FIELDS})

    def __repr__(self) -> str:
        relevance = () if self.relevance is None else (f"relevance={self.relevance:.2f}",)
        return self._short(f"rank={self.rank}", f"score={self.score:.4f}", *relevance)

    def _repr_html_(self) -> str:
        return _hits_html([self], "")


_FIELDS = tuple(each.name for each in fields(Hit))


class Path(StrEnum):
    """The path by which the dense leg found its candidates."""

    NONE = "none"
    """The dense leg did not run."""
    EXACT = "exact"
    """Every matching vector was compared."""
    APPROXIMATE = "approximate"
    """An HNSW index was walked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Serializable, Sequence[Hit]):
    """The hits, best first, and how they were found. Reads like a list of hits."""

    hits: tuple[Hit, ...]
    path: Path
    """``exact``, ``approximate`` (an index was walked), or ``none``: no dense leg ran."""
    why: str
    """The reason for the path, in words."""
    weighed: int = 0
    """Rows that the dense leg read: vectors it compared, or that the HNSW index returned."""
    profile_version: int | None
    """The stored profile that answered; None when the call brought its own."""
    notes: tuple[str, ...] = ()
    """Notes for the caller: a leg that could not run and why."""
    why_no_hits: tuple[str, ...] = ()
    """Notes where there are no hits: unknown words, bounds that nothing reached, the part of the filter that fails."""
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds by stage: embed, candidates, rerank where the profile reranks, learn (ranking too), items, total."""
    retrieval_id: UUID | None = None
    """The id of the recorded search, for feedback and replay; None: it is not recorded."""
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The number of items by value for each requested field, most frequent first; all that pass the filter count."""
    next: str | None = None
    """The cursor of the next page (``after``) in a search by pages; None: there are no more hits."""

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __repr__(self) -> str:
        more = ["…"] if len(self.hits) > _REPR_HITS else []
        lines = [f"<{len(self.hits)} hit{'s' * (len(self.hits) != 1)}, {self.path.value}>"]
        lines += [
            *map(repr, self.hits[:_REPR_HITS]),
            *more,
            *(f"note: {note}" for note in (*self.notes, *self.why_no_hits)),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        summary = f"{len(self.hits)} hit{'s' * (len(self.hits) != 1)}; {self.path.value}: {self.why}"
        return _hits_html(self.hits, "; ".join((summary, *self.notes, *self.why_no_hits)))


def _hits_html(hits: Iterable[Hit], about: str) -> str:
    """A row for each hit with its explanation, and the notes on all hits below."""
    rows = [
        (
            str(hit.rank),
            f"<b>{text_html(hit.item_id)}</b>",
            f"{text_html(hit.title)}<br><small>{text_html(hit.body)}</small>",
            f"{hit.score:.4f}",
            hit.explanation._repr_html_(),
        )
        for hit in hits
    ]
    return f"{table_html(rows, ('', 'item', 'text', 'score', 'why'))}<small>{text_html(about)}</small>"


MAX_SHOWN = 1000
"""Hits of all pages together, with the items that are left out for their low score or relevance."""

_BYTES = 6
"""The bytes of a hash: two of a thousand hits share one with a probability below one in 100 million."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position between two pages of a search."""

    question: bytes
    passed: frozenset[bytes] = frozenset()
    """The hashes of what earlier pages passed, items or groups, also those left out for low scores or relevance."""
    shown: int = 0

    def has_passed(self, key: str) -> bool:
        """Whether an earlier page passed the item of that id, or the group of that name."""
        return _hash(key.encode()) in self.passed

    def next_page(self, found: Mapping[str, str], hits: Sequence[Hit], size: int) -> tuple[tuple[Hit, ...], str | None]:
        """The hits among the first ``size`` items that no earlier page passed, and the cursor after them.

        ``found``: all items in order, each with its id or, in a search by groups, the name of its group, which is shown
        once on all pages; ``hits``: the items that are shown. A page may be short or empty; the cursor is None only if
        no further item is found.
        """
        keys = {item_id: _hash(once.encode()) for item_id, once in found.items()}
        fresh = {item_id: key for item_id, key in keys.items() if key not in self.passed}
        fresh = dict(islice(fresh.items(), size))
        own = [hit for hit in hits if hit.item_id in fresh]
        page = tuple(replace(hit, rank=rank) for rank, hit in enumerate(own, self.shown + 1))
        cursor = Cursor(self.question, self.passed.union(fresh.values()), self.shown + len(page))
        return page, None if not fresh or len(cursor.passed) >= MAX_SHOWN else str(cursor)

    def __str__(self) -> str:
        shown = self.shown.to_bytes(_BYTES, "big")
        return base64.urlsafe_b64encode(self.question + shown + b"".join(sorted(self.passed))).decode()


def read_cursor(text: object, question: str) -> Cursor:
    """The cursor that a page of the same request gave, or one before the first. Raises ``InvalidRequestError``."""
    request_hash = _hash(question.encode(errors="replace"))
    if text == "":
        return Cursor(request_hash)
    try:
        raw = base64.b64decode(text, altchars=b"-_", validate=True) if isinstance(text, str) else b""
    except (ValueError, binascii.Error):
        raw = b""
    shown = int.from_bytes(raw[_BYTES : 2 * _BYTES], "big")
    hashes = frozenset(raw[start : start + _BYTES] for start in range(2 * _BYTES, len(raw), _BYTES))
    if not hashes or len(raw) % _BYTES or len(hashes) > MAX_SHOWN:
        raise InvalidRequestError(
            f"{written(text, 40)} is not a cursor; give the next of the page before, or '' for the first page"
        ).at("after")
    if raw[:_BYTES] != request_hash:
        raise InvalidRequestError(
            "the cursor belongs to another search; use it with the same arguments, but for the limit"
        ).at("after")
    return Cursor(request_hash, hashes, min(shown, len(hashes)))


def _hash(text: bytes) -> bytes:
    return blake2b(text, digest_size=_BYTES).digest()
