"""What an embeddings endpoint's refusals mean for the caller."""

from __future__ import annotations

from retrieval.adapters.endpoints.refusals import Service
from retrieval.domain.errors import EmbedderRejectedError, EmbedderUnavailableError


class TooLongError(EmbedderRejectedError):
    """The texts of one request, together or one of them, have too many tokens."""


EMBEDDINGS = Service(
    serves="embeddings",
    operation="embeddings",
    settings="RETRIEVAL_EMBEDDING",
    refused_advice="RETRIEVAL_EMBEDDING_MODEL and RETRIEVAL_EMBEDDING_DIMENSIONS",
    unavailable=EmbedderUnavailableError,
    rejected=EmbedderRejectedError,
    too_long=TooLongError,
    refused=EmbedderRejectedError,
)
"""What an embedder asks for."""
