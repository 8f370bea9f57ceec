"""What a stranger's code says, as it can be shown: on one line, printable and short, whatever it raises."""

from __future__ import annotations

import traceback

NAME_LENGTH, ERROR_LENGTH, NOTE_LENGTH = 80, 200, 1000
"""The most characters of a model's name, of an error's text, and of a note."""


def plain(text: str, most: int = NOTE_LENGTH) -> str:
    """The text on one line, without what cannot be printed, and cut."""
    # What is cut away in the end need not be looked at.
    shown = "".join(one if one.isprintable() else " " for one in text[: 4 * most])
    return " ".join(shown.split())[:most].rstrip()


def plain_error(error: BaseException) -> str:
    """What the error says; the name of its type where it says nothing, or cannot be made to."""
    try:
        said = plain(str(error), NOTE_LENGTH)
    except Exception:  # noqa: BLE001 - a stranger's __str__
        said = ""
    return said or type(error).__name__


def plain_name(model: object) -> str:
    """A model's name; that of its class where it has none that can be shown."""
    try:
        said = plain(str(model.name), NAME_LENGTH)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - a stranger's property
        said = ""
    return said or plain(type(model).__name__, NAME_LENGTH)


def plain_traceback(error: BaseException) -> str:
    """Where the error comes from, for a log that takes UTF-8 alone."""
    return "".join(traceback.format_exception(error)).encode(errors="replace").decode()
