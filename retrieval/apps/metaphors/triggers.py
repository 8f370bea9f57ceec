"""When candidates are generated: the corpus has little that fits, or what it has was tried. Pure."""

from __future__ import annotations

from dataclasses import dataclass

GENERATE_BELOW = 0.3
"""A top score below this calls for generation."""

GENERATE_AFTER_BACKTRACKS = 2
"""So many returns without success call for it."""

NO_GOOD_CANDIDATES = "no good candidates"
"""What a context says, in any case of letters, to call for it."""

KNOWN_FROM_VERDICTS = 20
"""From so many verdicts on it can be told that a domain is unusual: before, all are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What decides."""

    top_score: float
    """The best that the corpus has for the problem, 0 to 1; 0 where it has nothing."""
    context: str = ""
    backtracks: int = 0
    unusual_domain: str = ""
    """The problem's domain, if it is unusual; empty: it is not."""


def why_generate(
    situation: Situation, *, below: float = GENERATE_BELOW, after_backtracks: int = GENERATE_AFTER_BACKTRACKS
) -> str | None:
    """Why candidates should be generated, in words; None: they should not."""
    if NO_GOOD_CANDIDATES in situation.context.casefold():
        return "the context says that there are no good candidates"
    if situation.backtracks >= after_backtracks:
        return f"{situation.backtracks} backtracks without success"
    if situation.unusual_domain:
        return f"the domain {situation.unusual_domain!r:.80} is unusual"
    if situation.top_score < below:
        return f"the best score is {situation.top_score:.2f}, below {below:g}"
    return None


def is_unusual(*, verdicts: int, verdicts_of_domain: int, is_a_metaphors_domain: bool) -> bool:
    """Whether a domain is unusual: enough verdicts are known, none of it, and no metaphor comes from it."""
    return verdicts >= KNOWN_FROM_VERDICTS and not verdicts_of_domain and not is_a_metaphors_domain
