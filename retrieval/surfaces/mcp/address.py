"""Where the server listens, and by which names it may be called."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence

from mcp.server.transport_security import TransportSecuritySettings

from retrieval.domain.errors import ConfigurationError

PATH = "/mcp"
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token. Raises ``ConfigurationError``."""
    if token is None and not is_local(host):
        raise ConfigurationError(
            f"whoever reaches {host} could read and change the principles: set RETRIEVAL_MCP_TOKEN to a secret that "
            "clients then send, or listen on 127.0.0.1"
        )


def is_local(host: str) -> bool:
    """Whether this machine alone can reach the address; a name is taken as one that others can."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. Raises ``ConfigurationError`` where that cannot be."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        # What `create_server` adds to it names the address again.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise ConfigurationError(
            f"cannot listen on {host} port {port} ({reason}); name another with --host and --port"
        ) from error


def url_of(listener: socket.socket) -> str:
    """What a client on this machine calls the server by."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://{_bracketed(host)}:{port}{PATH}"


def protection(host: str, more: Sequence[str]) -> TransportSecuritySettings:
    """Against pages in a browser that give this address a name of theirs: other names are refused.

    Where the server listens on every address, the names are known only if they are given; without them, the token that
    is needed there keeps such pages out.
    """
    everywhere = not is_local(host) and _is_unspecified(host)
    if everywhere and not more:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = dict.fromkeys([*_LOCAL_NAMES, *([] if everywhere else [_bracketed(host)]), *more])
    hosts = [form for name in names for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{form}" for form in hosts for scheme in ("http", "https")],
    )


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
