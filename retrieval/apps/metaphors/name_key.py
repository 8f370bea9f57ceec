"""When two names are the same."""

from __future__ import annotations

import re
import unicodedata

_ARTICLES = frozenset({"a", "an", "the"})


def name_key(name: str) -> str:
    """The name without case, punctuation and English articles: equal for ``The Ant-Colony`` and ``ant colony``."""
    folded = unicodedata.normalize("NFKC", name).casefold().replace("'", "").replace("’", "")
    words = re.sub(r"[\W_]+", " ", folded).split()
    return " ".join([word for word in words if word not in _ARTICLES] or words) or folded.strip()
