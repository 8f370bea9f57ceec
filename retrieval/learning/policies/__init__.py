"""Exploration policies: which items a slate shows beyond those that its scores name, and with what probability.

    off                 the best by score
    uncertainty_bonus   the best by score + rate × uncertainty, the last place with a uniform floor
    thompson_slots      one or two places drawn by Thompson sampling among items that were hardly used
    adjacent_swaps      around any of them: now and then two neighbours change places

``choice.policy_for`` makes the one that a profile names.
"""
