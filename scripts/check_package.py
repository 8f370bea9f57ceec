#!/usr/bin/env python3
"""Build the wheel and the sdist, and test the wheel with each extra alone, in empty folders and environments.

Every environment has only the packages that pip installs for the wheel and that extra; a program that uses the extra
runs there, without a checkout. Only pip needs the network.

usage: check_package.py [--python PYTHON] [EXTRA...]
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CORE = "core"
"""The name for the wheel without any extra."""

_FOUND = """
from retrieval.sync import connect
with connect() as platform:
    notes = platform.collection("notes")
    notes.add([{"id": "disk", "text": "The disk is full."}, {"id": "login", "text": "The certificate has expired."}])
    assert notes.search("expired certificate")[0].item_id == "login"
"""

PROGRAMS: Mapping[str, str] = {
    CORE: _FOUND,
    "local": f"""{_FOUND}
    assert notes.search("no room left on the drive")[0].item_id == "disk"
    assert notes.info().space
""",
    "documents": """
import pathlib, subprocess
pathlib.Path("docs").mkdir()
pathlib.Path("docs/a.html").write_text("<h1>Disks</h1><p>The disk is full since the rotation of logs is off.</p>")
subprocess.run(["retrieval", "ingest", "docs", "docs"], check=True)
done = subprocess.run(["retrieval", "search", "docs", "rotation"], check=True, capture_output=True, text=True)
assert "Disks" in done.stdout, done.stdout
""",
    "http": """
import subprocess, time
from urllib.request import urlopen
serving = subprocess.Popen(["retrieval", "serve", "--insecure-local", "--port", "0"], stdout=subprocess.PIPE, text=True)
url = serving.stdout.readline().split()[2]
for attempt in range(100):
    try:
        assert urlopen(f"{url}/readyz").status == 200
        break
    except OSError:
        time.sleep(0.3)
assert b"retrieval_database_up 1.0" in urlopen(f"{url}/metrics").read()
serving.terminate()
assert serving.wait(60) == 0
""",
    # Together with `http`, because the console runs within the HTTP service.
    "console": "import htpy, python_multipart",
    "langchain": """
from retrieval.surfaces.langchain import RetrievalStore, RetrievalVectorStore
from retrieval.sync import connect
with connect() as platform:
    store = RetrievalVectorStore(platform.collection("docs"))
    store.add_texts(["Restart the pool when connections time out."], [{"source": "runbook.md"}])
    assert store.as_retriever().invoke("connections time out")[0].metadata["source"] == "runbook.md"
    RetrievalStore(platform.collection("memory")).put(("users",), "ada", {"likes": "pizza"})
""",
    "mcp": """
import asyncio, sys
from mcp import Client, StdioServerParameters, stdio_client
async def main():
    async with Client(stdio_client(StdioServerParameters(command="retrieval", args=["mcp"]))) as client:
        print([tool.name for tool in (await client.list_tools()).tools])
asyncio.run(main())
""",
    "docs": "import mkdocs, mkdocstrings, material",
    "dev": "import build, hatchling, hypothesis, mypy, pytest, xdist, yaml",
}
"""The program for the environment of each extra; its output is shown if it fails."""


def extras() -> list[str]:
    """The core, and every extra of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [CORE, *project["optional-dependencies"]]


def run(command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a command that has to succeed."""
    done = subprocess.run(command, cwd=cwd, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FAILED: {shlex.join(map(str, command))[:300]}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def environment_in(folder: Path, python: str) -> Path:
    """Create an environment in a folder; returns its Python."""
    run([python, "-m", "venv", folder], folder.parent)
    return folder / "bin" / "python"


def build(place: Path, python: str) -> tuple[Path, Path]:
    """Build the wheel and the sdist by ``python -m build``; the wheel is built from the sdist."""
    builder = environment_in(place / "builder", python)
    run([builder, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", "build"], place)
    run([builder, "-m", "build", "--outdir", place / "dist", ROOT], place)
    (wheel,), (sdist,) = (place / "dist").glob("*.whl"), (place / "dist").glob("*.tar.gz")
    return wheel, sdist


def check_distribution(place: Path, python: str, distribution: Path, extra: str) -> None:
    """Install the distribution with an extra into an empty environment, and run the extra's program there."""
    folder = place / extra
    folder.mkdir()
    folder.chmod(0o755)
    venv_python = environment_in(folder / "environment", python)
    requirement = str(distribution) if extra == CORE else f"{distribution}[{extra}]"
    pip: list[str | Path] = [venv_python, "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", requirement], folder)
    run([*pip, "check"], folder)
    work = folder / "work"
    work.mkdir()
    passed_on = {name: value for name, value in os.environ.items() if name in {"LANG", "TMPDIR"}}
    variables = passed_on | {
        "HOME": str(work),
        "PATH": f"{venv_python.parent}:/usr/bin:/bin",
        "RETRIEVAL_HOME": str(folder / "home"),
    }
    run([venv_python, "-c", PROGRAMS[extra]], work, variables)
    run(["retrieval", "--version"], work, variables)
    shutil.rmtree(folder)


def main() -> int:
    """The exit code: 0 if every build, installation and program succeeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="the extras to test; default: all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="retrieval-package-") as folder:
        place = Path(folder)
        # Root's embedded server runs as another user, which needs access to the folder.
        place.chmod(0o755)
        wheel, sdist = build(place, arguments.python)
        print(f"built {wheel.name} and {sdist.name}", flush=True)
        pairs = [(wheel, extra) for extra in arguments.extras or extras()]
        for distribution, extra in [*pairs, (sdist, CORE)]:
            began = time.monotonic()
            check_distribution(place, arguments.python, distribution, extra)
            print(f"{time.monotonic() - began:6.1f} s  {distribution.suffix:5} {extra}: works", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
