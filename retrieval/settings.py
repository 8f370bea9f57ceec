"""Settings: values from the environment, read once and passed in; and the schedule of jobs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from retrieval.domain import checks
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.query import MAX_FILTER_VALUES, MAX_QUERY_BYTES, SearchBounds

OFF = "off"
"""The value in place of a cron expression of a job that runs only on demand."""

DEFAULT_SCHEDULE: Mapping[str, str] = {
    "embed": "*/5 * * * *",
    "reembed": "* * * * *",
    "neighbours": "*/15 * * * *",
    "indexes": "*/10 * * * *",
    "recall": "17 * * * *",
    "weights": "37 * * * *",
    "statistics": "7 3 * * *",
    "clusters": "47 * * * *",
    "learn": "57 * * * *",
    "expire": "*/5 * * * *",
    "months": "47 3 * * *",
    "arms": "57 3 * * *",
    "prune": "27 3 * * *",
    "reindex": OFF,
}
"""Cron expressions by job, in UTC, or ``off``. A frequent job costs one statement where there is nothing to do."""


def schedule(changes: Mapping[str, str]) -> dict[str, str]:
    """The cron expression of every scheduled job, by name: the defaults with the changes."""
    return {job: cron for job, cron in {**DEFAULT_SCHEDULE, **changes}.items() if cron != OFF}


LLMName = Literal["auto", "openai", "sim", "none"]

RerankerName = Literal["cohere", "jina", "voyage", "tei", "onnx", "llm", "none"]

EMBEDDERS = ("auto", "minilm", "hashing", "none")
"""Embedders without a model or an address in their name."""

SERVICES = ("openai", "openai-compatible", "ollama", "voyage", "cohere", "jina", "tei", "vllm")
"""Services that embed over HTTP; a model, an address or both may follow: ``ollama:bge-m3@http://gpu:11434``."""

SENTENCE_TRANSFORMERS = "sentence-transformers"
"""Runs the model that follows on this machine."""


_ADDRESS_ALONE = re.compile(r".@[\w.-]+(:\d+|/)|^[\w.-]+:\d{2,5}(/|$)")
"""An address without ``http://``, after a model or alone; no tag of a model, such as ``bge-m3:latest``."""


@dataclass(frozen=True, slots=True)
class EmbedderName:
    """An embedder as ``RETRIEVAL_EMBEDDER`` names it."""

    kind: str
    """One of ``EMBEDDERS`` or ``SERVICES``, or ``sentence-transformers``."""
    model: str = ""
    url: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads ``kind``, ``kind:model``, ``kind:url`` or ``kind:model@url``. Raises ``ValueError``."""
        kind, _, rest = text.strip().partition(":")
        if kind not in (*EMBEDDERS, *SERVICES, SENTENCE_TRANSFORMERS):
            kinds = checks.choices_hint(kind, (*EMBEDDERS, *SERVICES, SENTENCE_TRANSFORMERS))
            problem = (
                f"there is no embedder {checks.written(kind, 40)}"
                if kind
                else f"{checks.written(text, 40)} does not name an embedder"
            )
            raise ValueError(f"{problem}; {kinds}; some with a model: ollama:bge-m3")
        if rest and kind in EMBEDDERS:
            raise ValueError(f"{kind} has one model; leave {checks.written(rest)} out")
        match = re.fullmatch(r"(?P<model>.*?)@?(?P<url>https?://\S*)?", rest)
        model, url = (match["model"], match["url"] or "") if match else (rest, "")
        if kind in SERVICES and not url and _ADDRESS_ALONE.search(model):
            raise ValueError(f"an address begins with http:// or https://: {kind}:MODEL@http://host:8000/v1")
        if kind == SENTENCE_TRANSFORMERS and (url or not model):
            raise ValueError(f"{kind} needs a model and no address, such as {kind}:BAAI/bge-m3")
        return cls(kind, model, url)


MAX_SCHEMA_BYTES = 50
"""PostgreSQL names have 63 bytes; the roles' names are the schema's with an ending."""


_Days = Annotated[int, Field(ge=1, le=36_500)]
"""The server cannot subtract a million years from a date."""

_Seconds = Annotated[float, Field(gt=0, le=86_400)]
"""At most a day: a limit without end would be none."""


MIN_TOKEN_CHARACTERS = 16
"""A shorter token could be guessed."""


def _usable_url(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("postgresql://", "postgres://")):
        raise ValueError("it must be a URL such as postgresql://user:password@host:5432/database")
    return value


def _usable_origin(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@*,]+", value):
        raise ValueError(
            f"{checks.written(value, 100)} is not an origin; write for example https://app.example, more by commas"
        )
    return value


_DatabaseURL = Annotated[SecretStr, AfterValidator(_usable_url)]
_Origin = Annotated[str, AfterValidator(_usable_origin)]


def _shared_setting(name: str, *shared: str) -> Any:
    """A setting that is also read from the variables that other programs use, by default of the same name."""
    return Field(default=None, validation_alias=AliasChoices(f"RETRIEVAL_{name}", *(shared or [name])))


_WHICH_DATA = frozenset({"database_url", "database_schema", "tenant"})


class Settings(BaseSettings):
    """The settings, each as ``RETRIEVAL_<NAME>`` in the environment.

    Raises ``InvalidRequestError`` for an unknown name and for a value that cannot work.
    """

    model_config = SettingsConfigDict(
        env_prefix="RETRIEVAL_",
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        # A refused value may contain a password.
        hide_input_in_errors=True,
    )

    database_url: _DatabaseURL | None = None
    """``postgresql://...``; unset: the embedded PostgreSQL."""
    read_database_urls: Annotated[tuple[_DatabaseURL, ...] | None, NoDecode] = None
    """URLs of streaming replicas, by commas, that searches read from; unset: they read from the primary."""
    read_max_lag_seconds: float = Field(default=5.0, ge=1, le=86400)
    """The greatest lag of a replica that searches read from; a replica further behind is skipped."""
    read_wait_seconds: float = Field(default=0.1, ge=0, le=60)
    """Time that a search with a token waits for a replica before it reads from the primary."""
    home: Path | None = None
    """The directory of the embedded PostgreSQL's data; unset: the user's data directory."""
    database_schema: str = Field(default="retrieval", validation_alias="RETRIEVAL_SCHEMA")
    """The schema of the database that holds everything."""
    tenant: str = "default"
    """The tenant whose data is read and written."""
    pool_size: int = Field(default=8, ge=1, le=1000)
    """The maximum number of connections of one process."""
    pool_timeout_seconds: _Seconds = 10.0
    """Time that a search waits for a free connection."""
    transaction_pooler: bool | None = None
    """Whether a pooler in transaction mode is in front of the database; unset: the platform detects it."""

    embedder: str = "auto"
    """``auto``: openai when its key is set, else minilm when installed, else none (lexical search only).

    A service may be followed by its model, its address or both: ``ollama:bge-m3@http://gpu:11434``."""
    embedding_model: str | None = None
    """The service's model, if the embedder's name has none; unset: the service's default."""
    embedding_dimensions: int | None = Field(default=None, ge=1)
    """Dimensions requested from the model; unset: the model's own."""
    embedding_api_key: SecretStr | None = None
    """The key of the configured service; unset: the service's own setting below."""
    openai_api_key: SecretStr | None = _shared_setting("OPENAI_API_KEY")
    """Sent only to OpenAI, or to the address that replaces it."""
    voyage_api_key: SecretStr | None = _shared_setting("VOYAGE_API_KEY")
    """Sent only to Voyage."""
    cohere_api_key: SecretStr | None = _shared_setting("COHERE_API_KEY", "COHERE_API_KEY", "CO_API_KEY")
    """Sent only to Cohere."""
    jina_api_key: SecretStr | None = _shared_setting("JINA_API_KEY")
    """Sent only to Jina."""
    embedding_base_url: str | None = None
    """The address of the configured service; unset: its default."""
    openai_base_url: str | None = _shared_setting("OPENAI_BASE_URL")
    """The address that replaces OpenAI's."""
    embedding_max_texts: int | None = Field(default=None, ge=1)
    """Texts per request; unset: the service's limit."""
    embedding_timeout_seconds: _Seconds = 30.0
    """Time that one attempt may take."""
    embedding_budget_seconds: float = Field(default=2.0, gt=0, le=3600)
    """Time that a search waits for the vector of its query before it searches only by words."""

    llm: LLMName = "none"
    """``auto``: openai when a model is named and a key or an address is set, else none."""
    llm_model: str | None = None
    """The model of an OpenAI-compatible endpoint."""
    llm_api_key: SecretStr | None = _shared_setting("LLM_API_KEY", "OPENAI_API_KEY")
    """The key of the OpenAI-compatible endpoint."""
    llm_base_url: str | None = _shared_setting("LLM_BASE_URL", "OPENAI_BASE_URL")
    """The address of the endpoint; unset: OpenAI."""
    llm_timeout_seconds: _Seconds = 30.0
    """Time that one attempt may take."""
    llm_retries: int = Field(default=2, ge=0, le=20)
    """The number of repetitions of a request when the endpoint is down, slow or overloaded."""

    reranker: RerankerName = "none"
    """The reranker of profiles that rerank. Unlike an embedder, it is never chosen by a key in the environment."""
    reranker_model: str | None = None
    """The endpoint's model; for ``onnx`` the file, or its folder."""
    reranker_api_key: SecretStr | None = None
    """The endpoint's key."""
    reranker_base_url: str | None = None
    """The address of the endpoint, without ``/rerank``; unset: the provider's own."""

    max_query_bytes: int = Field(default=MAX_QUERY_BYTES, ge=1024, le=2**20)
    """The longest query or rewrite; those of one call have at most 32 times as many bytes together."""
    max_filter_values: int = Field(default=MAX_FILTER_VALUES, ge=100, le=1_000_000)
    """The maximum number of values that one filter compares with."""

    session_start_seconds: float = Field(default=5.0, gt=0, le=3600)
    """Time that ``retrieval session-start`` and ``session-end`` may take before they give up."""

    jobs_schedule: Annotated[dict[str, str] | None, NoDecode] = None
    """Cron expressions by job, in UTC, or ``off``; other jobs keep their defaults."""
    worker_concurrency: int = Field(default=2, ge=1, le=100)
    """Jobs that one worker runs at the same time."""
    worker_listen: bool = True
    """Whether a worker listens for new jobs; behind a pooler in transaction mode it cannot, and only polls."""
    worker_poll_seconds: float = Field(default=5.0, gt=0, le=3600)
    """Time between two polls of a worker for new jobs; most jobs reach it at once, by notification."""
    worker_stalled_seconds: float = Field(default=30.0, ge=1, le=86400)
    """Time from a worker's last heartbeat until another worker takes over its jobs."""
    recall_sample_rate: float = Field(default=0.01, ge=0, le=1)
    """The share of searches by HNSW index that are sampled to measure the recall."""
    rewrites_ttl_days: _Days = 30
    """Time that the rewrites of a query are used."""
    retention_cache_days: _Days = 90
    """Time that an embedding stays in the cache."""
    retention_samples_days: _Days = 14
    """Time that a sampled query is kept."""
    retention_runs_days: _Days = 30
    """Time that the records of jobs and of measured recall are kept."""
    retention_retrievals_days: _Days = 365
    """The minimum time that recorded searches are kept: whole months are removed, for all tenants together."""

    retention_feedback_days: _Days | None = None
    """Time that an event of feedback is kept; unset: for ever. Its effect on rewards stays."""

    mcp_token: SecretStr | None = None
    """The token that clients of the MCP server send over HTTP; required if other machines can reach it."""
    metrics_token: SecretStr | None = None
    """The token that Prometheus sends to the HTTP service for its metrics; unset: they are not served."""

    http_deadline_seconds: float = Field(default=30.0, gt=0, le=3600)
    """Time that a request to the HTTP service may take, unless it requests less."""
    http_requests_per_minute: int = Field(default=6000, ge=1, le=1_000_000)
    """Requests per minute of a key without its own limit."""
    http_max_requests: int = Field(default=100, ge=1, le=100_000)
    """Requests that one process answers at the same time; it refuses further ones, which can be repeated later."""
    http_max_body_bytes: int = Field(default=16 * 2**20, ge=1024)
    """The largest body of a request that writes items or feedback."""
    http_max_search_bytes: int = Field(default=2**20, ge=1024)
    """The largest body of any other request, such as a search."""
    http_max_bulk_bytes: int = Field(default=2**30, ge=1024)
    """The largest stream of items in one request."""
    http_cors_origins: Annotated[tuple[_Origin, ...] | None, NoDecode] = None
    """The origins of web pages that may call the service from a browser; unset: none."""
    http_console: bool = True
    """Whether the HTTP service has its console, if the extra ``console`` is installed."""

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __init__(self, **values: object) -> None:
            with _refused_in_one_line(values):
                super().__init__(**values)

    @property
    def search_bounds(self) -> SearchBounds:
        """The bounds of one search."""
        return SearchBounds(self.max_query_bytes, self.max_filter_values)

    def changed(self, **values: object) -> Settings:
        """The same settings with other values, checked like the rest; the environment is not read again."""
        other = Settings.__new__(Settings)
        # The initialiser of ``BaseSettings`` reads every variable: 3 ms in the event loop, for each of many tenants.
        with _refused_in_one_line(values):
            BaseModel.__init__(other, **(self.model_dump() | values))
        return other

    @property
    def embedder_name(self) -> EmbedderName:
        """The embedder's kind, model and address."""
        return EmbedderName.parse(self.embedder)

    @field_validator("embedder")
    @classmethod
    def _usable_embedder(cls, value: str) -> str:
        EmbedderName.parse(value)
        return value

    @field_validator("read_database_urls", mode="before")
    @classmethod
    def _read_urls(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        # The hosts of one URL are separated by commas too.
        return tuple(filter(None, re.split(r",\s*(?=postgres)|\s+", value.strip(" ,\n"))))

    @field_validator("database_schema")
    @classmethod
    def _usable_schema(cls, value: str) -> str:
        if not value or "\x00" in value or len(value.encode()) > MAX_SCHEMA_BYTES:
            raise ValueError(f"a schema's name has 1 to {MAX_SCHEMA_BYTES} bytes")
        if value.startswith("pg_") or value == "information_schema":
            raise ValueError(f"{value!r} belongs to PostgreSQL; use another schema, such as 'retrieval'")
        return value

    @field_validator("mcp_token", "metrics_token")
    @classmethod
    def _usable_token(cls, value: SecretStr | None) -> SecretStr | None:
        token = "" if value is None else value.get_secret_value().strip()
        if not token:
            return None
        if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError(
                f"a token has at least {MIN_TOKEN_CHARACTERS} printable ASCII characters, without blanks; make one "
                "with: openssl rand -hex 32"
            )
        return SecretStr(token)

    @field_validator("http_cors_origins", mode="before")
    @classmethod
    def _read_origins(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("jobs_schedule", mode="before")
    @classmethod
    def _read_schedule(cls, value: Any) -> Any:
        try:
            return checks.json_of(value) if isinstance(value, str) else value
        except checks.JSONTextError as error:
            example = '{"indexes": "*/10 * * * *", "recall": "off"}'
            raise ValueError(f"it must be JSON such as {example}: {error}") from None

    @field_validator("jobs_schedule")
    @classmethod
    def _usable_schedule(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        for name, cron in (value or {}).items():
            _check_cron(name, cron)
        return value

    @field_validator("tenant")
    @classmethod
    def _usable_tenant(cls, value: str) -> str:
        if not checks.is_unicode(value):
            raise ValueError(f"the name holds {checks.NO_UTF8}")
        if not value or "\x00" in value or len(value.encode()) > 512:
            raise ValueError("a tenant's name has 1 to 512 bytes")
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _given_or_default(cls, value: Any, info: ValidationInfo) -> Any:
        # Container files set unused variables to empty values. An empty value never selects other data.
        name = str(info.field_name)
        return cls.model_fields[name].default if value == "" and name not in _WHICH_DATA else value


def _check_cron(job: str, cron: str) -> None:
    from croniter import CroniterError, croniter

    if job not in DEFAULT_SCHEDULE:
        raise ValueError(f"there is no job {job!r}; {checks.choices_hint(job, sorted(DEFAULT_SCHEDULE))}")
    if cron == OFF:
        return
    if not croniter.is_valid(cron):
        raise ValueError(f"{job}: {cron!r} is neither a cron expression such as '*/10 * * * *' nor 'off'")
    try:
        croniter(cron).get_next()
        croniter(cron).get_prev()
    except CroniterError:
        raise ValueError(
            f"{job}: {cron!r} must match times before and after now; 'off' is for a job on demand"
        ) from None


@contextmanager
def _refused_in_one_line(given: Collection[str]) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise InvalidRequestError(refusal_message(error, given)) from None


def refusal_message(error: ValidationError, given: Collection[str] = ()) -> str:
    """The refused settings with the reasons: ``given`` by their names in Python, the others by their variables."""
    problems, is_from_environment = [], False
    for entry in error.errors():
        name = str(entry["loc"][0]) if entry["loc"] else "settings"
        if entry["type"] == "extra_forbidden":
            problems.append(checks.unknown_argument("Settings", name, Settings.model_fields))
            continue
        if name not in given:
            is_from_environment = True
            name = name if name.isupper() else f"RETRIEVAL_{name.upper()}"
        keys = [part for part in entry["loc"][1:] if isinstance(part, str)]
        problems.append(": ".join([name, *keys, checks.refusal_of(entry)]))
    return "; ".join(problems) + ("; change it in the environment" if is_from_environment else "")
