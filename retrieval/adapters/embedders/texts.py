"""What happens to texts before any model sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.embedding import EmbeddingSpace, TextRole
from retrieval.domain.errors import EmbedderRejectedError


def prepared(texts: Sequence[str], role: TextRole, space: EmbeddingSpace) -> list[str]:
    """The texts with the space's prefix in front, in order, each of them encodable as UTF-8.

    Half a surrogate pair, which UTF-8 cannot hold, becomes a question mark.
    Raises ``EmbedderRejectedError`` when one text is given instead of a sequence of texts.
    """
    if isinstance(texts, str):
        raise EmbedderRejectedError("embed takes a sequence of texts; put the one text into a list")
    prefix = space.prefix(role)
    return [_encodable(prefix + text) for text in texts]


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def cut(text: str, max_bytes: int) -> str:
    """The longest beginning of at most ``max_bytes`` UTF-8 bytes that ends between two characters."""
    # A character has at most four bytes: most texts need no encoding to see that they fit.
    if len(text) * 4 <= max_bytes:
        return text
    encoded = text.encode()
    return text if len(encoded) <= max_bytes else encoded[:max_bytes].decode(errors="ignore")


def without_repeats(texts: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """Each different text once, in order of appearance, and for each text given its place among those.

    ``rows[places]`` turns the vectors of the different texts, shape (distinct, dimensions), into one a text.
    """
    places: dict[str, int] = {}
    positions = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.asarray(positions, dtype=np.intp)
