"""What an agent's hook says on standard input: a JSON object with the session and its folder."""

from __future__ import annotations

import json
import os
import select
import time
from dataclasses import dataclass

from retrieval.apps.principles.startup.arguments import LONGEST_SESSION, shown_line

WAIT_SECONDS = 0.05
"""How long input that has not come is waited for."""

_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HookInput:
    """What was said; empty where nothing was, or nothing that could be used."""

    session: str = ""
    folder: str = ""


def read_hook_input(descriptor: int = 0, wait_seconds: float = WAIT_SECONDS) -> HookInput:
    """What stands on standard input by then; a terminal is not read at all. Raises nothing."""
    try:
        if os.isatty(descriptor):
            return HookInput()
        return parsed(_read(descriptor, time.monotonic() + wait_seconds))
    except (OSError, ValueError):
        return HookInput()


def parsed(text: bytes) -> HookInput:
    """The session and the folder of a hook's JSON object; empty where it is none, or they are none."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return HookInput()
    if not isinstance(said, dict):
        return HookInput()
    return HookInput(
        session=shown_line(_text(said.get("session_id"), LONGEST_SESSION)), folder=_text(said.get("cwd"), 4096)
    )


def _text(value: object, longest: int) -> str:
    is_usable = isinstance(value, str) and len(value) <= longest and "\x00" not in value
    return value.encode(errors="replace").decode() if is_usable and isinstance(value, str) else ""


def _read(descriptor: int, deadline: float) -> bytes:
    """What comes until then, up to the end of an object: who writes may leave the pipe open."""
    read = bytearray()
    while len(read) < _MOST_BYTES:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        if not (more := os.read(descriptor, _MOST_BYTES - len(read))):
            break
        read += more
        if read.rstrip().endswith(b"}") and parsed(bytes(read)) != HookInput():
            break
    return bytes(read)
