"""Embedding spaces as they are stored, and their tables."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.embedding import EmbeddingSpace


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A registered space: its vectors are in table ``embeddings_<space_id>``."""

    space_id: int
    space: EmbeddingSpace

    @property
    def table_name(self) -> str:
        """The table that holds the space's vectors."""
        return table_of(self.space_id)


def table_of(space_id: int) -> str:
    """The table that holds that space's vectors."""
    return f"embeddings_{space_id}"


async def register_space(database: Database, space: EmbeddingSpace) -> StoredSpace:
    """The space with its number; it and its table are made if they are missing."""
    statement = Compiled(
        "SELECT register_embedding_space(%(provider)s, %(model)s, %(revision)s, %(dimensions)s::integer, "
        "%(distance)s, %(document_prefix)s, %(query_prefix)s)",
        {name: getattr(space, name) for name in EmbeddingSpace.__slots__},
    )
    rows = await database.read(None, statement)
    return StoredSpace(int(rows[0][0]), space)
