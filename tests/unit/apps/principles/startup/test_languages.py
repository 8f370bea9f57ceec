"""Files have tags by their names."""

from __future__ import annotations

import pytest

from retrieval.apps.principles.startup.project import tags_of_files


@pytest.mark.parametrize(
    ("path", "tags"),
    [
        ("src/app.tsx", {"typescript"}),
        ("tests/test_api.py", {"python", "testing"}),
        ("web/button.spec.ts", {"typescript", "testing"}),
        ("db/migrations/0001.SQL", {"sql", "migrations"}),
        (".github/workflows/ci.yml", {"ci"}),
        ("docker/Dockerfile", {"docker"}),
        ("LICENSE", set()),
        ("weird\nname.rs", {"rust"}),
        ("", set()),
    ],
)
def test_a_file_has_the_tags_of_its_ending_and_its_folders(path: str, tags: set[str]) -> None:
    """Whatever the case of its name."""
    assert set(tags_of_files([path])) == tags


def test_the_most_frequent_tags_come_first() -> None:
    """And no more than asked for."""
    assert tags_of_files(["a.go", "b.py", "c.py", "d.rs"], most=2) == ("python", "go")
