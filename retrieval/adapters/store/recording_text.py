"""A recorded search written down as ``recording_statement.encoded`` does, ten times as fast: for who records many."""

from __future__ import annotations

from pydantic_core import to_json

from retrieval.adapters.store.recording_statement import encoded, plain, values_of
from retrieval.domain.recorded import RecordedSearch

_NO_NUMBERS = (b"NaN", b"Infinity")


def written(search: RecordedSearch) -> str:
    """The search as ``store_recordings`` takes it. Raises ``ValueError`` for a number that is none."""
    text = to_json(values_of(search), inf_nan_mode="constants", fallback=plain)
    if any(one in text for one in _NO_NUMBERS):
        # Perhaps a word of the question; the other way of writing tells.
        return encoded(search)
    return text.decode()
