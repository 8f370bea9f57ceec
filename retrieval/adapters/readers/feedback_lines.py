"""Files of feedback: one event a line, in JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from retrieval.adapters.readers.lines import decoded, read_lines, too_long_reason
from retrieval.domain.checks import JSONTextError, json_of, written
from retrieval.domain.errors import BadLineError, InvalidRequestError
from retrieval.domain.learning.context import Context
from retrieval.domain.learning.feedback import Feedback

MAX_LINE_BYTES = 100_000

_NAMES = {field.name for field in fields(Feedback)} - {"of_session"} | {"helpful"}


def read_feedback(file: str) -> Iterator[tuple[int, Feedback | BadLineError]]:
    """Every line that is not blank: its number, from 1, and its event or the error.

    An event without actor, session and key gets a key made from its line: a file that is read twice counts
    once. Raises ``InvalidRequestError`` if the file cannot be read.
    """
    occurrences: Counter[bytes] = Counter()  # by digest, because a file may be large
    for line in read_lines(file, max_line_bytes=MAX_LINE_BYTES):
        raw, fault = decoded(line.data)
        if not raw.strip():
            continue
        if line.too_long:
            fault = too_long_reason(MAX_LINE_BYTES)
        text = raw.strip()
        digest = sha256(text.encode(errors="surrogatepass"))
        occurrences[digest.digest()] += 1
        try:
            if fault:
                raise InvalidRequestError(fault)  # noqa: TRY301 - one place makes errors of lines
            event = feedback_from_record(_parse(text), key=f"{occurrences[digest.digest()]} {digest.hexdigest()}")
        except InvalidRequestError as error:
            yield line.number, BadLineError(file, line.number, str(error))
        else:
            yield line.number, event


def feedback_from_record(record: Mapping[str, Any], *, key: str | None = None) -> Feedback:
    """The event of a record with the fields of ``Feedback``, as an event over HTTP; its context is an object.

    ``key`` is the key of an event without actor, session and key. Raises ``InvalidRequestError``.
    """
    unknown = sorted(set(record) - _NAMES)
    if unknown:
        is_of_context = unknown[0] in {field.name for field in fields(Context)}
        hint = "write it in 'context', an object" if is_of_context else f"its fields are {', '.join(sorted(_NAMES))}"
        raise InvalidRequestError(f"feedback has no field {written(unknown[0])}; {hint}")
    given = {name: value for name, value in record.items() if value is not None}
    if "at" in given:
        given["at"] = _time(given["at"])
    if "context" in given:
        given["context"] = _context(given["context"])
    event = Feedback(**{"item_id": "", **given})
    return event if event.own_key is not None or key is None else replace(event, key=key)


def _parse(text: str) -> Mapping[str, Any]:
    try:
        record = json_of(text)
    except JSONTextError as error:
        raise InvalidRequestError(str(error)) from None
    if not isinstance(record, dict):
        raise InvalidRequestError("an event is written as an object with an 'item_id'")
    return record


def _context(value: object) -> Context:
    if not isinstance(value, Mapping):
        raise InvalidRequestError('context is written as an object such as {"domain": "db"}')
    return Context(**value)


def _time(value: object) -> datetime:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        raise InvalidRequestError(f"at is {written(value)}; write it as 2026-03-01T12:00:00+00:00") from None
