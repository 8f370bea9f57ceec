"""Quality on judged test collections, as floors: below them something is broken.

Needs the test collections: set RETRIEVAL_TEST_DATA to the folder that holds cranfield, tickets_hadoop and scifact in
BEIR's format. Skipped, and said, where it is not set.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from quality import VARIANTS, measure
from tasks import CRANFIELD, SCIFACT, TICKETS

from retrieval import Platform, connect
from retrieval.adapters.embedders.chosen import configured_embedder
from retrieval.settings import Settings

DATA = os.environ.get("RETRIEVAL_TEST_DATA", "")

pytestmark = [
    pytest.mark.skipif(not DATA, reason="NOT MEASURED: set RETRIEVAL_TEST_DATA to the folder of the test collections"),
    pytest.mark.quality,
]


async def means(database_url: str, collection: str, embedder: str) -> dict[str, float]:
    """nDCG@10 by variant; without an embedder, of the words alone."""
    task = {"cranfield": CRANFIELD, "tickets_hadoop": TICKETS, "scifact": SCIFACT}[collection]
    settings = Settings().changed(embedder=embedder)
    platform: Platform
    async with connect(database_url, tenant=f"quality of {collection}", settings=settings) as platform:
        report = await measure(platform, Path(DATA), task, VARIANTS if embedder != "none" else ["lexical"])
    return {variant.variant: variant.means["nDCG@10"] for variant in report.variants}


async def test_lexical_search_is_true_bm25(database_url: str) -> None:
    """SciFact, words alone: at the level of the published BM25 figures."""
    assert (await means(database_url, "scifact", "none"))["lexical"] >= 0.685


@pytest.mark.parametrize(("collection", "floor"), [("cranfield", 0.425), ("tickets_hadoop", 0.60)])
async def test_fused_search_beats_its_legs(database_url: str, collection: str, floor: float) -> None:
    """With the default profile of the offline model, fused is not below the better leg, nor below its floor."""
    if configured_embedder(Settings().changed(embedder="auto", embedding_api_key=None, openai_api_key=None)) is None:
        pytest.skip("NOT MEASURED: the extra 'local' is not installed")
    means_found = await means(database_url, collection, "minilm")
    assert means_found["fused"] >= max(floor, means_found["lexical"], means_found["dense"])
