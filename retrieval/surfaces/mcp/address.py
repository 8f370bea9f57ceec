"""Who may reach the server, and by which names it may be called."""

from __future__ import annotations

from collections.abc import Sequence

from mcp.server.transport_security import TransportSecuritySettings

from retrieval.domain.errors import ConfigurationError
from retrieval.surfaces.listening import bracketed, is_local, is_unspecified

PATH = "/mcp"
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to be reachable from other machines without a token. Raises ``ConfigurationError``."""
    if token is None and not is_local(host):
        raise ConfigurationError(
            f"whoever reaches {host} could read and change the principles: set RETRIEVAL_MCP_TOKEN to a secret that "
            "clients then send, or listen on 127.0.0.1"
        )


def protection(host: str, more: Sequence[str]) -> TransportSecuritySettings:
    """Against pages in a browser that give this address a name of theirs: other names are refused.

    Where the server listens on every address, the names are known only if they are given; without them, the token that
    is needed there keeps such pages out.
    """
    everywhere = not is_local(host) and is_unspecified(host)
    if everywhere and not more:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = dict.fromkeys([*_LOCAL_NAMES, *([] if everywhere else [bracketed(host)]), *more])
    hosts = [form for name in names for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{form}" for form in hosts for scheme in ("http", "https")],
    )
