"""The built distributions are complete: the installed wheel works without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

NOTES = [
    {"_id": "disk", "title": "Disk full", "text": "The data node stopped because its disk was full."},
    {"_id": "login", "title": "Login fails", "text": "Nobody can log in since the certificate expired."},
    {"_id": "slow", "title": "Slow reports", "text": "The monthly report takes an hour."},
]


def run(command: Sequence[str | Path], cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Standard output of the command; a failure shows everything that it said."""
    process = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, f"{command}: exit code {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process.stdout


def build(kind: str, source: Path, target: Path) -> Path:
    """The ``wheel`` or ``sdist`` of a source folder, built by the backend that is installed here."""
    options = ["--no-isolation", "--outdir", str(target), str(source)]
    run([sys.executable, "-m", "build", f"--{kind}", *options], cwd=target.parent)
    (built,) = target.iterdir()
    return built


def files_below(folder: Path) -> set[str]:
    """The files of a source folder by their path within it, without what Python caches there."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in files if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder outside of the checkout that every user may enter: the embedded server may run as another."""
    folder = Path(tempfile.mkdtemp(prefix="retrieval-wheel-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def wheel(place: Path) -> Path:
    """The wheel, built from the checkout."""
    return build("wheel", ROOT, place / "wheel")


@pytest.fixture(scope="module")
def sdist(place: Path) -> Path:
    """The source distribution."""
    return build("sdist", ROOT, place / "sdist")


@dataclass(frozen=True)
class Installation:
    """An environment that holds the wheel, and the variables that its programs run with."""

    folder: Path
    work: Path
    environment: dict[str, str]

    def run(self, program: str, *arguments: str | Path) -> str:
        """Standard output of a program of the environment, run where no checkout is."""
        return run([self.folder / "bin" / program, *arguments], self.work, self.environment)


@pytest.fixture(scope="module")
def installation(place: Path, wheel: Path) -> Installation:
    """The wheel in a fresh environment, its dependencies borrowed from this one: no network is needed."""
    folder = place / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], place).strip()
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    # A folder that a .pth file adds is searched last, and its own .pth files are ignored: an editable
    # installation there does not add the checkout.
    (Path(site) / "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--ignore-installed", str(wheel)], place)
    work = place / "work"
    work.mkdir()
    inherited = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
    home = place / "home"
    return Installation(folder, work, inherited | {"RETRIEVAL_HOME": str(home), "RETRIEVAL_EMBEDDER": "hashing"})


def test_the_wheel_holds_the_package_and_what_installs_the_database(wheel: Path) -> None:
    """Every file of the package is in it, and the top-level migrations and sql are inside the package."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    expected = {f"retrieval/{name}" for name in files_below(ROOT / "retrieval")}
    expected |= {f"retrieval/_migrations/{name}" for name in files_below(ROOT / "migrations")}
    expected |= {f"retrieval/_sql/{name}" for name in files_below(ROOT / "sql")}
    assert "retrieval/py.typed" in expected
    assert {name for name in names if not name.startswith("retrieval_platform-")} == expected


def test_the_wheel_names_its_command_and_carries_its_licence(wheel: Path) -> None:
    """Its metadata has the console script and the text of the licence."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
        entry_points = archive.read(f"{metadata}/entry_points.txt").decode()
        licence = archive.read(f"{metadata}/licenses/LICENSE").decode()

    assert "retrieval = retrieval.surfaces.cli:main" in entry_points
    assert licence == (ROOT / "LICENSE").read_text()


def test_the_source_distribution_can_build_the_wheel(sdist: Path, wheel: Path, place: Path) -> None:
    """A wheel built from the unpacked sources holds the same files as the one built from the checkout."""
    with tarfile.open(sdist) as archive:
        archive.extractall(place / "unpacked", filter="data")
    (sources,) = (place / "unpacked").iterdir()
    rebuilt = build("wheel", sources, place / "rebuilt")

    with zipfile.ZipFile(rebuilt) as again, zipfile.ZipFile(wheel) as first:
        assert sorted(again.namelist()) == sorted(first.namelist())


def test_the_installed_package_is_the_wheels(installation: Installation) -> None:
    """Python finds the package in the environment, with the version of its metadata, and not the checkout."""
    script = "import retrieval; print(retrieval.__file__)"

    path = Path(installation.run("python", "-c", script).strip())

    assert path.is_relative_to(installation.folder)
    places = installation.run("python", "-c", "import sys; print(*sys.path, sep='\\n')").splitlines()
    assert str(ROOT) not in places


def test_the_installed_command_migrates_ingests_and_searches(installation: Installation) -> None:
    """From nothing: a database is made and migrated, a file goes in, and the right item comes first."""
    notes = installation.work / "notes.jsonl"
    notes.write_text("".join(json.dumps(note) + "\n" for note in NOTES))

    installation.run("retrieval", "db", "upgrade")
    installation.run("retrieval", "ingest", "notes", notes)
    answer = json.loads(installation.run("retrieval", "search", "notes", "certificate expired", "--json"))

    assert answer["hits"][0]["id"] == "login"
