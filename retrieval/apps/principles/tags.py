"""Tags as principles and traces bear them: stripped and casefolded, each once. Light to import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from retrieval.domain.errors import InvalidRequestError

MOST_TAGS = 50
"""Tags of one principle, trace or question."""


def normalised_tag(tag: object) -> str:
    """The tag stripped and casefolded. Raises ``InvalidRequestError`` for what is no text, or an empty one."""
    if not isinstance(tag, str) or not tag.strip() or "\x00" in tag:
        raise InvalidRequestError(f"a tag is {tag!r:.80}; it must be a text such as 'testing'")
    return tag.strip().casefold()


def normalised_tags(tags: Sequence[str] | None) -> tuple[str, ...]:
    """The tags stripped and casefolded, each once, in their order; none for None.

    Raises ``InvalidRequestError`` for what is no list of texts, and for more than 50.
    """
    if tags is None:
        return ()
    if isinstance(tags, str) or not isinstance(tags, Sequence | set | frozenset):
        raise InvalidRequestError(f"tags come in a list such as ['testing', 'sql'], not {tags!r:.80}")
    found = tuple(dict.fromkeys(map(normalised_tag, tags)))
    if len(found) > MOST_TAGS:
        raise InvalidRequestError(f"{len(found)} tags are too many; give at most {MOST_TAGS}")
    return found


def frequent_tags(tags_of_each: Iterable[Iterable[str]], most: int) -> list[str]:
    """The ``most`` tags that most of them bear, the most frequent first, then those that came first."""
    counts = Counter(tag for tags in tags_of_each for tag in dict.fromkeys(tags))
    return [tag for tag, _ in counts.most_common(most)]
