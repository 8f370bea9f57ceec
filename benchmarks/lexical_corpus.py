"""Many documents of about 100 words from few: sentences of real abstracts and reports put together in new ways.

A word is then as frequent, as a share of the documents, as in the real ones; queries are real ones of 5 to 12 words.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from retrieval.domain.checks import clean_text

SETS = ("scifact", "cranfield", "vaswani", "tickets_hadoop")
"""Folders in BEIR's format."""

_WORDS, _SPREAD = 100, 30


def sources(data: Path) -> list[list[str]]:
    """Each text as its sentences of 3 to 60 words."""
    found = []
    for name in SETS:
        with gzip.open(data / name / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts = [" ".join(clean_text(f"{row['title']}. {row['text']}").split()) for row in map(json.loads, lines)]
        found += [
            [sentence for sentence in re.split(r"(?<=[.?!]) ", text) if 3 <= len(sentence.split()) <= 60]
            for text in texts
        ]
    return [sentences for sentences in found if sentences]


def documents(data: Path, number: int, seed: int = 1) -> Iterator[str]:
    """``number`` documents; a larger number begins with the same ones."""
    chance = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    texts = sources(data)
    for _ in range(number):
        target = min(max(chance.gauss(_WORDS, _SPREAD), 20), 250)
        main, *others = (chance.choice(texts) for _ in range(3))
        parts: list[str] = []
        length = 0
        while length < target:
            parts.append(chance.choice(chance.choice([main, main, *others])))
            length += len(parts[-1].split())
        yield " ".join(parts)


def queries(data: Path, number: int, seed: int = 2) -> list[str]:
    """``number`` queries, cut after 12 words; queries of fewer than 5 words are left out."""
    texts = []
    for name in SETS:
        with (data / name / "queries.jsonl").open(encoding="utf-8") as lines:
            words = [json.loads(line)["text"].split() for line in lines]
        texts += [" ".join(sentence[:12]) for sentence in words if len(sentence) >= 5]
    random.Random(seed).shuffle(texts)  # noqa: S311 - nothing is kept secret by it
    return texts[:number]
