"""The git history of repositories of every kind, read within a time limit."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from retrieval.apps.principles.startup.surroundings import MOST_FILES, GitHistory, History

Git = Callable[..., None]


@pytest.fixture
def git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Git:
    """Run git in a folder, with an author and without a user's configuration."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.org")

    def run(folder: Path, *arguments: str) -> None:
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)  # noqa: S607

    return run


@pytest.fixture
def repository(git: Git, tmp_path: Path) -> Path:
    """A repository without a commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def commit(git: Git, folder: Path, *messages: str) -> None:
    """A commit for each message, which changes a file of that number."""
    for number, message in enumerate(messages):
        (folder / f"file-{number}.py").write_text(message)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", message)


def history(folder: Path, seconds: float = 60) -> History:
    """The git history of the folder."""
    return GitHistory(folder).history(time.monotonic() + seconds)


def test_the_latest_five_commits_and_what_changed_in_them(git: Git, repository: Path) -> None:
    """First lines alone, the latest first; also from a folder within, and of a detached HEAD."""
    commit(git, repository, "zero", "one", "two", "three\n\nand a body", "four", "five", "Größe – six")
    events = history(repository)
    assert events.subjects == ("Größe – six", "five", "four", "three", "two")
    assert set(events.files) == {f"file-{number}.py" for number in range(2, 7)}

    (repository / "inner").mkdir()
    assert history(repository / "inner") == events
    git(repository, "checkout", "-q", "--detach", "HEAD~1")
    assert history(repository).subjects[0] == "five"


def test_fewer_commits_than_that_are_what_there_is(git: Git, repository: Path) -> None:
    """The first one has no parent to compare with; a path may hold anything."""
    (repository / 'odd\n"name" é.rs').write_text("x")
    commit(git, repository, "begin", "go on")
    events = history(repository)
    assert events.subjects == ("go on", "begin")
    assert set(events.files) == {"file-0.py", "file-1.py", 'odd\n"name" é.rs'}


def test_a_bare_and_a_shallow_repository_have_a_history_too(git: Git, repository: Path, tmp_path: Path) -> None:
    """The history of a shallow clone has the commits that it holds."""
    commit(git, repository, *(f"step {number}" for number in range(7)))
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repository}", "shallow")
    assert history(tmp_path / "bare.git").subjects[0] == "step 6"
    assert history(tmp_path / "shallow").subjects == ("step 6", "step 5")


def test_where_there_is_no_commit_there_is_no_history(repository: Path, tmp_path: Path) -> None:
    """In a new repository, outside of any, in a broken one, in a folder that is gone."""
    broken = tmp_path / "broken"
    (broken / ".git").mkdir(parents=True)
    (broken / ".git" / "HEAD").write_text("nonsense")
    for folder in (repository, tmp_path, broken, tmp_path / "gone"):
        assert history(folder) == History()


def test_a_merge_changed_what_it_brought(git: Git, repository: Path) -> None:
    """The latest commits of a project may all be merges."""
    commit(git, repository, "begin")
    for number in range(5):
        git(repository, "checkout", "-q", "-b", f"side-{number}", *(["HEAD~1"] if number else []))
        (repository / f"side-{number}.rs").write_text("x")
        git(repository, "add", "-A")
        git(repository, "-c", "user.name=Bob", "commit", "-q", "-m", f"side {number}", "--date", "2001-01-01T00:00Z")
        git(repository, "checkout", "-q", "main")
        git(repository, "merge", "-q", "--no-ff", "-m", f"Merge side {number}", f"side-{number}")
    events = history(repository)
    assert "Merge side 4" in events.subjects
    assert {f"side-{number}.rs" for number in range(3, 5)} <= set(events.files)


def test_the_files_of_a_commit_do_not_hide_the_other_subjects(git: Git, repository: Path) -> None:
    """A commit of thousands of files precedes small ones."""
    commit(git, repository, "first", "second")
    for number in range(3000):
        (repository / f"{number:04}-{'n' * 60}.py").write_text("")
    commit(git, repository, "many")
    assert history(repository).subjects == ("many", "second", "first")


def test_without_git_there_is_no_history(monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path) -> None:
    """Not every machine has it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert history(repository) == History()


def test_a_huge_commit_is_read_in_part(git: Git, repository: Path) -> None:
    """A message of a hundred thousand letters, and thousands of files with long names, fill the read buffer."""
    for number in range(1500):
        (repository / f"{number:04}-{'n' * 60}.py").write_text("")
    commit(git, repository, "w" * 100_000)
    events = history(repository)
    assert len(events.files) == MOST_FILES
    assert [len(subject) for subject in events.subjects] == [200]


def test_the_environment_of_a_git_hook_does_not_change_the_repository(
    git: Git, monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path
) -> None:
    """A session that a hook of another repository starts is about its own folder."""
    commit(git, repository, "ours")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert history(repository).subjects == ("ours",)


def test_a_git_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path) -> None:
    """As on a network drive: its output is missing, and the context says so."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 600\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    request = GitHistory(repository)
    while not (tmp_path / "pids").exists() or (tmp_path / "pids").read_text().count("\n") < 2:
        time.sleep(0.01)
    assert request.history(time.monotonic()) == History(was_late=True)
    for number in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(number), 0)
