"""Items that say nothing: neither a title nor a text, so that nothing but their attributes tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from retrieval.domain.item import Item

_MOST_NAMES = 1000
"""Names of attributes that are counted, so that a long run keeps to its memory."""


@dataclass(frozen=True, slots=True)
class WithoutText:
    """How many of some items have no text, and where it may stand instead."""

    number: int = 0
    characters: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Of the items without text: how long their attributes that are texts are together, by name."""

    @classmethod
    def among(cls, items: Iterable[Item]) -> WithoutText:
        """Those among the items."""
        found = [item.attributes for item in items if not item.text]
        counted: Counter[str] = Counter()
        for attributes in found:
            counted.update({name: len(value) for name, value in attributes.items() if isinstance(value, str)})
        return cls(len(found), dict(counted.most_common(_MOST_NAMES)))

    def __add__(self, other: WithoutText) -> WithoutText:
        if not other.number:
            return self
        together = Counter(self.characters) + Counter(other.characters)
        return WithoutText(self.number + other.number, dict(together.most_common(_MOST_NAMES)))

    @property
    def likely_text(self) -> str:
        """The attribute that holds most of what could be the text; empty where none holds any."""
        return max(self.characters, key=lambda name: self.characters[name], default="")

    def told(self, items: int) -> str:
        """The beginning of a message: how many of so many items."""
        return f"{self.number} of {items} {'item has' if items == 1 else 'items have'} no text"


def without_text_notes(items: Iterable[Item]) -> tuple[str, ...]:
    """What is to be said of items that a program adds; nothing where each has a title or a text."""
    every = list(items)
    found = WithoutText.among(every)
    if not found.number:
        return ()
    likely = found.likely_text
    advice = f"if {likely!r:.80} holds it, call that 'text'" if likely else "an item's 'title' and 'text' are searched"
    return (f"{found.told(len(every))}; {advice}",)
