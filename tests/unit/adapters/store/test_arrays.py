"""Arrays as they are sent: vectors in PostgreSQL's binary format."""

from __future__ import annotations

import numpy as np

from retrieval.adapters.store.arrays import half_vector, half_vectors


def test_a_vector_is_its_dimensions_a_spare_number_and_its_halves() -> None:
    """As pgvector reads it: https://github.com/pgvector/pgvector, halfvec_recv."""
    assert half_vector(np.array([1.0, -0.5], dtype=np.float32)).data == bytes.fromhex("0002 0000 3c00 b800")


def test_vectors_are_each_after_its_length_and_none_is_null() -> None:
    """An array of no vectors is empty."""
    vector = np.array([1.0, -0.5], dtype=np.float32)
    each = bytes.fromhex("00000008 0002 0000 3c00 b800")
    assert half_vectors(np.stack([vector, vector])).data[20:] == 2 * each
    assert half_vectors([vector, None]).data[20:] == each + b"\xff\xff\xff\xff"
    assert half_vectors([]).data[:4] == bytes(4)
