"""Sockets that servers listen on."""

from __future__ import annotations

import re

import pytest

from retrieval.domain.errors import ConfigurationError
from retrieval.surfaces.listening import listening_socket, url_of


def test_a_port_that_is_taken_is_one_readable_line() -> None:
    """With what to do."""
    with listening_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert url_of(first, "/mcp") == f"http://127.0.0.1:{port}/mcp"
        with pytest.raises(ConfigurationError, match=rf"port {port} \(.*in use\); name another"):
            listening_socket("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b", "\udcff"])
def test_a_host_that_is_not_this_machine_is_one_readable_line(host: str) -> None:
    """An address for documentation, which no machine has; a mistyped name; bytes of the terminal."""
    with pytest.raises(ConfigurationError, match=f"cannot listen on {re.escape(host)} port 0"):
        listening_socket(host, 0)
