"""Metaphors that may fit a problem: found by meaning, by what helped before, and by a language model."""

from retrieval.apps.metaphors.metaphor import GENERATED, STATIC, Metaphor
from retrieval.apps.metaphors.operation import Operation
from retrieval.apps.metaphors.problem import Problem

__all__ = ["GENERATED", "STATIC", "Metaphor", "Operation", "Problem"]
