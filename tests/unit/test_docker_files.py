"""The facts about the container files that matter when they run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"

BYTES = {"kb": 2**10, "mb": 2**20, "gb": 2**30}


def bytes_of(size: str) -> int:
    """The bytes of a size such as ``1gb`` or ``512MB``."""
    match = re.fullmatch(r"(\d+)\s*([kmg]b)", size.lower())
    assert match, f"{size!r} is no size"
    return int(match[1]) * BYTES[match[2]]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the Compose file, with merged keys resolved."""
    loaded = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    services: dict[str, Any] = loaded["services"]
    return services


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, continued lines joined."""
    text = (DOCKER / "Dockerfile").read_text()
    lines = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    split = (line.split(maxsplit=1) for line in lines if line.strip())
    return [(name, arguments) for name, arguments in split]


def last_stage(instructions: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The instructions that make the image itself."""
    starts = [number for number, (name, _) in enumerate(instructions) if name == "FROM"]
    return instructions[starts[-1] :]


def test_the_database_is_a_pinned_postgresql_with_pgvector(services: dict[str, Any]) -> None:
    """The image names an exact pgvector release and the major version of PostgreSQL."""
    assert services["database"]["image"] == "pgvector/pgvector:0.8.6-pg18"


def test_shared_memory_is_larger_than_what_an_index_build_asks_for(services: dict[str, Any]) -> None:
    """A parallel build allocates maintenance_work_mem in /dev/shm, so that must hold more."""
    database = services["database"]
    settings = dict(part.split("=") for part in database["command"] if "=" in part)

    assert database["shm_size"] == "1gb"
    assert bytes_of(database["shm_size"]) > bytes_of(settings["maintenance_work_mem"])


def test_the_volume_holds_the_folder_in_which_postgresql_18_keeps_its_data(services: dict[str, Any]) -> None:
    """Mounted at the folder of earlier versions, the data would be lost with the container."""
    assert "data:/var/lib/postgresql" in services["database"]["volumes"]


def test_every_password_has_to_be_set(services: dict[str, Any]) -> None:
    """A password is a reference that stops the start when it is unset; none has a value or a default."""
    passwords = {
        (service, name): value
        for service, definition in services.items()
        for name, value in definition["environment"].items()
        if "PASSWORD" in name
    }

    assert ("database", "POSTGRES_PASSWORD") in passwords
    for place, value in passwords.items():
        assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), place


def test_no_address_carries_a_password(services: dict[str, Any]) -> None:
    """The platform's database address names the login alone."""
    assert (
        services["platform"]["environment"]["RETRIEVAL_DATABASE_URL"]
        == "postgresql://retrieval@database:5432/retrieval"
    )


def test_the_example_of_the_secrets_file_holds_no_secret() -> None:
    """Every value in .env.example is empty, and .env itself is ignored by version control."""
    settings = [
        line for line in (DOCKER / ".env.example").read_text().splitlines() if line and not line.startswith("#")
    ]

    assert settings == ["POSTGRES_PASSWORD=", "PLATFORM_PASSWORD="]
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_platform_waits_for_the_migration_and_the_migration_for_the_database(
    services: dict[str, Any],
) -> None:
    """Nothing runs against a database that is starting or a schema that is behind."""
    assert services["migrate"]["command"] == ["db", "upgrade"]
    assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert services["platform"]["depends_on"] == {
        "database": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }


def test_the_database_is_healthy_only_when_it_answers_over_tcp(services: dict[str, Any]) -> None:
    """While its first start runs the scripts, the server answers on its socket and is not ready."""
    check = services["database"]["healthcheck"]["test"]

    assert check[:2] == ["CMD", "pg_isready"]
    assert "--host=127.0.0.1" in check


def test_the_compose_file_names_files_that_exist(services: dict[str, Any]) -> None:
    """The build's context and Dockerfile, and the folder of scripts, are where the file says."""
    build = services["platform"]["build"]
    context = (DOCKER / build["context"]).resolve()

    assert context == ROOT
    assert (context / build["dockerfile"]).is_file()
    assert "./initdb:/docker-entrypoint-initdb.d:ro" in services["database"]["volumes"]
    assert (DOCKER / "initdb").is_dir()


def test_every_file_that_the_image_copies_exists_and_is_let_into_the_build(
    instructions: list[tuple[str, str]],
) -> None:
    """COPY takes paths of the repository that the ignore file does not keep out."""
    allowed = {
        line.removeprefix("!")
        for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {path for name, paths in instructions if name == "COPY" for path in paths.split()[:-1]}

    assert {"pyproject.toml", "migrations", "sql", "retrieval"} <= copied
    for path in sorted(copied):
        assert path in allowed, f"{path} is kept out by Dockerfile.dockerignore"
        assert (ROOT / path).exists(), f"{path} does not exist"


def test_the_image_is_built_and_run_on_the_same_python(instructions: list[tuple[str, str]]) -> None:
    """Both stages start from the slim image of Python 3.12."""
    images = [arguments.split()[0] for name, arguments in instructions if name == "FROM"]

    assert images == ["python:3.12-slim", "python:3.12-slim"]


def test_the_image_runs_as_an_ordinary_user(instructions: list[tuple[str, str]]) -> None:
    """The last USER is the number of a user that the image makes, and not root's."""
    stage = last_stage(instructions)
    users = [arguments for name, arguments in stage if name == "USER"]

    assert users == ["10001"]
    assert any(name == "RUN" and "useradd --uid 10001" in arguments for name, arguments in stage)


def test_the_image_installs_the_pinned_versions(instructions: list[tuple[str, str]]) -> None:
    """Each installation in the image is held to constraints.txt."""
    installs = [arguments for name, arguments in instructions if name == "RUN" and "pip install" in arguments]

    assert installs
    assert all("constraints.txt" in arguments for arguments in installs)


def test_the_image_reports_its_health_by_the_state_of_the_database(
    instructions: list[tuple[str, str]],
) -> None:
    """Its health check is `retrieval db status`, and its entry point is the command itself."""
    stage = dict(last_stage(instructions))

    assert stage["HEALTHCHECK"].endswith('CMD ["retrieval", "db", "status"]')
    assert stage["ENTRYPOINT"] == '["retrieval"]'
