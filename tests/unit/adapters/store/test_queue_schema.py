"""The queue's tables as the migrations make them, against those of the library that uses them."""

from __future__ import annotations

from procrastinate.schema import SchemaManager

from retrieval.adapters.store.installed_sql import Names, installed_sql


def statements(text: str) -> list[str]:
    """The words of the SQL from the first type on, without comments at its beginning."""
    return text[text.index("-- Enums") :].split()


def test_the_queue_is_the_one_that_the_library_expects() -> None:
    """A release with other tables needs a revision of its own, and its range in pyproject.toml moved."""
    assert statements(installed_sql("installation/procrastinate", Names("retrieval"))) == statements(
        SchemaManager.get_schema()
    )
