"""Passages of long documents are found as well as alone, by their words.

Needs the test collections: set RETRIEVAL_TEST_DATA to the folder that holds cranfield in BEIR's format. Skipped, and
said, where it is not set. With vectors, ``benchmarks/long_documents.py`` measures it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from long_documents import WAYS, measure
from tasks import CRANFIELD

from retrieval import Settings, connect
from retrieval.domain.items.chunking import Chunking

DATA = os.environ.get("RETRIEVAL_TEST_DATA", "")

pytestmark = [
    pytest.mark.skipif(not DATA, reason="NOT MEASURED: set RETRIEVAL_TEST_DATA to the folder of the test collections"),
    pytest.mark.quality,
]


async def test_passages_are_found_by_their_words(database_url: str) -> None:
    """At least 95 % of Cranfield's queries that find single abstracts find them in long documents.

    Abstracts that are cut themselves lose more, without a model that counts tokens.
    """
    settings = Settings().changed(embedder="none")
    async with connect(database_url, tenant="long documents", settings=settings) as platform:
        result = await measure(platform, Path(DATA), CRANFIELD, 0, Chunking())
    recall = {variant["variant"]: variant["metrics"]["R@10"] for variant in result["variants"]}

    assert set(recall) == set(WAYS)
    assert recall["documents"] >= 0.9 * recall["alone"]
    assert recall["sections"] >= 0.95 * recall["alone"]
    assert recall["plain"] >= 0.95 * recall["alone"]
