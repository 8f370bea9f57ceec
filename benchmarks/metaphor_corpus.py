"""The best text for a metaphor's vector, and the similarity at which two metaphors count as the same.

    python benchmarks/metaphor_corpus.py [--out FOLDER]

With MiniLM (extra ``local``), over the curated metaphors. ``metaphor_corpus.json`` holds 36 problems from work with
software and organisations and 36 from elsewhere, each with the metaphors that were said to fit before anything was
measured, 16 metaphors that reword a curated one, and 16 that are related to one and not the same. The problems from
work are close to the examples of the metaphors, by the same author; those from elsewhere are of other fields on
purpose. The result is the page ``results/metaphor_corpus.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from report import table

from retrieval.adapters.embedders.minilm import MiniLMEmbedder
from retrieval.apps.metaphors import STANDARD_CORPUS, Metaphor
from retrieval.apps.metaphors.corpus import DUPLICATE_FROM
from retrieval.apps.metaphors.metaphor import embedded_text
from retrieval.domain.items.embedding import Embedder, TextRole, Vectors

HERE = Path(__file__).parent
DATA = HERE / "metaphor_corpus.json"

CHOSEN = "name, description, examples"

Text = Callable[[Metaphor], str]


def _names(metaphor: Metaphor) -> str:
    return ", ".join(operation.name.replace("_", " ") for operation in metaphor.operations)


def _effects(metaphor: Metaphor) -> str:
    return " ".join(
        f"{operation.name.replace('_', ' ')}: {operation.description}; {'; '.join(operation.effects)}."
        for operation in metaphor.operations
    )


TEXTS: Mapping[str, Text] = {
    "name": lambda metaphor: metaphor.name,
    "name, description": lambda metaphor: f"{metaphor.name}\n{metaphor.description}",
    "name, description, names of operations": lambda metaphor: (
        f"{metaphor.name}\n{metaphor.description}\n{_names(metaphor)}"
    ),
    "name, description, operations with effects": lambda metaphor: (
        f"{metaphor.name}\n{metaphor.description}\n{_effects(metaphor)}"
    ),
    "name, examples": lambda metaphor: f"{metaphor.name}\nHelped with: {'; '.join(metaphor.examples)}.",
    CHOSEN: embedded_text,
    f"{CHOSEN}, names of operations": lambda metaphor: f"{embedded_text(metaphor)}\n{_names(metaphor)}",
    f"{CHOSEN}, operations with effects": lambda metaphor: f"{embedded_text(metaphor)}\n{_effects(metaphor)}",
}
"""The embedded texts, by their parts."""


def found_shares(cosines: Vectors, fitting: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Problems with a fitting metaphor first, and among the first five; ``cosines``: shape (problems, metaphors)."""
    ids = [metaphor.id for metaphor in STANDARD_CORPUS]
    order = np.argsort(-cosines, axis=1)[:, :5]
    ranked = [[ids[place] for place in row] for row in order]
    first = [row[0] in fitting_ids for row, fitting_ids in zip(ranked, fitting, strict=True)]
    five = [
        any(metaphor_id in fitting_ids for metaphor_id in row) for row, fitting_ids in zip(ranked, fitting, strict=True)
    ]
    return float(np.mean(first)), float(np.mean(five))


async def compare_texts(embedder: Embedder, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each text: how often something fitting is found, and how low the best score is."""
    kinds = {
        kind: await embedder.embed([problem["problem"] for problem in data[kind]], TextRole.QUERY)
        for kind in ("work", "life")
    }
    rows = []
    for name, text in TEXTS.items():
        metaphors = await embedder.embed([text(metaphor) for metaphor in STANDARD_CORPUS], TextRole.DOCUMENT)
        row: dict[str, Any] = {"embedded": name}
        for kind, problems in kinds.items():
            first, five = found_shares(problems @ metaphors.T, [problem["fitting"] for problem in data[kind]])
            row |= {f"{kind}: first": round(first, 2), f"{kind}: in 5": round(five, 2)}
        best = np.concatenate([(problems @ metaphors.T).max(axis=1) for problems in kinds.values()])
        row["best below .3"] = round(float(np.mean(best < 0.3)), 2)
        rows.append(row)
    return rows


async def compare_thresholds(embedder: Embedder, data: Mapping[str, Any]) -> tuple[list[dict[str, Any]], float]:
    """A row for each threshold: which shares are refused; and the cosine of the nearest curated pair."""
    curated = await embedder.embed([embedded_text(metaphor) for metaphor in STANDARD_CORPUS], TextRole.DOCUMENT)
    ids = [metaphor.id for metaphor in STANDARD_CORPUS]
    cosines = {}
    for kind in ("reworded", "related"):
        texts = [embedded_text(_metaphor(record)) for record in data[kind]]
        cosines[kind] = await embedder.embed(texts, TextRole.DOCUMENT) @ curated.T
    same = np.array(
        [row[ids.index(problem["of"])] for row, problem in zip(cosines["reworded"], data["reworded"], strict=True)]
    )
    other = cosines["related"].max(axis=1)
    pairs = (curated @ curated.T)[np.triu_indices(len(ids), 1)]
    rows = [
        {
            "from": threshold,
            "reworded": round(float(np.mean(same >= threshold)), 2),
            "related": round(float(np.mean(other >= threshold)), 2),
            "curated pairs": int(np.sum(pairs >= threshold)),
        }
        for threshold in (0.4, 0.45, 0.5, DUPLICATE_FROM, 0.55, 0.6, 0.7, 0.8)
    ]
    return rows, float(pairs.max())


def _metaphor(record: Mapping[str, Any]) -> Metaphor:
    examples = tuple(record["examples"])
    return Metaphor(id=record["name"], name=record["name"], description=record["description"], examples=examples)


def page(texts: Sequence[Mapping[str, Any]], thresholds: Sequence[Mapping[str, Any]], nearest: float) -> str:
    """The result in Markdown."""
    return f"""# The corpus of metaphors

`python benchmarks/metaphor_corpus.py`; {len(STANDARD_CORPUS)} curated metaphors, MiniLM. The script says more.

## What a vector stands for

Share of problems for which a fitting metaphor comes first, and among the first five: 36 problems from work, 36 from
elsewhere ("life"); the standard error of a share is .03 to .08. Last: problems whose best score is below .3.

{table(texts)}

## Near-duplicates

Share of 16 reworded metaphors that are refused from that cosine on, as they should be, and of 16 related ones, as they
should not; and pairs of curated ones. The nearest curated pair has {nearest:.2f}.

{table(thresholds)}
"""


async def measure() -> str:
    """Measure everything; gives the page."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    embedder = MiniLMEmbedder(threads=1)
    try:
        texts = await compare_texts(embedder, data)
        thresholds, nearest = await compare_thresholds(embedder, data)
    finally:
        await embedder.aclose()
    return page(texts, thresholds, nearest)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the page")
    options = parser.parse_args(arguments)
    text = asyncio.run(measure())
    (options.out / "metaphor_corpus.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
