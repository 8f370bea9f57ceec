"""The curated metaphors, as they come with the package."""

from __future__ import annotations

import json
from importlib.resources import files

from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.records import metaphor_from_record

_FILE = "standard_corpus.json"


def _curated() -> list[Metaphor]:
    text = files("retrieval.apps.metaphors").joinpath(_FILE).read_text(encoding="utf-8")
    return [metaphor_from_record(record) for record in json.loads(text)]


STANDARD_CORPUS: list[Metaphor] = _curated()
"""Each with its operations, their effects, and problems that it helps to think about."""
