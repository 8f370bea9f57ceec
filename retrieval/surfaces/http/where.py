"""Filters in addresses: a JSON object as text."""

from __future__ import annotations

from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.filters import Filter, parse_where
from retrieval.domain.json_text import JSONTextError, json_of


def where_of(text: str | None) -> Filter | None:
    """The filter that the parameter ``where`` says. Raises ``InvalidFilterError``."""
    if text is None:
        return None
    try:
        mapping = json_of(text)
    except JSONTextError as error:
        raise InvalidFilterError(
            f'the parameter where is a JSON object such as {{"priority": "High"}}, percent-encoded, not {text!r:.80}: '
            f"{error}"
        ) from None
    try:
        return parse_where(mapping)
    except InvalidFilterError as error:
        # The place is one in the parameter, and none in a body.
        error.place = ()
        raise
