"""What comes by standard input: of lines that are no message somebody is told, since no answer can be."""

from __future__ import annotations

import logging
from typing import Self

from mcp.shared._context_streams import ContextReceiveStream
from mcp.shared.message import SessionMessage

_log = logging.getLogger(__name__)


class Told(ContextReceiveStream[SessionMessage | Exception]):
    """The messages of another stream. What is none stands in the log, in one line."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def receive(self) -> SessionMessage | Exception:
        """The next message, or what is wrong with the next line."""
        item = await super().receive()
        if isinstance(item, Exception):
            said = " ".join(str(item).split())
            _log.warning("a line on standard input is no message of the protocol, and is left unanswered: %.300s", said)
        return item
