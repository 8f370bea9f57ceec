"""The figures of the benchmark of the corpus of metaphors."""

from __future__ import annotations

import json

import numpy as np
from metaphor_corpus import CHOSEN, DATA, TEXTS, found_shares

from retrieval.apps.metaphors import STANDARD_CORPUS


def test_a_problem_counts_where_a_fitting_one_is_among_the_first() -> None:
    """The first place counts for both shares, the fifth for one, the sixth for none."""
    ids = [metaphor.id for metaphor in STANDARD_CORPUS]
    cosines = np.zeros((3, len(ids)), dtype=np.float32)
    cosines[:, :6] = np.linspace(1, 0.5, 6)

    assert found_shares(cosines, [[ids[0]], [ids[4], ids[5]], [ids[5]]]) == (1 / 3, 2 / 3)


def test_every_fitting_metaphor_is_a_curated_one() -> None:
    """This includes reworded and related problems; and each text includes the name of each metaphor."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    named = {metaphor_id for kind in ("work", "life") for problem in data[kind] for metaphor_id in problem["fitting"]}
    named |= {problem["of"] for kind in ("reworded", "related") for problem in data[kind]}

    assert named <= {metaphor.id for metaphor in STANDARD_CORPUS}
    assert CHOSEN in TEXTS
    assert all(text(metaphor).startswith(metaphor.name) for text in TEXTS.values() for metaphor in STANDARD_CORPUS)
