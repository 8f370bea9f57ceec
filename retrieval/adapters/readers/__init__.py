"""Readers of item files in any format: each yields a stream of items and bad lines."""

from __future__ import annotations

from retrieval.adapters.readers.item_files import column_names, read_items, size_of
from retrieval.adapters.readers.lines import InputLine
from retrieval.adapters.readers.records import item_from_record

__all__ = ["InputLine", "column_names", "item_from_record", "read_items", "size_of"]
