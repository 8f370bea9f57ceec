"""JSON that others write: read strictly, so that no two readers of a text can disagree about what it says."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from typing import Any, NoReturn


class JSONTextError(ValueError):
    """A text that is not taken; the message is the reason."""


class JSONSyntaxError(JSONTextError):
    """What is no JSON, or ends too soon."""


def json_of(text: str | bytes) -> Any:
    """The value that a JSON text says (RFC 8259); bytes are UTF-8, with or without a byte order mark.

    Raises ``JSONSyntaxError`` for what is no JSON; ``JSONTextError`` for bytes that are not UTF-8, an object that has
    a member twice (readers differ in which of the two counts: section 4 of the RFC), ``NaN`` and ``Infinity``, what is
    nested too deeply to be read, and numbers of too many digits.
    """
    said = text if isinstance(text, str) else _decoded(text)
    try:
        return DECODER.decode(said)
    except json.JSONDecodeError as error:
        where = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise JSONSyntaxError(f"not JSON: {error.msg} ({where})") from None
    except RecursionError:
        raise JSONTextError("nested too deeply; flatten it") from None
    except JSONTextError:
        raise
    except ValueError:
        # Python refuses to turn very long digit strings into numbers, since that takes quadratic time.
        raise JSONTextError("holds a number of too many digits; write it as text") from None


def _decoded(data: bytes) -> str:
    # RFC 8259 wants UTF-8 alone; two bytes of a text in UTF-16 or UTF-32 tell it, for JSON begins with ASCII.
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\x00" in data[:2]:
        raise JSONTextError("not UTF-8, but UTF-16 or UTF-32 by its first bytes; send it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise JSONSyntaxError("ends within a character") from None
        wrong = f"byte {error.start + 1} (0x{data[error.start]:02x})"
        raise JSONTextError(f"{wrong} is not UTF-8; send it as UTF-8") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise JSONTextError(f"the member {twice!r:.80} stands twice in one object; write it once")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise JSONTextError(f"not JSON: {name} is no JSON number; write null or leave it out")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_members)
"""As strict, for a value within a text; it raises ``JSONDecodeError`` and ``RecursionError`` too."""
