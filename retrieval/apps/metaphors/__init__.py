"""Metaphors that may fit a problem: found by meaning, by what helped before, and by a language model."""

from retrieval.apps.metaphors.corpus import MetaphorCorpus
from retrieval.apps.metaphors.metaphor import GENERATED, STATIC, Metaphor
from retrieval.apps.metaphors.metrics import RetrievalMetrics
from retrieval.apps.metaphors.model import RetrievalModel
from retrieval.apps.metaphors.operation import Operation
from retrieval.apps.metaphors.origin import Origin
from retrieval.apps.metaphors.problem import Problem
from retrieval.apps.metaphors.profile import METAPHORS_PROFILE
from retrieval.apps.metaphors.retrieved import Retrieved
from retrieval.apps.metaphors.retriever import MetaphorRetriever
from retrieval.apps.metaphors.scores import combine_scores
from retrieval.apps.metaphors.standard import STANDARD_CORPUS
from retrieval.apps.metaphors.validation import validate_metaphor

__all__ = [
    "GENERATED",
    "METAPHORS_PROFILE",
    "STANDARD_CORPUS",
    "STATIC",
    "Metaphor",
    "MetaphorCorpus",
    "MetaphorRetriever",
    "Operation",
    "Origin",
    "Problem",
    "RetrievalMetrics",
    "RetrievalModel",
    "Retrieved",
    "combine_scores",
    "validate_metaphor",
]
