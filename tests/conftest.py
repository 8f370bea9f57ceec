"""The database of the tests: one server a run, one database a process, a tenant of its own for each test."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation.schema import upgrade
from tests.support import cluster
from tests.support.cluster import cluster_url
from tests.support.copied_cluster import copy_clusters
from tests.support.database import (
    SCHEMA,
    Source,
    database_with_schema,
    running_server,
    source,
    temporary_database,
)

EXAMPLES = os.environ.get("RETRIEVAL_TEST_EXAMPLES")
"""The number of examples of each property test in a long run, new ones each time; otherwise 25, always the same."""

hypothesis_settings.register_profile(
    "retrieval",
    # With the database of examples, a run would depend on the previous run.
    database=None,
    deadline=None,
    derandomize=EXAMPLES is None,
    max_examples=int(EXAMPLES or 25),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
hypothesis_settings.load_profile("retrieval")

PARTS = int(os.environ.get("RETRIEVAL_TEST_PARTS", "1"))
"""In how many parts the index of a collection is to be that a test makes."""

_SHARED = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Decide once, in the process that a run starts with, which server its processes share."""
    # The tests start the program some hundred times; compiling all modules each time would take most of the time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Threads that wait for small matrices use as much processor time as all other learning.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Nearly no object is garbage until all modules are loaded.
    gc.disable()
    state = getattr(config, "workerinput", {}).get("database")
    if state is None:
        # Root's server runs as another user, who must be able to enter.
        run = Path(tempfile.mkdtemp(prefix="retrieval-run-"))
        run.chmod(0o755)
        state = {"source": source().name, "run": str(run), "process": str(os.getpid())}
    config.stash[_SHARED] = state


def pytest_collection_finish() -> None:
    """Freeze the collected objects, so that the garbage collector skips loaded modules and tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker process that the run starts."""
    node.workerinput["database"] = node.config.stash[_SHARED]


def pytest_report_header(config: pytest.Config) -> str:
    """Say which server the tests use."""
    if cluster_url() is not None:
        return f"database: the Citus cluster of {cluster.VARIABLE}"
    parts = f", indexes in {PARTS} parts" if PARTS > 1 else ""
    source = Source[config.stash[_SHARED]["source"]]
    return f"database: {source}{parts}; no Citus cluster (set {cluster.VARIABLE} for one)"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what the run's processes shared."""
    shared = config.stash.get(_SHARED, None)
    if shared is not None and shared["process"] == str(os.getpid()):
        shutil.rmtree(shared["run"], ignore_errors=True)


@pytest.fixture(scope="session")
def run_folder(request: pytest.FixtureRequest) -> Path:
    """The folder that a run's processes share."""
    return Path(request.config.stash[_SHARED]["run"])


@pytest.fixture(scope="session", autouse=True)
def _copied_clusters(run_folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        copy_clusters(patched, run_folder / f"clusters-{os.getpid()}")
        yield


@pytest.fixture(scope="session")
def server_url(request: pytest.FixtureRequest, run_folder: Path) -> Iterator[str]:
    """A superuser's URL of the server."""
    if (coordinator := cluster_url()) is not None:
        yield coordinator
        return
    with running_server(Source[request.config.stash[_SHARED]["source"]], run_folder) as url:
        yield url


@pytest.fixture(scope="session")
def template(server_url: str) -> Iterator[str]:
    """The name of a database with the schema, used as a template; no test connects to it."""
    name = f"retrieval_test_{uuid.uuid4().hex[:12]}"
    if cluster_url() is not None:
        yield name  # a cluster's databases cannot be copied
        return
    with temporary_database(server_url, name) as url:
        upgrade(url, SCHEMA)
        if PARTS > 1:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"ALTER TABLE {SCHEMA}.collections ALTER parts SET DEFAULT {PARTS}".encode())
        yield name


@pytest.fixture(scope="session")
def database_url(server_url: str, template: str) -> Iterator[str]:
    """A superuser's URL of this process's database, whose schema is set up."""
    with database_with_schema(server_url, f"{template}_shared", template) as url:
        yield url


NewDatabase = Callable[..., str]


@pytest.fixture
def new_database(server_url: str, template: str) -> Iterator[NewDatabase]:
    """Makes databases of this test's own and gives their URLs: with the schema, or ``empty=True``."""
    numbers = count()
    with ExitStack() as stack:

        def make(*, empty: bool = False) -> str:
            name = f"retrieval_test_{uuid.uuid4().hex[:12]}_{next(numbers)}"
            # An empty one is a database of the coordinator, outside of the cluster.
            if empty:
                return stack.enter_context(temporary_database(server_url, name))
            return stack.enter_context(database_with_schema(server_url, name, template))

        yield make


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A superuser's connection in a transaction that is rolled back; its search path is the schema's."""
    async with await psycopg.AsyncConnection.connect(database_url) as opened:
        await opened.execute("SELECT set_config('search_path', %s, true)", (f'"{SCHEMA}", public, pg_temp',))
        yield opened
        await opened.rollback()


@pytest.fixture
def tenant() -> str:
    """The name of a tenant that no other test has."""
    return f"tenant-{uuid.uuid4()}"


@pytest.fixture(scope="session")
def common_settings() -> Settings:
    """The settings that all tests share, read once."""
    return Settings(database_schema=SCHEMA, pool_size=8, pool_timeout_seconds=10, embedder="none")


@pytest.fixture
def settings(common_settings: Settings, tenant: str) -> Settings:
    """The settings of this test's platform, whatever the environment says."""
    return common_settings.changed(tenant=tenant)


@pytest.fixture(scope="module")
async def installation(database_url: str, common_settings: Settings) -> AsyncIterator[Platform]:
    """A platform for a tenant without data, with vectors that need no model; its connections serve a file's tests."""
    own = common_settings.changed(tenant=f"tenant-{uuid.uuid4()}")
    async with connect(database_url, settings=own, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture
async def platform(installation: Platform, tenant: str) -> AsyncIterator[Platform]:
    """A platform for this test's tenant, on the connections of its file."""
    async with installation.of_tenant(tenant) as opened:
        yield opened
