"""Where an ingest sends texts to be embedded, and what that costs: told before the first text leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.surfaces.cli.output import console, count

if TYPE_CHECKING:
    from retrieval.domain.items.embedding import EmbeddingSpace
    from retrieval.platform import Platform

_BYTES_A_TOKEN = 4
"""Of English text, roughly."""

_DOLLARS_A_MILLION = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.10,
}
"""OpenAI's list prices of a million tokens, by model, as of 2025."""

_OPENAI = "https://api.openai.com/"


async def tell_destination(platform: Platform, collection: str, total_bytes: int | None, *, yes: bool) -> None:
    """Say where texts go, if they leave this machine; ask, where the environment alone has chosen that.

    It says so of a new collection, and always on a terminal. There it asks for a new collection, where
    ``OPENAI_API_KEY`` decided and not ``RETRIEVAL_EMBEDDER``.
    Raises ``InvalidRequestError`` for the answer no: nothing is stored.
    """
    space, is_new = await _space_of(platform, collection)
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if space is None or space.provider != "openai" or not (is_new or is_terminal):
        return
    from retrieval.adapters.endpoints.caller import OPENAI_URL

    url = platform.settings.embedding_base_url or OPENAI_URL
    line = f"texts are sent to {url}, to be embedded by {space.model}{_price(url, space.model, total_bytes)}"
    console(stderr=True).print(f"note: {line}; RETRIEVAL_EMBEDDER=minilm keeps them on this machine", soft_wrap=True)
    is_implicit = is_new and platform.settings.embedder == "auto"
    if yes or not is_implicit or not is_terminal:
        return
    if not typer.confirm("OPENAI_API_KEY is set, RETRIEVAL_EMBEDDER is not. Send them?", err=True):
        raise InvalidRequestError("nothing was sent or stored; choose by RETRIEVAL_EMBEDDER=openai, minilm or none")


def bytes_of(paths: Iterable[str | os.PathLike[str]]) -> int:
    """The size of files, and of those in folders."""
    files = (file for path in map(Path, paths) for file in (path.rglob("*") if path.is_dir() else [path]))
    return sum(file.stat().st_size for file in files if file.is_file())


async def _space_of(platform: Platform, collection: str) -> tuple[EmbeddingSpace | None, bool]:
    """The space that the collection has or will have, and whether the collection is new."""
    try:
        return await (await platform.collection(collection, create=False)).space(), False
    except UnknownCollectionError:
        embedder = platform.embedder
        return (None if embedder is None else embedder.space), True


def _price(url: str, model: str, total_bytes: int | None) -> str:
    if not total_bytes:
        return ""
    tokens = max(total_bytes // _BYTES_A_TOKEN, 1)
    dollars = _DOLLARS_A_MILLION.get(model) if url.startswith(_OPENAI) else None
    if dollars is None:
        return f": about {count(tokens, 'token')}"
    return f": about {count(tokens, 'token')}, some ${max(tokens * dollars / 1e6, 0.01):,.2f} by its list price"
