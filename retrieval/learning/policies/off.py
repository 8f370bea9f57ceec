"""No exploration: the best by score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.exploration import PolicyName
from retrieval.learning.policies.places import Places
from retrieval.learning.policies.policy import Policy
from retrieval.learning.ranked import Ranked


@dataclass(frozen=True, slots=True)
class Off(Policy):
    """Shows the candidates in their order, each with probability 1."""

    name = PolicyName.OFF.value

    def plan(self, candidates: Sequence[Ranked], limit: int, rng: np.random.Generator) -> Places:  # noqa: ARG002 - the role's signature
        """All places settled."""
        return Places(len(candidates), tuple(range(min(limit, len(candidates)))))
