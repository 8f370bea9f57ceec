"""What a retriever is made with and asked, checked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.problem import Problem
from retrieval.apps.metaphors.texts import checked_text, checked_texts
from retrieval.domain.errors import InvalidLimitError, InvalidRequestError
from retrieval.domain.llm import LLM, is_llm

LIMIT_MAX = 1000
"""The most metaphors that one call gives."""

BATCH_MAX = 1000
"""The most problems in one call."""

SECONDS_MAX = 86_400.0
RATE_MAX = 1e6


def checked_problem(problem: object) -> Problem:
    """The problem. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(problem, Problem):
        raise InvalidRequestError(f"problem is {problem!r:.80}; give a Problem(id=..., description=...)")
    return problem


def checked_problems(problems: object) -> list[Problem]:
    """The problems. Raises ``InvalidRequestError`` for other than at most 1000 of them, and for an id given twice."""
    if isinstance(problems, str | Problem) or not isinstance(problems, Iterable):
        raise InvalidRequestError(f"problems is {problems!r:.80}; give a list of Problem(id=..., description=...)")
    given = [checked_problem(one) for one in problems]
    if len(given) > BATCH_MAX:
        raise InvalidRequestError(f"there are {len(given)} problems; at most {BATCH_MAX} in one call")
    if len({one.id for one in given}) < len(given):
        raise InvalidRequestError("two problems have the same id, under which each has its answer; name them apart")
    return given


def checked_llm(llm: object) -> LLM:
    """The language model. Raises ``InvalidRequestError`` for anything else."""
    try:
        is_one = is_llm(llm)
    except Exception as error:
        raise InvalidRequestError(
            "llm has a name that cannot be read; give a language model, such as platform.llm"
        ) from error
    if not is_one:
        raise InvalidRequestError(f"llm is {llm!r:.80}; give a language model, such as platform.llm, or None")
    return cast("LLM", llm)


def checked_metaphor(name: str, metaphor: object) -> Metaphor:
    """The metaphor. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(metaphor, Metaphor):
        raise InvalidRequestError(f"{name} is {metaphor!r:.80}; give a Metaphor, such as one that was retrieved")
    return metaphor


def checked_metaphors(name: str, metaphors: Sequence[object]) -> list[Metaphor]:
    """The metaphors. Raises ``InvalidRequestError`` for anything else than a list of them."""
    if isinstance(metaphors, str) or not isinstance(metaphors, Sequence):
        raise InvalidRequestError(f"{name} is {metaphors!r:.80}; give a list of metaphors")
    return [checked_metaphor(f"one of {name}", one) for one in metaphors]


def checked_limit(limit: object) -> int:
    """A number from 1 to 1000. Raises ``InvalidLimitError`` for anything else."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
        raise InvalidLimitError(f"limit is {limit!r:.80}; it must be a whole number from 1 to {LIMIT_MAX}")
    return limit


def checked_ids(exclude: object) -> tuple[str, ...]:
    """The ids, each once; none of None. Raises ``InvalidRequestError`` for what are no texts."""
    if exclude is None:
        return ()
    if isinstance(exclude, Iterable) and not isinstance(exclude, str | bytes | Sequence):
        exclude = list(exclude)
    return tuple(dict.fromkeys(checked_texts("the ids to exclude", exclude)))


def checked_context(context: object) -> str:
    """The text; an empty one for None. Raises ``InvalidRequestError`` for anything else."""
    return "" if context is None else checked_text("context", context)


def checked_count(name: str, number: object) -> int:
    """A whole number of at least 0. Raises ``InvalidRequestError`` for anything else."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidRequestError(f"{name} is {number!r:.80}; it must be a whole number of at least 0")
    return number


def checked_flag(name: str, value: object) -> bool:
    """True or False. Raises ``InvalidRequestError`` for anything else, such as the text "no"."""
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{name} is {value!r:.80}; it must be True or False")
    return value


def checked_share(name: str, number: object) -> float:
    """A number from 0 to 1. Raises ``InvalidRequestError`` for anything else."""
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise InvalidRequestError(f"{name} is {number!r:.80}; it must be a number from 0 to 1")
    return float(number)


def checked_rate(rate: Any) -> float:
    """A number from 0 to 1e6. Raises ``InvalidRequestError`` for anything else."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= RATE_MAX:
        raise InvalidRequestError(f"exploration_rate is {rate!r:.80}; it must be a number from 0 to {RATE_MAX:g}")
    return float(rate)


def checked_seconds(seconds: Any) -> float:
    """How long suggestions are waited for, above 0. Raises ``InvalidRequestError`` for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= SECONDS_MAX:
        raise InvalidRequestError(
            f"generation_timeout_seconds is {seconds!r:.80}; it must be a number above 0, at most {SECONDS_MAX:g}"
        )
    return float(seconds)
