"""What a search gives back: hits, each with the explanation of its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, overload
from uuid import UUID

from retrieval.domain.notebook import explanation_html, hits_html
from retrieval.domain.records.slate import Slot
from retrieval.domain.search.snippet import Snippet


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
    """What the leg adds to the score."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a hit got its score. The contributions add up to it."""

    fusion: str
    contributions: tuple[Contribution, ...]

    @property
    def score(self) -> float:
        """The sum of the contributions."""
        return sum(part.value for part in self.contributions)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        parts = [part._asdict() for part in self.contributions]
        return {"fusion": self.fusion, "score": self.score, "contributions": parts}

    def _repr_html_(self) -> str:
        return explanation_html(self.contributions, self.fusion)

    def __str__(self) -> str:
        parts = [
            f"{part.value:.5f} {part.leg} (rank {part.rank}, raw {part.raw_score:.3f}, weight {part.weight:g})"
            for part in self.contributions
        ]
        return f"{self.score:.5f} = " + " + ".join(parts) + f"  [{self.fusion}]"


_REPR_CHARACTERS, _REPR_HITS = 70, 10
"""Of a hit's text and of an answer's hits, how much their plain forms show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item that a search returned."""

    item_id: str
    score: float
    """Higher is better; comparable within one search only."""
    rank: int
    """From 1."""
    explanation: Explanation
    slot: Slot = Slot.EXPLOIT
    """Why it stands there: for its score, or to learn about it."""
    propensity: float = 1.0
    """The probability that it was shown at all, above 0 and at most 1."""
    title: str = ""
    body: str = ""
    kind: str = ""
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    status: str = "active"
    source: str = ""
    occurred_at: datetime | None = None
    snippet: Snippet | None = None
    """The part of its text that the query is about; None: it was not asked for."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "item_id": self.item_id,
            "score": self.score,
            "rank": self.rank,
            "slot": self.slot.value,
            "propensity": self.propensity,
            "title": self.title,
            "body": self.body,
            "kind": self.kind,
            "tags": list(self.tags),
            "attributes": dict(self.attributes),
            "status": self.status,
            "source": self.source,
            "occurred_at": self.occurred_at.isoformat() if self.occurred_at else None,
            "explanation": self.explanation.as_dict(),
            **({} if self.snippet is None else {"snippet": self.snippet.as_dict()}),
        }

    def __repr__(self) -> str:
        # Two lines of a terminal; the rest is in its fields, and as_dict has all.
        text = " ".join(f"{self.title} {self.body[:_REPR_CHARACTERS]}".split())
        short = text if len(text) <= _REPR_CHARACTERS else f"{text[: _REPR_CHARACTERS - 1]}…"
        return f"Hit(rank={self.rank}, item_id={self.item_id!r:.40}, score={self.score:.4f}, text={short!r})"

    def _repr_html_(self) -> str:
        return hits_html([(self, self.explanation._repr_html_())], "")


class Path(StrEnum):
    """How the dense leg found its candidates."""

    NONE = "none"
    """The dense leg did not run."""
    EXACT = "exact"
    """Every matching vector was compared."""
    APPROXIMATE = "approximate"
    """An HNSW index was walked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Sequence[Hit]):
    """The hits, best first, and how they were found. Reads like a list of hits."""

    hits: tuple[Hit, ...]
    path: Path
    why: str
    """Why that path was taken, in words."""
    weighed: int = 0
    """Rows that the dense leg weighed: vectors it compared, or that the HNSW index brought."""
    profile_version: int | None
    """The stored profile that answered; None when the call brought its own."""
    notes: tuple[str, ...] = ()
    """What the caller should know: a leg that could not run and why."""
    why_no_hits: tuple[str, ...] = ()
    """Where there are no hits: which part of the filter lets nothing through, and what is near to it.

    ``search_each`` does not ask for it."""
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds by stage: embed, candidates, items, total."""
    retrieval_id: UUID | None = None
    """Under which the search is recorded, for feedback and replay; None: it is not."""
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each field that was asked for the number of items by value, the most frequent first: of all items that the
    filter and the query's phrases and exclusions let through, found or not."""
    next: str | None = None
    """Of a search by pages, what its next page is asked for with (``after``); None: this is the last."""

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
        found = f"{len(self.hits)} hit{'s' * (len(self.hits) != 1)}; {self.path.value}: {self.why}"
        return hits_html(
            [(hit, hit.explanation._repr_html_()) for hit in self.hits],
            "; ".join((found, *self.notes, *self.why_no_hits)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "hits": [hit.as_dict() for hit in self.hits],
            "path": self.path.value,
            "why": self.why,
            "weighed": self.weighed,
            "profile_version": self.profile_version,
            "notes": list(self.notes),
            "why_no_hits": list(self.why_no_hits),
            "timings_ms": dict(self.timings_ms),
            "retrieval_id": None if self.retrieval_id is None else str(self.retrieval_id),
            **({} if self.next is None else {"next": self.next}),
            **({"facets": {name: dict(counts) for name, counts in self.facets.items()}} if self.facets else {}),
        }
