"""What there is to say about a collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from retrieval.domain.neighbours import Neighbours
from retrieval.domain.notebook import facts_html


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo:
    """A collection at a glance."""

    name: str
    documents: int
    """Items that a search can find."""
    pending: int
    """Items that wait for their vector."""
    space: str | None
    """The embedding space's name; None: lexical search only."""
    text_search_config: str
    profile_version: int
    model_version: int
    """The model of the learned reward that searches use; 0: none."""
    has_hnsw: bool
    filterable: Mapping[str, str]
    """The types of the declared attributes, by name."""
    neighbours: Neighbours | None = None
    """What its items are indexed together with; None: each stands alone."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            **{name: getattr(self, name) for name in CollectionInfo.__slots__},
            "filterable": dict(self.filterable),
            "neighbours": self.neighbours.as_dict() if self.neighbours else None,
        }

    def _repr_html_(self) -> str:
        return facts_html(f"collection {self.name}", ((name, value) for name, value in self.as_dict().items()))
