"""Metaphors that may fit a problem: found by meaning, by earlier success, and by a language model."""

from retrieval.apps.metaphors.corpus import STANDARD_CORPUS, MetaphorCorpus
from retrieval.apps.metaphors.metaphor import (
    GENERATED,
    METAPHORS_PROFILE,
    STATIC,
    Metaphor,
    Operation,
    Origin,
    Problem,
    combine_scores,
    validate_metaphor,
)
from retrieval.apps.metaphors.retriever import MetaphorRetriever, RetrievalMetrics, RetrievalModel, Retrieved

__all__ = [
    "GENERATED", "METAPHORS_PROFILE", "STANDARD_CORPUS", "STATIC", "Metaphor", "MetaphorCorpus", "MetaphorRetriever",
    "Operation", "Origin", "Problem", "RetrievalMetrics", "RetrievalModel", "Retrieved", "combine_scores",
    "validate_metaphor",
]  # fmt: skip
