"""Public facts about the project: its dependencies, its rules and its commands."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

REGISTRY_HOSTS = ("pypi" + ".org", "files.python" + "hosted", "registry.npm" + "js")
"""Written in two parts, so that this file does not hold what it looks for."""


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(pyproject: dict[str, Any]) -> list[Requirement]:
    """Every dependency that pyproject.toml names: the core's and each extra's."""
    project = pyproject["project"]
    extras = (line for lines in project["optional-dependencies"].values() for line in lines)
    return [Requirement(line) for line in (*project["dependencies"], *extras)]


def constraint_lines() -> list[str]:
    """The lines of constraints.txt that are not comments."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pins() -> dict[str, str]:
    """The pinned version of each distribution."""
    split = (line.split("==") for line in constraint_lines())
    return {canonicalize_name(name): version for name, version in split}


def repository_files() -> list[Path]:
    """Every file that is, or would be, under version control."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return [path for path in paths if path.is_file()]


def test_constraints_are_names_and_exact_versions_only() -> None:
    """No address, no hash, no marker: a line is `name==version`."""
    for line in constraint_lines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line), line


def test_constraints_tell_how_they_are_renewed() -> None:
    """The comment at the top names the command."""
    assert "make lock" in (ROOT / "constraints.txt").read_text().split("\n\n")[0]


def test_every_dependency_is_pinned_within_its_range(pyproject: dict[str, Any]) -> None:
    """Each dependency has a version in constraints.txt, and its range admits that version."""
    pinned = pins()

    for requirement in requirements(pyproject):
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} is not in constraints.txt: make lock"
        assert pinned[name] in requirement.specifier, f"{requirement} does not admit {pinned[name]}"


def test_every_dependency_has_a_lower_bound(pyproject: dict[str, Any]) -> None:
    """A dependency without one could be installed in an untested version."""
    for requirement in requirements(pyproject):
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators & {">=", "=="}, str(requirement)


def test_no_dependency_brings_a_gpu_runtime() -> None:
    """Local embeddings run on the processor: no torch, no CUDA."""
    assert not [name for name in pins() if re.match(r"torch|nvidia|cuda|triton", name)]


def test_every_lint_rule_that_is_switched_off_has_its_reason(pyproject: dict[str, Any]) -> None:
    """Each ignored rule is on its own line, which ends in a comment."""
    lint = pyproject["tool"]["ruff"]["lint"]
    ignored = [*lint["ignore"], *(rule for rules in lint["per-file-ignores"].values() for rule in rules)]
    lines = (ROOT / "pyproject.toml").read_text()
    explained = re.findall(r'^    "([A-Z]+[0-9]*)", +# \S.*\.$', lines, re.MULTILINE)

    assert sorted(ignored) == sorted(explained)


def test_no_file_names_a_package_registry() -> None:
    """The package registry is a setting of the installing machine, not of the project."""
    lines = [
        f"{path.relative_to(ROOT)}: {host}"
        for path in repository_files()
        for host in REGISTRY_HOSTS
        if host.encode() in path.read_bytes()
    ]

    assert not lines


def test_make_alone_lists_every_target_under_a_heading() -> None:
    """`make` prints the targets with what each is for."""
    stdout = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607 - make is looked up
    listed = set(re.findall(r"^  ([a-z-]+) +\S", stdout, re.MULTILINE))
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert targets
    assert listed == set(targets[1].split())
    assert {"demo", "test", "lint", "types", "format", "clean", "lock"} <= listed
    assert re.findall(r"^([A-Z]\w+)$", stdout, re.MULTILINE) == ["Use", "Develop", "Maintain", "Help"]


def test_a_python_that_is_too_old_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """The message names the version that is needed and how to name another Python."""
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    environment = tmp_path / "environment"
    command = ["make", f"PYTHON={old}", f"VENV={environment}", "test"]

    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert refused.returncode != 0
    assert "Python 3.11 or newer is needed" in refused.stderr
    assert "make PYTHON=" in refused.stderr
    assert not environment.exists()


def test_the_continuous_integration_runs_the_tests_last() -> None:
    """The test runner's summary closes the output."""
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]

    assert commands == ["make --jobs=2 --output-sync lint types collect", "make test"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
