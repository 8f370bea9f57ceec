"""What a collection may be called."""

from __future__ import annotations

from retrieval.domain.errors import InvalidRequestError

MAX_NAME_BYTES = 512


def check_collection_name(name: str) -> None:
    """Raise ``InvalidRequestError`` for anything but a text of 1 to 512 bytes in UTF-8 without NUL."""
    # Half of a surrogate pair has no UTF-8; counting it as something keeps the check from failing on it.
    if (
        not isinstance(name, str)
        or not name
        or "\x00" in name
        or len(name.encode(errors="replace")) > MAX_NAME_BYTES
        or name != name.encode(errors="replace").decode()
    ):
        raise InvalidRequestError(f"a collection's name has 1 to {MAX_NAME_BYTES} bytes and no NUL, not {name!r:.80}")
