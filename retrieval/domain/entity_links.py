"""Links from memories to entities: ids by entity type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.item import MAX_KEY_BYTES
from retrieval.domain.stored_text import text_fault

Links = Mapping[str, Sequence[str]]
"""Such as ``{"questions": ["q1", "q2"], "hypotheses": ["h1"]}``."""

_KEYWORD = re.compile(r"linked_([a-z0-9_]+)_ids")


def entity_type(stem: str) -> str:
    """The type that a keyword ``linked_<stem>_ids`` links to: the stem's regular English plural.

    ``hypothesis``: ``hypotheses``; ``study``: ``studies``; ``batch``: ``batches``; else an ``s`` is added. A plural
    that is not regular is named in ``links`` instead.
    """
    if stem.endswith("sis"):
        return f"{stem[:-2]}es"
    if re.search(r"[^aeiou]y$", stem):
        return f"{stem[:-1]}ies"
    if re.search(r"(?:s|x|z|ch|sh)$", stem):
        return f"{stem}es"
    return f"{stem}s"


def links_of(links: Links | None, keywords: Mapping[str, Sequence[str]]) -> Links:
    """``links`` and the keywords ``linked_<stem>_ids`` together.

    Raises ``InvalidRequestError`` for a keyword of another form, and for ids that are no list of texts.
    """
    given = checked_links({} if links is None else links)
    found: dict[str, list[str]] = {name: list(ids) for name, ids in given.items()}
    for keyword, ids in keywords.items():
        named = _KEYWORD.fullmatch(keyword)
        if named is None:
            raise InvalidRequestError(
                f"there is no argument {keyword!r}; links are given as linked_paper_ids=[...], or in links={{...}}"
            )
        if ids is not None:
            found.setdefault(entity_type(named[1]), []).extend(checked_ids(keyword, ids))
    return checked_links(found)


def checked_links(links: Links) -> Links:
    """The links, each once, without types that have none. Raises ``InvalidRequestError`` for what cannot be one."""
    if not isinstance(links, Mapping):
        raise InvalidRequestError(f"links are a mapping such as {{'questions': ['q1']}}, not {links!r:.80}")
    found = {}
    for name, ids in links.items():
        _check_key("an entity type", name)
        if ":" in name:
            raise InvalidRequestError(f"an entity type has no colon, which parts it from the id: {name!r:.80}")
        if kept := checked_ids(f"links of type {name!r}", ids):
            found[name] = kept
    return MappingProxyType(found)


def checked_ids(name: str, ids: object) -> tuple[str, ...]:
    """The ids, each once. Raises ``InvalidRequestError``."""
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise InvalidRequestError(f"{name}: ids come in a list such as ['q1', 'q2'], not {ids!r:.80}")
    for one in ids:
        _check_key(name, one)
    return tuple(dict.fromkeys(ids))


def united(one: Links, other: Links) -> Links:
    """The links of both."""
    return checked_links({name: [*one.get(name, ()), *other.get(name, ())] for name in dict.fromkeys([*one, *other])})


def _check_key(name: str, value: object) -> None:
    if not isinstance(value, str) or not value or len(value.encode(errors="replace")) > MAX_KEY_BYTES:
        raise InvalidRequestError(f"{name}: {value!r:.80} is none; it must be a text of 1 to {MAX_KEY_BYTES} bytes")
    if fault := text_fault(value, is_line=True):
        raise InvalidRequestError(f"{name}: {value!r:.80} holds {fault}, which cannot be stored; take it out")
