"""Quality on long conversations, as floors: turns found with their neighbours' help, within their conversation.

Needs the test collection: set RETRIEVAL_TEST_DATA to the folder that holds locomo in BEIR's format. Skipped, and said,
where it is not set.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from locomo import Talks, fill, means, ranked, scored

from retrieval import connect
from retrieval.adapters.embedders.chosen import configured_embedder
from retrieval.apps.conversations import CONVERSATION_NEIGHBOURS, CONVERSATION_PROFILE
from retrieval.settings import Settings

DATA = os.environ.get("RETRIEVAL_TEST_DATA", "")

pytestmark = [
    pytest.mark.skipif(not DATA, reason="NOT MEASURED: set RETRIEVAL_TEST_DATA to the folder of the test collections"),
    pytest.mark.quality,
]


async def test_turns_are_found_with_their_neighbours_help(database_url: str) -> None:
    """With the conversations' own settings and the offline model, each figure is above its floor."""
    if configured_embedder(Settings().changed(embedder="auto", embedding_api_key=None, openai_api_key=None)) is None:
        pytest.skip("NOT MEASURED: the extra 'local' is not installed")
    talks = Talks.read(Path(DATA))
    settings = Settings().changed(embedder="minilm")
    async with connect(database_url, tenant="quality of conversations", settings=settings) as platform:
        collection = await fill(platform, "talks", talks.turns, CONVERSATION_NEIGHBOURS)
        recalls = means(scored(await ranked(collection, talks, CONVERSATION_PROFILE), talks), talks.queries)
    assert recalls["turn R@10"] >= 0.79
    assert recalls["session R@10"] >= 0.942
    assert recalls["multi-hop session R@5"] >= 0.58
