"""TOML is parsed only where that costs little."""

from __future__ import annotations

import pytest

from retrieval.apps.principles.startup.project import MOST_CHARACTERS, parsed_toml

COSTLY = {
    "one key of many parts": "a." * 20_000 + "a = 1",
    "keys of many parts": "".join(f"k{number}." + "a." * 100 + "a = 1\n" for number in range(200)),
    "many keys below a header of many parts": f"[{'a.' * 100}a]\n" + "".join(f"k{n} = 1\n" for n in range(5_000)),
    "a key behind a text that looks like a comment": 'x = {a = """\n#""", ' + "a." * 2_000 + "a = 1}",
    "a long text": "#" * (MOST_CHARACTERS + 1),
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY.keys())
def test_what_would_take_long_is_refused_before_it_is_parsed(text: str) -> None:
    """The parser's time grows with the square of the parts."""
    with pytest.raises(ValueError, match="too much to be parsed"):
        parsed_toml(text)


def test_what_projects_have_is_parsed() -> None:
    """Long lists on one line, and tables in tables."""
    listed = ", ".join(f'"package-{number}>=1.{number}.0"' for number in range(150))
    text = f"[project]\ndependencies = [{listed}]\n" + "[tool.a.b.c.d]\n" + "".join(f"k{n} = 1\n" for n in range(2_000))
    found = parsed_toml(text)
    assert len(found["project"]["dependencies"]) == 150
    assert len(found["tool"]["a"]["b"]["c"]["d"]) == 2_000
