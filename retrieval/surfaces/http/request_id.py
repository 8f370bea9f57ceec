"""What a request is called by in answers, logs and problem documents."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar

HEADER = b"x-request-id"

_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

_CURRENT: ContextVar[str] = ContextVar("retrieval_request_id", default="")

set_request_id, reset_request_id = _CURRENT.set, _CURRENT.reset


def current_request_id() -> str:
    """The id of the request that is being answered; empty outside of one."""
    return _CURRENT.get()


def request_id_of(given: bytes | None) -> str:
    """The id that came with the request, if it can stand in a log as it is; else a new one."""
    text = "" if given is None else given.decode("latin-1")
    return text if text and _SANE.fullmatch(text) else secrets.token_hex(16)
