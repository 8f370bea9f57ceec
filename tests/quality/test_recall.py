"""Times in LoCoMo's questions: by words alone, so that no model is needed.

Needs the test collections: set RETRIEVAL_TEST_DATA to the folder that holds locomo in BEIR's format. Skipped, and said,
where it is not set.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean

import pytest
from recall_temporal import questions, recalls
from tasks import LOCOMO

from retrieval import Settings, connect
from retrieval.apps.recall import TimeExpressions

DATA = os.environ.get("RETRIEVAL_TEST_DATA", "")

pytestmark = [
    pytest.mark.skipif(not DATA, reason="NOT MEASURED: set RETRIEVAL_TEST_DATA to the folder of the test collections"),
    pytest.mark.quality,
]


async def test_a_date_that_is_preferred_finds_more_than_one_that_filters_or_is_ignored(database_url: str) -> None:
    """R@10 of the questions with a date."""
    settings = Settings().changed(embedder="none")
    async with connect(database_url, tenant="quality of recall", settings=settings) as platform:
        collection = await LOCOMO.ingested(platform, Path(DATA))
        dated = [
            question
            for question in await questions(collection, Path(DATA))
            if question.said(question.asked_at) == "dated"
        ]
        by_mode = await recalls(collection, dated, lambda question: question.asked_at)
    means = {mode: fmean(values) for mode, values in by_mode.items()}
    assert means[TimeExpressions.PREFER] >= 0.75
    assert means[TimeExpressions.PREFER] > means[TimeExpressions.FILTER] > means[TimeExpressions.OFF]
