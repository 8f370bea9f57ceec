"""A document of LangChain, a text with metadata, as an item. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.domain.item import MAX_KEY_BYTES, Item
from retrieval.domain.stored_text import text_fault

EXPLANATION_KEY = "_retrieval"
"""The name in a document's metadata under which its hit is explained. No metadata of this name are stored."""

_KEY_FIELDS = ("kind", "source", "status")
_HIDDEN = "archived"


def document_item(item_id: str, text: str, metadata: Mapping[str, Any]) -> Item:
    """The text is the body and the metadata the attributes, so that both come back as they were given.

    Metadata that an item has a field for (``kind``, ``source``, ``status``, ``tags``) fill that field too: a filter
    that names it then finds the document, as it finds any other item. Raises ``InvalidItemError``.
    """
    attributes = {name: value for name, value in metadata.items() if name != EXPLANATION_KEY}
    fields = {name: attributes[name] for name in _KEY_FIELDS if _is_key(attributes.get(name))}
    # An archived item would not be found, which nobody asks of a document.
    if fields.get("status") == _HIDDEN:
        del fields["status"]
    tags = attributes.get("tags")
    if isinstance(tags, list | tuple) and all(map(_is_key, tags)):
        fields["tags"] = tuple(tags)
    return Item(item_id=item_id, body=text, attributes=attributes, **fields)


def _is_key(value: object) -> bool:
    """Whether it is a text that a field can hold."""
    is_short = isinstance(value, str) and value != "" and len(value.encode(errors="replace")) <= MAX_KEY_BYTES
    return is_short and text_fault(str(value), is_line=True) is None
