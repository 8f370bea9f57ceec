"""Vectors without a model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from retrieval.adapters.embedders.hashing import HashingEmbedder, hashed_vector
from retrieval.domain.errors import ConfigurationError
from retrieval.domain.items.embedding import TextRole
from retrieval.testing import check_embedder


@pytest.mark.parametrize("dimensions", [8, 256, 4000])
async def test_keeps_the_contract_of_embedders(dimensions: int) -> None:
    """It passes the conformance suite, whatever the dimensions."""
    await check_embedder(lambda: HashingEmbedder(dimensions))


async def test_keeps_the_contract_with_prefixes() -> None:
    """Prefixes take part in the vector."""
    await check_embedder(lambda: HashingEmbedder(document_prefix="passage: ", query_prefix="query: "))


def test_shared_words_are_near_and_shared_spellings_nearer_than_none() -> None:
    """Words count, then parts of words, then nothing."""
    text = hashed_vector("restore the database backup", 1024)
    words = text @ hashed_vector("the backup of a database", 1024)
    spellings = text @ hashed_vector("databases restored", 1024)
    neither = text @ hashed_vector("green fruit", 1024)
    assert words > spellings > neither + 0.1


def test_case_makes_no_difference() -> None:
    """Words are compared without regard to case."""
    np.testing.assert_array_equal(hashed_vector("Straße", 64), hashed_vector("STRASSE", 64))


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_text_has_a_fixed_vector(text: str) -> None:
    """Nothing to hash still gives a direction."""
    np.testing.assert_array_equal(hashed_vector(text, 4), np.array([1, 0, 0, 0], dtype=np.float32))


def test_signs_without_words_differ() -> None:
    """Texts without words differ too."""
    assert hashed_vector("!?", 256) @ hashed_vector("...", 256) < 0.99


def test_another_process_computes_the_same() -> None:
    """Nothing depends on the interpreter's own hash, which differs from process to process."""
    module = "retrieval.adapters.embedders.hashing"
    code = f"from {module} import hashed_vector; print(hashed_vector('a word', 16).tolist())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(hashed_vector("a word", 16).tolist())


async def test_another_seed_is_another_space() -> None:
    """Vectors of two seeds are not comparable, and their spaces say so."""
    first, second = HashingEmbedder(), HashingEmbedder(seed=1)
    assert (first.space.provider, first.space.revision) == ("hashing", "1")
    assert first.space != second.space
    vectors, other = [await embedder.embed(["word"], TextRole.QUERY) for embedder in (first, second)]
    assert not np.allclose(vectors, other)


def test_impossible_dimensions_are_refused() -> None:
    """A space has 1 to 4000 dimensions."""
    with pytest.raises(ConfigurationError):
        HashingEmbedder(4001)
