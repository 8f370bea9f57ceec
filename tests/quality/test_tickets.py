"""Floors for the search for duplicates of a ticket; see ``test_quality`` for its requirements."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tasks import TICKETS
from tickets import by_both, by_vector, figures, loaded, title, whole

from retrieval import connect
from retrieval.adapters.embedders.chosen import configured_embedder
from retrieval.settings import Settings

DATA = os.environ.get("RETRIEVAL_TEST_DATA", "")

pytestmark = [
    pytest.mark.skipif(not DATA, reason="NOT MEASURED: set RETRIEVAL_TEST_DATA to the folder of the test collections"),
    pytest.mark.quality,
]


async def test_duplicates_are_found_among_what_existed(database_url: str) -> None:
    """nDCG@10 with a neutral metadata weight: by the cosine alone, and with the words of title and description too."""
    if configured_embedder(Settings().changed(embedder="auto", embedding_api_key=None, openai_api_key=None)) is None:
        pytest.skip("NOT MEASURED: the extra 'local' is not installed")
    queries, qrels = TICKETS.queries(Path(DATA))
    settings = Settings().changed(embedder="minilm")
    async with connect(database_url, tenant="quality of tickets", settings=settings) as platform:
        collection = await loaded(platform, Path(DATA))
        vector = figures((await by_vector(platform, queries, title))[0.0], qrels)[0]
        both = figures((await by_both(collection, queries, whole))[0.0], qrels)[0]
    assert vector >= 0.67
    assert both >= 0.71
