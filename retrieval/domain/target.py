"""A target policy, as far as recorded searches go: what it might have shown for each, and how probably."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Target:
    """Columns of equal length, an entry for each item that the target might show for a retrieval."""

    retrieval_ids: list[UUID] = field(default_factory=list)
    item_ids: list[str] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    """Of the item being in the slate, 0 to 1."""
    modelled: list[float] = field(default_factory=list)
    """What a model expects the item to earn, 0 to 1, without having seen this retrieval's feedback."""

    def add(self, retrieval_id: UUID, slate: Mapping[str, float]) -> None:
        """What the target shows for one retrieval, as probabilities by item; nothing is modelled yet."""
        for item_id, probability in slate.items():
            self.retrieval_ids.append(retrieval_id)
            self.item_ids.append(item_id)
            self.probabilities.append(probability)
            self.modelled.append(0.0)
