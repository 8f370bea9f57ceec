"""The logit scale."""

from __future__ import annotations

import numpy as np

from retrieval.learning.arm_table import Floats

EDGE = 1e-6
"""Probabilities are clipped to this distance from 0 and 1 before taking their logit."""


def sigmoid(logits: Floats) -> Floats:
    """1 / (1 + e^-x), without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * logits))


def logit(rates: Floats) -> Floats:
    """ln(p / (1 - p)) of numbers from 0 to 1, clipped within ±13.8."""
    clipped = np.clip(rates, EDGE, 1 - EDGE)
    return np.log(clipped) - np.log1p(-clipped)


def moderation(variance: Floats) -> Floats:
    """The factor of a logit of this variance that makes its sigmoid the mean of sigmoids (MacKay 1992, eq. 10)."""
    return np.asarray(1.0 / np.sqrt(1.0 + np.pi / 8.0 * variance), dtype=np.float64)
