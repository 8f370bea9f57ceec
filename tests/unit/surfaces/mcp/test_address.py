"""The address of the MCP server, and its allowed host names."""

from __future__ import annotations

import pytest

from retrieval.domain.errors import ConfigurationError
from retrieval.surfaces.listening import is_local
from retrieval.surfaces.mcp.running import ServerAddress, check_exposure, protection


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("LOCALHOST", True)]
)
def test_addresses_of_this_machine_need_no_token(host: str, *, local: bool) -> None:
    """Others cannot reach them."""
    assert is_local(host) is local
    check_exposure(ServerAddress(host), None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "server.example"])  # noqa: S104 - it is refused
def test_addresses_that_others_reach_need_a_token(host: str) -> None:
    """The error names the setting; with a token such addresses are accepted."""
    with pytest.raises(ConfigurationError, match="RETRIEVAL_MCP_TOKEN"):
        check_exposure(ServerAddress(host), None)
    check_exposure(ServerAddress(host), "secret")
    check_exposure(ServerAddress(host, asks_keys=True), None)


def test_a_name_that_a_page_could_invent_is_refused() -> None:
    """Only the machine's own names and the given ones are accepted, with any port, and their origins."""
    rules = protection("127.0.0.1", ["box.example"])
    assert rules.enable_dns_rebinding_protection
    assert {"127.0.0.1:*", "localhost:*", "[::1]:*", "box.example:*", "box.example"} <= set(rules.allowed_hosts)
    assert "https://box.example:*" in rules.allowed_origins
    assert not [name for name in rules.allowed_hosts if "0.0.0.0" in name]  # noqa: S104 - it is looked for


def test_where_every_name_is_possible_the_token_protects() -> None:
    """Naming the hosts restricts them."""
    assert not protection("0.0.0.0", []).enable_dns_rebinding_protection  # noqa: S104 - it is asked about
    assert "box.example:*" in protection("0.0.0.0", ["box.example"]).allowed_hosts  # noqa: S104 - it is asked about
