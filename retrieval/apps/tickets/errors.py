"""The errors of the tickets application besides the platform's own.

A value of a request or of the configuration that is outside its range is pydantic's ``ValidationError``, as it is
everywhere where pydantic reads: it is a ``ValueError``, and so is ``ProcessingError``.
"""

from __future__ import annotations

from retrieval.domain.errors import ConfigurationError, InvalidRequestError

__all__ = ["ConfigurationError", "ProcessingError"]


class ProcessingError(InvalidRequestError):
    """A request that cannot be served as it is: nothing to search for, or weights that make no score."""
