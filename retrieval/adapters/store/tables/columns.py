"""What the tables have in common: their metadata, and the columns that stand in many."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, MetaData, Text, func, text

TERM_DIMENSIONS = 1_000_000_000
"""The most that a sparsevec may have: the space of hashed lexemes."""

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
    }
)


def own_key(name: str) -> Column[str]:
    """An application's own key: compared byte by byte, so that no collation can make two keys one."""
    return Column(name, Text(collation="C"), nullable=False)


def now_column(name: str) -> Column[object]:
    """A time that is now unless something else is said."""
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


def collection_id(*, references: bool = True) -> Column[int]:
    """The first part of every key. ``references``: whether it goes with its collection, and not with its item."""
    owner = [ForeignKey("collections.collection_id", ondelete="CASCADE")] if references else []
    return Column("collection_id", BigInteger, *owner, primary_key=True, autoincrement=False)


def text_column(name: str, default: str = "''") -> Column[str]:
    """A text that is never NULL."""
    return Column(name, Text, nullable=False, server_default=text(default))


def count_column(name: str) -> Column[int]:
    """A number that starts at 0."""
    return Column(name, BigInteger, nullable=False, server_default=text("0"))
