"""Options as a hook's commands take them: with a value each, or as a flag; the last one counts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from retrieval.domain.collection_name import check_collection_name
from retrieval.domain.errors import InvalidRequestError

LONGEST_SESSION = 200


def paired(
    arguments: Sequence[str], known: Collection[str], command: str, *, flags: Collection[str] = ()
) -> Mapping[str, str]:
    """Values by the option's name, from ``--option value`` and ``--option=value``; of the ``flags`` it is empty.

    Raises ``InvalidRequestError`` for an option that is not ``known``, or has no value.
    """
    said: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        name = option.removeprefix("--")
        if option == f"--{name}" and name in flags and not equals:
            said[name] = ""
            continue
        if name == option or name not in known:
            raise InvalidRequestError(f"{option!r:.80} is no option; see: retrieval {command} --help")
        if not equals:
            if not rest:
                raise InvalidRequestError(f"{option} needs a value; see: retrieval {command} --help")
            value = rest.pop(0)
        said[name] = value
    return said


def whole_number(option: str, text: str, least: int, most: int) -> int:
    """The number. Raises ``InvalidRequestError`` for a text that is none from ``least`` to ``most``."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise InvalidRequestError(f"{option} is {text!r:.80}; it must be a whole number from {least} to {most}")
    return number


def collection_name(text: str) -> str:
    """The name of a collection. Raises ``InvalidRequestError`` for one that none can have."""
    check_collection_name(text)
    return text


def session_name(text: str | None) -> str | None:
    """The name of a session, None for None. Raises ``InvalidRequestError`` for one that cannot be recorded."""
    if text is None:
        return None
    is_whole = text == text.encode(errors="replace").decode()
    line = shown_line(text)
    if not (line and len(text) <= LONGEST_SESSION and "\x00" not in text and is_whole):
        raise InvalidRequestError(
            f"--session must be a text of 1 to {LONGEST_SESSION} characters that says something, without NUL"
        )
    return line


def shown_line(text: str) -> str:
    """The text as one line that can be shown: a session is recorded as it is told, so that it is found again."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
