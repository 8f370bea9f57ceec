"""An endpoint: its address, and the meaning of its refusals and answers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from httpx2 import URL, InvalidURL, Response

from retrieval.adapters.endpoints import OPENAI_URL
from retrieval.adapters.endpoints.breaker import Role
from retrieval.domain.checks import JSONSyntaxError, JSONTextError, clean_text, is_finite, json_of
from retrieval.domain.errors import ConfigurationError, RetrievalError


class TryAgainError(Exception):
    """An attempt failed, and another may succeed. A client never raises this error.

    ``retry_after_seconds`` is the wait that the server asked for, or None.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


def host_of(url: str) -> str:
    """Host and port, for messages: without the credentials that a URL can hold."""
    return urlsplit(url).netloc.rpartition("@")[2]


def shown_address(url: str) -> str:
    """The address without the credentials that it can hold."""
    return urlsplit(url)._replace(netloc=host_of(url)).geturl()


def check_address(url: str, role: str, settings: str) -> None:
    """Raise ``ConfigurationError`` for anything but an HTTP address; ``settings`` begins its settings' names."""
    try:
        parts = URL(url)
        is_usable = parts.scheme in {"http", "https"} and parts.host and (parts.port or 0) < 2**16
    except (InvalidURL, TypeError):
        is_usable = False
    if not is_usable:
        raise ConfigurationError(f"the {role}'s server needs an address like https://host/v1; set {settings}_BASE_URL")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that an answer's ``Retry-After`` asks to wait, at least 0; None if absent or unreadable.

    Reads both forms of RFC 9110, section 10.2.3: a number of seconds, or a date, counted from ``now`` (time zone
    aware).
    """
    value = headers.get("retry-after", "").strip()
    with suppress(ValueError):
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    with suppress(ValueError, OverflowError):
        then = parsedate_to_datetime(value)
        return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())
    return None


_LONGEST_DETAIL = 200
_SAID = ("message", "detail", "error")
"""The members in which servers explain an error."""
_PASSING = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(
    r"context.?length|too (long|large|many)|max\w*.{0,60}tokens|less than \d+ tokens|tokens per request",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A service and the model that it is asked for, with the texts of messages and the classes of errors."""

    role: Role
    """The kind of service, with its errors."""
    serves: str
    """The plural name of its results: ``embeddings``."""
    operation: str
    """The operation's name in traces, by OpenTelemetry: ``embeddings``, ``chat``."""
    settings: str
    """The beginning of the names of its settings."""
    where: str
    """The settings of its model and its address, for advice."""
    refused_advice: str
    """The advice for a request that it refuses."""
    too_long: type[RetrievalError]
    """The error if the request has too many tokens."""
    refused: type[RetrievalError]
    """The error if the service refuses something about the request itself."""
    title: str = ""
    """The name of the service, for people; empty: its host is enough."""
    key_variable: str = ""
    """The variable of its key; empty: the one among its settings."""
    start: str = ""
    """The command that starts a server on this machine."""
    pull: str = ""
    """The command that downloads a model, with ``{model}`` in it."""
    url: str = ""
    """The address, without the paths of requests."""
    model: str = ""
    api_key: str = field(default="", repr=False)
    """Never shown: it is removed from the server's answers."""

    @property
    def host(self) -> str:
        """Host and port, for messages: without the credentials that a URL can hold."""
        return host_of(self.url)

    def check(self) -> None:
        """Raise ``ConfigurationError``, without the key, for an unusable address or key, or a missing key of OpenAI."""
        check_address(self.url, self.role.name, self.settings)
        if not self.api_key and self.url.rstrip("/") == OPENAI_URL:
            raise ConfigurationError(f"OpenAI needs a key; set {self.settings}_API_KEY")
        # An HTTP library's error quotes a header that cannot be sent, and so the key.
        if not all("!" <= character <= "~" for character in self.api_key):
            raise ConfigurationError(
                f"the {self.role.name}'s key holds a space, a line break or a character outside ASCII; "
                f"set {self.settings}_API_KEY to the key alone"
            )

    def refusal(self, answer: Response, body: bytes, now: datetime) -> Exception:
        """The error for an answer with such a status and body; ``TryAgainError`` for a transient status.

        ``now`` is time zone aware.
        """
        said = _said(body)
        status, detail, rejected = answer.status_code, self._detail(said), self.role.rejected
        if status == 429 and isinstance(said, dict) and said.get("code") == "insufficient_quota":
            return rejected(f"{self.host}: the key's quota is used up (429); see the account's billing")
        if status in _PASSING or status >= 500:
            wait = retry_after(answer.headers, now)
            return TryAgainError(f"{self.host} answered {status}{detail}", retry_after_seconds=wait)
        if 300 <= status < 400:
            # Texts and key go only to the configured host.
            return rejected(
                f"{self.host} answered with a redirect ({status}), which is not followed; check {self.where}"
            )
        if status == 413 or (status in {400, 422} and _TOO_LONG.search(detail)):
            return self.too_long(f"{self.host}: too many tokens for {self.model!r}{detail}")
        if status in {401, 403, 404}:
            return rejected(self._advice(status, detail))
        return self.refused(f"{self.host} refused the request ({status}){detail}; check {self.refused_advice}")

    def _advice(self, status: int, detail: str) -> str:
        if status == 401:
            # The server's own words often quote a part of the key.
            return f"{self.host} refused the key (401); check {self.key_variable or f'{self.settings}_API_KEY'}"
        if status == 403:
            return f"{self.host}: the key may not use {self.model!r} (403){detail}; allow it or choose another"
        if self.pull:
            pull = self.pull.format(model=self.model)
            return f"{self.title} at {self.host} has no model {self.model!r} (404){detail}; get it with: {pull}"
        return f"{self.host} has no model {self.model!r} or no {self.serves} (404){detail}; check {self.where}"

    def _detail(self, said: object) -> str:
        """The server's own words, on one line and without the key, after a colon; empty when it has none."""
        if isinstance(said, dict):
            said = next((said[name] for name in _SAID if isinstance(said.get(name), str)), None)
        words = self.quoted(said) if isinstance(said, str) else ""
        return f": {words}" if words else ""

    def parsed(self, body: bytes) -> Any:
        """The JSON object or list in an answer's body.

        Raises ``TryAgainError`` for a body that ends too soon, and the role's error for any other body.
        """
        whose = f"the answer of {self.host}"
        try:
            answer = json_of(body)
        except JSONTextError as error:
            # A text that begins as JSON and ends too soon was cut; any other text is not an answer.
            text = body.strip()
            begins, ends = text[:1] in (b"{", b"["), text[-1:] in (b"}", b"]")
            if not text or (begins and (not ends or isinstance(error, JSONSyntaxError))):
                raise TryAgainError(f"{whose} was cut short") from None
            if begins:
                # The reason may quote a part of the key; the advice behind it is for the person who writes JSON.
                is_key_in = self.api_key and self.api_key.encode() in body
                why = "it repeats the key" if is_key_in else str(error).partition(";")[0]
                raise self.role.rejected(f"{whose} cannot be used: {why}; use another endpoint") from None
            answer = None
        if not isinstance(answer, dict | list):
            raise self.role.rejected(f"{whose} is not a JSON object, as one of {self.serves} is; check {self.where}")
        return answer

    def quoted(self, words: str) -> str:
        """The beginning of the server's words, on one line, without control characters and without the key."""
        line = " ".join(clean_text(words, is_line=True).split())
        shown = line.replace(self.api_key, "[key]") if self.api_key else line
        return shown[:_LONGEST_DETAIL].rstrip(".")


def _said(body: bytes) -> object:
    """What the server says of an error: a JSON value, from its member ``error`` if there is one, or a text."""
    try:
        said = json_of(body)
    except JSONTextError:
        return body.decode(errors="replace")
    return said.get("error", said) if isinstance(said, dict) else said


_TOKENS = (("usage", "total_tokens"), ("prompt_eval_count",), ("meta", "billed_units", "input_tokens"))
"""The places of the number of tokens in the answers of OpenAI, Ollama and Cohere."""


def total_tokens(answer: Any) -> int:
    """The tokens that a server counted; 0 where its answer has no such number."""
    for path in _TOKENS:
        value = answer
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if is_finite(value) and value > 0:
            return int(value)
    return 0
