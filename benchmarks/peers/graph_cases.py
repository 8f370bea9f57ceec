"""The cases for any LangGraph store: filters by type and nesting, full pages, and paging by words."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore, PutOp

DIMENSIONS = 64
PAGE, QUERIES = 10, 20
_BATCH = 500

FILTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "9 below 10": ({"n": {"$lt": 10}}, ["nine"]),
    "10 above 9": ({"n": {"$gt": 9}}, ["ten"]),
    "an object that has at least that": ({"about": {"lang": "en"}}, ["deep"]),
    "an order within an object": ({"about": {"n": {"$gte": 9}}}, ["deep"]),
    "a list": ({"tags": ["a", "b"]}, ["list"]),
}
"""Filters, with the keys of the items that they mean."""

_VALUES: dict[str, dict[str, Any]] = {
    "nine": {"n": 9},
    "ten": {"n": 10},
    "list": {"tags": ["a", "b"]},
    "deep": {"about": {"n": 9, "lang": "en"}},
}


class MadeUp(Embeddings):
    """Vectors derived from the text, shape (64,)."""

    model = "made-up"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One for each."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The same for the same text."""
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return [float(value) for value in np.random.default_rng(seed).normal(size=DIMENSIONS)]


def fill(store: BaseStore, items: int) -> None:
    """Stores the items of ten users, each fiftieth rare, and the items that the filters select."""
    for start in range(0, items, _BATCH):
        numbers = range(start, min(items, start + _BATCH))
        store.batch([PutOp(("users", str(n % 10)), str(n), _value(n)) for n in numbers])
    store.batch([PutOp(("filters",), key, value, index=False) for key, value in _VALUES.items()])


def answers(store: BaseStore) -> dict[str, Any]:
    """The results of the store: whether each filter is right, and the number of matching items on a page."""
    pages = [store.search(("users",), query=f"note {7 * n}", filter={"rare": True}) for n in range(QUERIES)]
    users = [store.search(("users", "3"), query=f"note {7 * n}") for n in range(QUERIES)]
    later = [store.search(("users", "3"), query="note 5", offset=offset) for offset in (10, 20, 50)]
    return {
        **{f"filter: {name}": _filtered(store, *case) for name, case in FILTERS.items()},
        "items on a page of 10, 2 % match the filter": sum(map(len, pages)) / len(pages),
        "items on a page of 10, 10 % are in the namespace": sum(map(len, users)) / len(users),
        "items on the pages at offset 10, 20, 50": ", ".join(str(len(page)) for page in later),
    }


def tell(store: BaseStore) -> None:
    """Print the answers as JSON."""
    print(json.dumps(answers(store)))


def _value(number: int) -> dict[str, Any]:
    return {"text": f"note {number}", "n": number % 20, "rare": number % 50 == 0}


def _filtered(store: BaseStore, filter_: dict[str, Any], expected: list[str]) -> str:
    try:
        keys = sorted(item.key for item in store.search(("filters",), filter=filter_))
    except ValueError as error:
        return f"refused: {error}"
    return "right" if keys == expected else f"finds {', '.join(keys) or 'nothing'}"
