"""Where an endpoint is and what opens it: what cannot work is refused before any request."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from retrieval.domain.errors import ConfigurationError

OPENAI_URL = "https://api.openai.com/v1"


def host_of(url: str) -> str:
    """Host and port, for messages: never the credentials that a URL can hold."""
    return urlsplit(url).netloc.rpartition("@")[2]


def check_address(url: str, *, what: str, settings: str) -> None:
    """Raises ``ConfigurationError`` for what is no address of the server of ``what``.

    ``settings`` is how the names of its settings begin.
    """
    parts = _parts(url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"the {what} server needs an address like https://host/v1; set {settings}_BASE_URL")


def _parts(url: object) -> SplitResult | None:
    try:
        return urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None


def check_key(key: str, url: str, *, what: str, settings: str) -> None:
    """Raises ``ConfigurationError``, without the key, for one that cannot be sent, or none where OpenAI wants one."""
    if not key and url.rstrip("/") == OPENAI_URL:
        raise ConfigurationError(f"OpenAI needs a key; set {settings}_API_KEY")
    # HTTP libraries quote a header that they cannot send, and with it the key.
    if not all("!" <= character <= "~" for character in key):
        raise ConfigurationError(
            f"the {what} key holds a space, a line break or a character outside ASCII; "
            f"set {settings}_API_KEY to the key alone"
        )
