"""Settings come from the environment and are checked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from retrieval import connect, sync
from retrieval.domain.errors import InvalidRequestError
from retrieval.settings import EmbedderName, Settings


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "HOME", "SCHEMA", "TENANT", "EMBEDDER", "EMBEDDING_API_KEY"):
        monkeypatch.delenv(f"RETRIEVAL_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_nothing_configured_is_a_working_configuration() -> None:
    """The embedded server, schema and tenant by default."""
    settings = Settings()
    assert (settings.database_url, settings.database_schema, settings.tenant) == (None, "retrieval", "default")


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        ("", []),
        ("postgresql://a/x", ["postgresql://a/x"]),
        (
            "postgresql://a,b/x, postgresql://c/x\n postgres://d/x,",
            ["postgresql://a,b/x", "postgresql://c/x", "postgres://d/x"],
        ),
    ],
)
def test_urls_of_replicas_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch, value: str, urls: list[str]) -> None:
    """As are the hosts within one of them."""
    monkeypatch.setenv("RETRIEVAL_READ_DATABASE_URLS", value)
    assert [url.get_secret_value() for url in Settings().read_database_urls or ()] == urls


def test_an_invalid_url_of_a_replica_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its setting, without showing a password."""
    monkeypatch.setenv("RETRIEVAL_READ_DATABASE_URLS", "postgresql://a/x mysql://user:secret@b/y")
    with pytest.raises(InvalidRequestError, match="RETRIEVAL_READ_DATABASE_URLS: it must be a URL such as") as refusal:
        connect()
    assert "secret" not in str(refusal.value)


def test_each_setting_has_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """RETRIEVAL_<NAME>, and OPENAI_API_KEY as everyone has it."""
    monkeypatch.setenv("RETRIEVAL_SCHEMA", "search")
    monkeypatch.setenv("RETRIEVAL_POOL_SIZE", "3")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    settings = Settings()
    assert (settings.database_schema, settings.pool_size) == ("search", 3)
    assert settings.embedding_api_key is None
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == "sk-secret"


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the key nor the URL's password is in a repr."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", "postgresql://me:hunter2@db/x")
    assert "sk-secret" not in repr(Settings())
    assert "hunter2" not in repr(Settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", ""),
        ("SCHEMA", ""),
        ("SCHEMA", "x" * 51),
        ("SCHEMA", "pg_mine"),
        ("SCHEMA", "information_schema"),
        ("TENANT", ""),
        ("EMBEDDER", "gpt"),
        ("EMBEDDING_DIMENSIONS", "0"),
        ("LLM", "gpt"),
        ("LLM_TIMEOUT_SECONDS", "0"),
        ("LLM_RETRIES", "-1"),
        ("LLM_TIMEOUT_SECONDS", "inf"),
        ("REWRITES_TTL_DAYS", "0"),
        ("REWRITES_TTL_DAYS", "36501"),
        ("RETENTION_CACHE_DAYS", "36501"),
        ("RETENTION_SAMPLES_DAYS", "36501"),
        ("RETENTION_RUNS_DAYS", "36501"),
        ("RETENTION_RETRIEVALS_DAYS", "36501"),
        ("RETENTION_FEEDBACK_DAYS", "36501"),
        ("POOL_SIZE", "0"),
        ("POOL_TIMEOUT_SECONDS", "0"),
        ("POOL_TIMEOUT_SECONDS", "inf"),
        ("JOBS_SCHEDULE", "every day"),
        ("JOBS_SCHEDULE", '{"nonsense": "* * * * *"}'),
        ("JOBS_SCHEDULE", '{"embed": "99 * * * *"}'),
        ("JOBS_SCHEDULE", '{"embed": "0 0 31 2 *"}'),
        ("JOBS_SCHEDULE", '["embed"]'),
        ("RECALL_SAMPLE_RATE", "2"),
        ("WORKER_STALLED_SECONDS", "0"),
    ],
)
def test_a_value_that_cannot_work_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """At start-up, not at the first search."""
    monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    with pytest.raises(InvalidRequestError, match=f"^RETRIEVAL_{name}: .*; change it in the environment$"):
        Settings()


@pytest.mark.parametrize(
    ("text", "kind", "model", "url"),
    [
        ("minilm", "minilm", "", ""),
        ("ollama", "ollama", "", ""),
        ("ollama:nomic-embed-text", "ollama", "nomic-embed-text", ""),
        ("ollama:bge-m3:latest", "ollama", "bge-m3:latest", ""),
        ("ollama:bge-m3@http://gpu:11434", "ollama", "bge-m3", "http://gpu:11434"),
        ("tei:http://host:8080", "tei", "", "http://host:8080"),
        ("openai-compatible:me/m@https://me:pw@host/v1", "openai-compatible", "me/m", "https://me:pw@host/v1"),
        ("openai-compatible:@cf/baai/bge-m3", "openai-compatible", "@cf/baai/bge-m3", ""),
        ("sentence-transformers:BAAI/bge-m3", "sentence-transformers", "BAAI/bge-m3", ""),
        ("sentence-transformers:/home/me@work/model", "sentence-transformers", "/home/me@work/model", ""),
    ],
)
def test_an_embedder_is_named_with_its_model_and_address(text: str, kind: str, model: str, url: str) -> None:
    """By one variable: the kind, then the model, the address or both."""
    assert Settings(embedder=text).embedder_name == EmbedderName(kind, model, url)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("olama:bge-m3", "did you mean 'ollama'? There are: auto, "),
        ("MINILM", "there is no embedder 'MINILM'; did you mean 'minilm'? There are: auto, "),
        (":", "':' does not name an embedder; there are: auto, "),
        (
            "openai-compatible:m@127.0.0.1:9922/v1",
            "address begins with http:// or https://: openai-compatible:MODEL@http",
        ),
        ("openai-compatible:m@host/v1", "an address begins with http:// or https://"),
        ("tei:localhost:8080", "an address begins with http:// or https://: tei:MODEL@http://host:8000/v1"),
        ("minilm:all", "minilm has one model; leave 'all' out"),
        ("sentence-transformers", "such as sentence-transformers:BAAI/bge-m3"),
        ("sentence-transformers:http://host", "such as sentence-transformers:BAAI/bge-m3"),
    ],
)
def test_an_unknown_embedder_is_refused(text: str, message: str) -> None:
    """The message lists the valid names."""
    with pytest.raises(InvalidRequestError) as caught:
        Settings(embedder=text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("changes", [Settings, Settings().changed])
def test_a_refused_argument_is_told_by_its_name_in_python(changes: Callable[..., Settings]) -> None:
    """One line for all of them, with what may be given."""
    with pytest.raises(InvalidRequestError) as caught:
        changes(pool_size="many", llm="gpt")
    assert str(caught.value) == "pool_size: must be a whole number; llm: must be 'auto', 'openai', 'sim' or 'none'"
    with pytest.raises(InvalidRequestError, match="Settings has no argument 'embeder'; did you mean 'embedder'"):
        changes(embeder="none")


def test_a_schedule_is_json_and_names_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cron expression a job, or off; a job that is not named keeps its default."""
    assert Settings().jobs_schedule is None
    monkeypatch.setenv("RETRIEVAL_JOBS_SCHEDULE", '{"indexes": "*/10 * * * *", "recall": "off"}')
    assert Settings().jobs_schedule == {"indexes": "*/10 * * * *", "recall": "off"}
    with pytest.raises(InvalidRequestError, match="jobs_schedule: recall: must be a text, not a number"):
        Settings().changed(jobs_schedule={"indexes": "off", "recall": 5})


def test_changed_settings_are_checked_like_the_rest() -> None:
    """The other settings stay."""
    settings = Settings().changed(tenant="acme")
    assert settings.tenant == "acme"
    with pytest.raises(InvalidRequestError, match="tenant: a tenant's name has"):
        settings.changed(tenant="")


def test_changed_settings_are_those_that_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is not read again, and the result is frozen and comparable like any other."""
    monkeypatch.setenv("RETRIEVAL_SCHEMA", "search")
    settings = Settings()

    def read_again(*_: object, **__: object) -> None:
        pytest.fail("the environment is read again")

    monkeypatch.setattr(Settings, "settings_customise_sources", read_again)
    changed = settings.changed(tenant="acme")

    assert (changed.database_schema, changed.tenant) == ("search", "acme")
    assert changed.changed(tenant=settings.tenant) == settings
    with pytest.raises(ValidationError, match="frozen"):
        changed.tenant = "another"


def test_a_variable_that_is_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose files set empty values for missing variables. Only those that select the data are refused then."""
    default = Settings()
    for name in Settings.model_fields.keys() - {"database_url", "database_schema", "tenant"}:
        monkeypatch.setenv(f"RETRIEVAL_{name.upper()}", "")
    assert Settings() == default


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": "mysql://x"}, "database_url: it must be a URL such as postgresql://"),
        ({"url": "postgres"}, "database_url: it must be a URL such as postgresql://"),
        ({"tenant": 5}, "tenant: must be a text, not a number"),
    ],
)
@pytest.mark.parametrize("connects", [connect, sync.connect])
def test_invalid_arguments_of_connect_are_named(
    connects: Callable[..., object], arguments: dict[str, Any], message: str
) -> None:
    """In one line, as an error of ours."""
    with pytest.raises(InvalidRequestError) as refused:
        connects(**arguments)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_connect_names_the_unusable_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, and that it is to be changed there."""
    monkeypatch.setenv("RETRIEVAL_POOL_SIZE", "many")
    with pytest.raises(InvalidRequestError, match=r"^RETRIEVAL_POOL_SIZE: .*; change it in the environment$"):
        connect()
