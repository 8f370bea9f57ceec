"""The facts about the container files that matter when they run."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from retrieval import Settings
from retrieval.surfaces.http.app import KEEP_ALIVE_SECONDS, LAST_ANSWERS_SECONDS
from retrieval.surfaces.http.connection import HEAD_BYTES
from retrieval.surfaces.mcp.running import STOP_SECONDS
from scripts import check_image, check_package
from scripts.container_files import (
    DOCKER,
    ROOT,
    Step,
    base_python,
    check_of,
    command_of,
    compose,
    let_into_the_build,
    steps,
)
from tests.support.deployment import VARIABLES, check_command

PROXY = (DOCKER / "proxy" / "nginx.conf").read_text()
SECRETS = {"POSTGRES_PASSWORD", "PLATFORM_PASSWORD", "METRICS_TOKEN", "MCP_TOKEN"}
BYTES = {"kb": 2**10, "mb": 2**20, "gb": 2**30}


def bytes_of(size: str) -> int:
    """The bytes of a size such as ``1gb`` or ``512MB``."""
    match = re.fullmatch(r"(\d+)\s*([kmg]b)", size.lower())
    assert match, f"{size!r} is no size"
    return int(match[1]) * BYTES[match[2]]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the Compose file, with merged keys resolved."""
    services: dict[str, Any] = compose()["services"]
    return services


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments."""
    return [(step.name, step.arguments) for step in steps()]


def last_stage() -> list[Step]:
    """The instructions that make the image itself."""
    return [step for step in steps() if step.stage == steps()[-1].stage]


def platform_services(services: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The services that run the platform's image."""
    return {name: service for name, service in services.items() if service["image"] == "retrieval-platform"}


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


def test_every_password_and_token_has_to_be_set(services: dict[str, Any]) -> None:
    """Each is a reference that stops the start when it is unset; none has a value or a default."""
    passwords = {
        (service, name): value
        for service, definition in services.items()
        for name, value in definition.get("environment", {}).items()
        if name.endswith(("PASSWORD", "_TOKEN"))
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

    assert settings == ["POSTGRES_PASSWORD=", "PLATFORM_PASSWORD=", "METRICS_TOKEN=", "MCP_TOKEN="]
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_services_wait_for_the_migration_and_the_migration_for_the_database(
    services: dict[str, Any],
) -> None:
    """Nothing runs against a database that is starting or a schema that is behind."""
    assert services["migrate"]["command"] == ["db", "upgrade"]
    assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    for name in ("http", "worker", "mcp", "platform"):
        assert services[name]["depends_on"] == {
            "database": {"condition": "service_healthy"},
            "migrate": {"condition": "service_completed_successfully"},
        }, name


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
    allowed = let_into_the_build()
    copied = {path for name, paths in instructions if name == "COPY" for path in paths.split()[:-1]}

    assert {"pyproject.toml", "migrations", "sql", "retrieval"} <= copied
    for path in sorted(copied):
        assert path in allowed, f"{path} is kept out by Dockerfile.dockerignore"
        assert (ROOT / path).exists(), f"{path} does not exist"


def test_the_image_is_built_and_run_on_the_same_python(instructions: list[tuple[str, str]]) -> None:
    """Both stages start from the slim image of Python 3.12."""
    images = [arguments.split()[0] for name, arguments in instructions if name == "FROM"]

    assert images == ["python:3.12-slim", "python:3.12-slim"]
    assert base_python() == "python3.12"


def test_the_trial_of_the_image_says_whose_python_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the image's Python the script's own Python replaces it, outside of the repository."""
    monkeypatch.setattr("shutil.which", lambda _name: None)

    python = check_image.image_python()

    assert Path(python) == Path(sys.executable).resolve()
    assert not Path(python).is_relative_to(ROOT)
    assert f"THE IMAGE'S python3.12 WAS NOT FOUND: {python} replaces it" in capsys.readouterr().out


def test_the_image_runs_as_an_ordinary_user() -> None:
    """The last USER is the number of a user that the image makes, and not root's."""
    stage = [(step.name, step.arguments) for step in last_stage()]
    users = [arguments for name, arguments in stage if name == "USER"]

    assert users == ["10001"]
    assert any(name == "RUN" and "useradd --uid 10001" in arguments for name, arguments in stage)


def test_the_image_installs_the_pinned_versions(instructions: list[tuple[str, str]]) -> None:
    """Each installation in the image is held to constraints.txt."""
    installs = [arguments for name, arguments in instructions if name == "RUN" and "pip install" in arguments]

    assert installs
    assert all("constraints.txt" in arguments for arguments in installs)


def test_the_image_reports_its_health_by_the_state_of_the_database() -> None:
    """Its health check is `retrieval db status`, and its entry point is the command itself."""
    stage = {step.name: step.arguments for step in last_stage()}

    assert stage["HEALTHCHECK"].endswith('CMD ["retrieval", "db", "status"]')
    assert stage["ENTRYPOINT"] == '["retrieval"]'


def test_the_image_has_the_extras_of_every_service(pyproject_extras: set[str]) -> None:
    """The extras that serve are installed by default, and each exists."""
    (extras,) = (step.arguments.removeprefix("EXTRAS=") for step in last_stage() if step.name == "ARG")

    assert {"local", "documents", "http", "mcp"} <= set(extras.split(",")) <= pyproject_extras


@pytest.fixture(scope="module")
def pyproject_extras() -> set[str]:
    """The extras of the package that serve; not those of developers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"]) - {"dev", "docs"}


def test_every_service_runs_a_command_that_there_is(services: dict[str, Any]) -> None:
    """Each command and each of its options is the program's."""
    for name, service in platform_services(services).items():
        if service.get("command"):
            check_command(name, command_of(service))


def test_every_variable_is_a_setting(services: dict[str, Any]) -> None:
    """A variable that is misspelt would do nothing, silently."""
    others = {"PGPASSWORD", "OPENAI_API_KEY", "FORWARDED_ALLOW_IPS"}
    for name, service in platform_services(services).items():
        assert set(service["environment"]) <= others | VARIABLES, name


def test_the_health_of_a_service_is_its_readiness(services: dict[str, Any]) -> None:
    """The HTTP service is asked for its readiness, at its port; the others for the state of the database."""
    http = services["http"]
    port = http["command"][http["command"].index("--port") + 1]

    assert f"http://127.0.0.1:{port}/readyz" in check_of(http)[-1]
    assert check_of(services["worker"]) == ["retrieval", "db", "status"]
    assert check_of(services["mcp"])[-1].endswith("&& retrieval db status")
    assert services["proxy"]["depends_on"]["http"] == {"condition": "service_healthy"}


def test_only_the_proxy_can_be_reached_from_outside(services: dict[str, Any]) -> None:
    """It alone publishes a port, on this machine unless another is named, and it does not reach the database."""
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert compose(dict.fromkeys(SECRETS, "x"))["services"]["proxy"]["ports"] == ["127.0.0.1:8080:8080"]
    assert not set(services["proxy"]["networks"]) & set(services["database"]["networks"])


def test_the_proxy_asks_the_services_where_they_listen(services: dict[str, Any]) -> None:
    """Its upstreams are the services' names and ports."""
    upstreams = set(re.findall(r"server (\w+):(\d+);", PROXY))
    listening = {
        (name, services[name]["command"][services[name]["command"].index("--port") + 1]) for name, _ in upstreams
    }

    assert upstreams == listening
    assert {name for name, _ in upstreams} == {"http", "mcp"}


def test_the_limits_of_the_proxy_fit_those_of_the_service() -> None:
    """It refuses no body that the service takes, gives up after the service, and closes idle connections before it."""
    fields = Settings.model_fields
    bodies = [
        int(number) * BYTES[f"{unit}b"] for number, unit in re.findall(r"client_max_body_size (\d+)([mg]);", PROXY)
    ]
    seconds = {name: int(value) for name, value in re.findall(r"(\w+_timeout) (\d+)s;", PROXY)}

    assert bodies == [fields["http_max_body_bytes"].default, fields["http_max_bulk_bytes"].default]
    assert seconds["proxy_read_timeout"] > fields["http_deadline_seconds"].default + LAST_ANSWERS_SECONDS
    assert seconds["keepalive_timeout"] < KEEP_ALIVE_SECONDS
    assert "X-Forwarded-For $remote_addr;" in PROXY


def test_a_container_is_not_killed_while_it_answers(services: dict[str, Any]) -> None:
    """It has the time of the longest request or call, and of the last responses."""
    longest = Settings.model_fields["http_deadline_seconds"].default + LAST_ANSWERS_SECONDS
    for service, seconds in (("http", longest), ("mcp", STOP_SECONDS)):
        assert int(services[service]["stop_grace_period"].removesuffix("s")) > seconds


def test_the_proxy_bounds_what_the_service_leaves_to_it() -> None:
    """Slow headers and bodies, unread answers, idle connections, and the connections and requests of one address."""
    seconds = {name: int(value) for name, value in re.findall(r"(\w+_timeout) (\d+)s;", PROXY)}
    heads = re.search(r"large_client_header_buffers (\d+) (\d+)k;", PROXY)

    assert {"client_header_timeout", "client_body_timeout", "send_timeout", "keepalive_timeout"} <= seconds.keys()
    assert heads is not None
    assert int(heads[1]) * int(heads[2]) * 1024 <= HEAD_BYTES
    assert re.search(r"limit_conn connections \d+;", PROXY)
    assert re.search(r"limit_req zone=requests burst=\d+", PROXY)
    assert PROXY.count("proxy_request_buffering off;") == 1, "only a stream of items is passed on before it is whole"


def test_the_proxy_s_own_refusals_can_be_read() -> None:
    """Each is a problem document in single quotes, which hold no quote: nginx does not start otherwise."""
    refusals = re.findall(r"^ *return (\d+) (.*);$", PROXY, re.MULTILINE)
    bodies = [(int(status), body) for status, body in refusals if body]
    assert len(bodies) == PROXY.count("default_type application/problem+json;") > 0
    for status, body in bodies:
        assert re.fullmatch("'[^']*'", body), body
        assert json.loads(body[1:-1])["status"] == status


def test_the_proxy_passes_the_address_on_and_every_stream() -> None:
    """The port too, which the console compares with a form's origin; and streams to collections of any name."""
    assert "proxy_set_header Host $http_host;" in PROXY
    [pattern] = re.findall(r"location ~ (\S+) \{", PROXY)
    assert re.search(pattern, "/v1/collections/team/tickets/items/bulk")
    assert not re.search(pattern, "/v1/collections/tickets/items/T-1")


def test_the_replica_follows_the_database_and_serves_what_searches(services: dict[str, Any]) -> None:
    """Its server is the primary's release, its script exists, and only the searching services know it."""
    added = compose(name="compose.replicas.yaml")
    replica, primary = added["services"]["replica"], services["database"]
    variable = {"RETRIEVAL_READ_DATABASE_URLS"}

    assert replica["image"] == primary["image"]
    assert replica["networks"] == primary["networks"]
    assert set(added["services"]["database"]["command"]) > set(primary["command"]), "it replaces the other"
    assert set(added["services"]) - {"database", "replica"} == {"http", "mcp", "platform"}
    for name in ("http", "mcp", "platform"):
        variables = added["services"][name]["environment"]
        assert set(variables) == variable <= VARIABLES
        [url] = (
            Settings.model_validate(
                {"read_database_urls": variables["RETRIEVAL_READ_DATABASE_URLS"]}
            ).read_database_urls
            or ()
        )
        assert url.get_secret_value().startswith("postgresql://retrieval@replica:5432/retrieval")
    for script in ("replica/start.sh", "initdb/20-replication-login.sh"):
        assert (DOCKER / script).stat().st_mode & 0o111, script
    for name in ("database", "replica"):
        assert "${REPLICATION_PASSWORD:?set it in docker/.env}" in added["services"][name]["environment"].values()


def test_the_nodes_of_a_cluster_are_alike_and_let_each_other_in_from_their_own_network() -> None:
    """The coordinator alone is where the platform is, and the network that is let in is the nodes' one."""
    added = compose(name="compose.citus.yaml")
    nodes = {name: added["services"][name] for name in ("database", "node-1", "node-2")}
    [network] = added["networks"]["nodes"]["ipam"]["config"]

    assert added["networks"]["nodes"]["internal"]
    assert [node["networks"] for node in nodes.values()] == [["inside", "nodes"], ["nodes"], ["nodes"]]
    for node in nodes.values():
        assert node["environment"]["CITUS_NETWORK"] == network["subnet"]
        assert node["image"] == nodes["database"]["image"]
    script = DOCKER / "initdb" / "30-citus-node.sh"
    assert script.stat().st_mode & 0o111
    assert '"1i host $POSTGRES_DB all $CITUS_NETWORK trust"' in script.read_text()


def test_a_reference_without_a_value_stops_the_start() -> None:
    """The reader of the file names the missing variable, like the engine."""
    with pytest.raises(KeyError, match="MCP_TOKEN"):
        compose(dict.fromkeys(SECRETS - {"MCP_TOKEN"}, "x"))


def test_the_trial_of_the_image_knows_every_instruction() -> None:
    """The script that runs the Dockerfile without an engine has a way for each of its instructions."""
    script = (ROOT / "scripts" / "check_image.py").read_text()

    assert not [step.name for step in steps() if f'"{step.name}"' not in script]


def test_the_trial_of_the_package_has_a_program_for_every_extra() -> None:
    """A new extra is not left out."""
    assert set(check_package.PROGRAMS) == set(check_package.extras())
