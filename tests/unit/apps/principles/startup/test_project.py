"""A folder's project is found out about whatever lies there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from retrieval.apps.principles.startup.project import MOST_BYTES, project_tags, read_part

PACKAGE = '{"dependencies": {"react": "19"}}'


def test_every_manifest_of_the_folder_counts(tmp_path: Path) -> None:
    """Each tag once."""
    (tmp_path / "package.json").write_text(PACKAGE)
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["Django"]')
    (tmp_path / "CLAUDE.md").write_text("# Frontend\n# Accessibility")
    tags = project_tags(tmp_path)
    assert {"javascript", "react", "frontend", "python", "django", "backend", "accessibility"} <= set(tags)
    assert len(tags) == len(set(tags))


def test_within_a_repository_those_above_count_too(tmp_path: Path) -> None:
    """Up to its top, and not beyond; after those of the folder itself."""
    inner = tmp_path / "repository" / "packages" / "web"
    inner.mkdir(parents=True)
    (tmp_path / "Cargo.toml").write_text("")
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / "go.mod").write_text("")
    (inner / "Gemfile").write_text("")
    assert project_tags(inner) == ("ruby", "go")


def test_outside_of_one_the_folder_alone_counts(tmp_path: Path) -> None:
    """What lies above it is somebody else's."""
    (tmp_path / "go.mod").write_text("")
    (tmp_path / "inner").mkdir()
    assert project_tags(tmp_path / "inner") == ()


def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path) -> None:
    """Its ``.git`` is a file."""
    (tmp_path / "go.mod").write_text("")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / ".git").write_text("gitdir: ../.git/modules/part")
    assert project_tags(tmp_path / "part") == ()


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """A folder, a pipe, a socket's name, a loop of links, a link to nowhere."""
    (tmp_path / "package.json").mkdir()
    os.mkfifo(tmp_path / "pyproject.toml")
    (tmp_path / "go.mod").symlink_to("go.mod")
    (tmp_path / "Gemfile").symlink_to("missing")
    assert project_tags(tmp_path) == ()


def test_a_device_is_passed_over(tmp_path: Path) -> None:
    """Reading it would have no end."""
    (tmp_path / "requirements.txt").symlink_to("/dev/zero")
    assert project_tags(tmp_path) == ()


def test_a_huge_manifest_says_what_its_name_says(tmp_path: Path) -> None:
    """A hundred megabytes are not read."""
    with (tmp_path / "package.json").open("w") as file:
        file.write(PACKAGE)
        file.truncate(100 * 1024 * 1024)
    assert project_tags(tmp_path) == ("javascript", "node")


def test_a_long_page_is_read_in_part(tmp_path: Path) -> None:
    """Its beginning says something too."""
    (tmp_path / "AGENTS.md").write_text("# Observability\n" + "text\n" * 100_000 + "# Never\n")
    assert project_tags(tmp_path) == ("observability",)


@pytest.mark.parametrize("written", [b"\xff\xfe\x00{", b"\x89PNG\r\n", bytes(range(256)) * 50])
def test_a_binary_manifest_says_what_its_name_says(tmp_path: Path, written: bytes) -> None:
    """It is no UTF-8 at all."""
    (tmp_path / "pyproject.toml").write_bytes(written)
    assert project_tags(tmp_path) == ("python",)


def test_names_that_no_tag_can_be_are_left_out(tmp_path: Path) -> None:
    """A NUL, half of a surrogate pair, a page of text: PostgreSQL could not compare with them, or nobody would."""
    names = {"nul\u0000": "1", "half\ud800": "1", "line\nend": "1", "long" * 50: "1", "fine": "1"}
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": names}))
    assert project_tags(tmp_path) == ("javascript", "node", "fine")


def test_there_are_never_more_tags_than_can_be_compared(tmp_path: Path) -> None:
    """A project may have thousands of dependencies."""
    for name in ("requirements.txt", "Gemfile", "pyproject.toml", "package.json", "composer.json"):
        packages = [f"{name}-package{number}" for number in range(5000)]
        text = {
            "requirements.txt": "\n".join(packages),
            "Gemfile": "\n".join(f"gem '{one}'" for one in packages),
            "pyproject.toml": f"[project]\ndependencies = {packages}",
            "package.json": json.dumps({"dependencies": dict.fromkeys(packages, "1")}),
            "composer.json": json.dumps({"require": dict.fromkeys(packages, "1")}),
        }[name]
        (tmp_path / name).write_text(text)
    assert len(project_tags(tmp_path)) == 150


def test_a_long_manifest_does_not_hide_what_the_others_say(tmp_path: Path) -> None:
    """Names of packages that say no more come last, some of each manifest."""
    many = {f"unknown-{number}": "1" for number in range(190)}
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": {**many, "react": "19"}}))
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["fastapi", "my-own-library"]')
    (tmp_path / "Dockerfile").write_text("FROM postgres:16")
    (tmp_path / "CLAUDE.md").write_text("# Accessibility")
    tags = project_tags(tmp_path)

    assert tags[:2] == ("javascript", "node")
    assert {"react", "python", "fastapi", "docker", "postgres", "accessibility", "my-own-library"} <= set(tags)
    assert tags.index("accessibility") < tags.index("unknown-0")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_is_not_ours_to_read_is_passed_over(tmp_path: Path) -> None:
    """Nothing is raised."""
    (tmp_path / "go.mod").write_text("")
    (tmp_path / "go.mod").chmod(0)
    assert project_tags(tmp_path) == ()


def test_a_part_tells_whether_it_is_the_whole(tmp_path: Path) -> None:
    """A file of just the size is whole."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * MOST_BYTES)
    whole = read_part(path)
    path.write_bytes(b"x" * (MOST_BYTES + 1))
    part = read_part(path)
    assert whole is not None
    assert part is not None
    assert (len(whole.text), whole.is_whole, len(part.text), part.is_whole) == (MOST_BYTES, True, MOST_BYTES, False)


def test_a_name_that_no_file_can_have_is_not_there(tmp_path: Path) -> None:
    """Nothing is raised for it."""
    assert read_part(tmp_path / "a\x00b") is None
    assert read_part(tmp_path / ("n" * 5000)) is None


def test_after_the_deadline_no_more_files_are_read(tmp_path: Path) -> None:
    """A folder of many costly ones does not take all of a session's time."""
    (tmp_path / "go.mod").write_text("")
    assert project_tags(tmp_path, deadline=0) == ()
