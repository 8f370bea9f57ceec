"""Names and ids that hold what ends a part of a path."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.http.json_bodies import check_utf8, restore, with_stand_ins


@pytest.mark.parametrize("name", ["a/b", "//", "\n", "a\nb/", "ä/日本", "a b?c#d%2Fe", "..", "%"])
def test_a_name_comes_back_whole(name: str) -> None:
    """Whatever stands in it, no slash of its own divides the path."""
    path = with_stand_ins(f"/v1/{quote(name, safe='')}/items")
    head, version, inner, tail = path.split("/")
    assert (head, version, restore(inner), tail) == ("", "v1", name, "items")
    assert "\n" not in path


@pytest.mark.parametrize("encoded", [b"/v1/M%FCller", b"caf%E8", b"%ED%A0%80", b"a%FF%2Fb", b"\xfc"])
def test_a_path_that_is_not_utf_8_is_refused(encoded: bytes) -> None:
    """Different names would become the same."""
    with pytest.raises(InvalidRequestError, match="the path is not UTF-8; percent-encode"):
        check_utf8(encoded, "path")
    check_utf8(b"/v1/M%C3%BCller/%F0%9F%98%80/%/%zz", "path")
