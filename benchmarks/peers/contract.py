"""The protocol of a compared system, and the compared settings of an HNSW search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from corpora import Corpus, Vectors, Where


@dataclass(frozen=True, slots=True)
class Tuning:
    """The search settings of pgvector; the defaults are pgvector's."""

    ef_search: int = 40
    iterative_scan: str = "off"
    max_scan_tuples: int = 20_000
    exact: bool = False

    def settings(self) -> dict[str, str]:
        """The server's settings of a connection, those that differ from pgvector's defaults."""
        required = {
            "hnsw.ef_search": (self.ef_search, 40),
            "hnsw.iterative_scan": (self.iterative_scan, "off"),
            "hnsw.max_scan_tuples": (self.max_scan_tuples, 20_000),
        }
        return {name: str(value) for name, (value, usual) in required.items() if value != usual}


TUNINGS: Mapping[str, Tuning] = {
    "default": Tuning(),
    "ef 80": Tuning(ef_search=80),
    "ef 160": Tuning(ef_search=160),
    "ef 320": Tuning(ef_search=320),
    "strict": Tuning(iterative_scan="strict_order"),
    "relaxed": Tuning(iterative_scan="relaxed_order"),
    "relaxed, wide": Tuning(ef_search=200, iterative_scan="relaxed_order", max_scan_tuples=200_000),
    "exact": Tuning(exact=True),
}
"""By the name that the tables use. "wide" is what recall under a rare filter asks for: a longer list, a later stop."""

EFFORTS = ("default", "ef 80", "ef 160", "ef 320")


class Peer(Protocol):
    """One system. Methods are called one after the other; what they take is measured around them."""

    plain: Sequence[str]
    """Variants of an unfiltered search."""
    filtered: Sequence[str]
    """Variants of a filtered search."""
    fusions: Sequence[str]
    """Variants of a hybrid search; empty: it has none."""

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:
        """Store everything and build both indexes in an empty database; gives seconds by stage."""

    async def open(self) -> None:
        """Prepare for searches of the loaded items; not measured."""

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:
        """The ids of the nearest k items that match, best first."""

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:
        """The ids of the best k items by words and vector."""

    async def close(self) -> None:
        """Release the resources."""


def engine_url(url: str, driver: str) -> str:
    """The URL as SQLAlchemy spells it for a driver, over the same socket."""
    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host")
    if host is None:
        return f"postgresql+{driver}://{parts.netloc}{parts.path}"
    user = parts.netloc.rpartition("@")[0] or "postgres"
    return f"postgresql+{driver}://{user}@{parts.path}?host={host[0]}"
