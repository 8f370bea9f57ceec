"""A principle is judged: the verdict is feedback, and a candidate's may settle what becomes of it."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from retrieval.apps.principles.principle import ACTIVE, CANDIDATE, Principle
from retrieval.apps.principles.search import PrincipleSearch
from retrieval.apps.probation import Verdict, probation
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.platform import Platform

_BECOMES: Final = {Verdict.PROVED: ACTIVE, Verdict.FAILED: "archived"}


async def record_usage(
    platform: Platform,
    search: PrincipleSearch,
    principle_id: str,
    *,
    was_helpful: bool,
    session: str,
    note: str,
    actor: str,
) -> Principle:
    """Store the verdict and give the principle as it is then. See ``PrincipleStore.record_usage``."""
    if not isinstance(was_helpful, bool):
        raise InvalidRequestError(f"was_helpful is {was_helpful!r:.80}; it must be True or False")
    try:
        await platform.feedback(
            collection=search.collection.name,
            item_id=principle_id,
            helpful=was_helpful,
            note=note,
            # One actor's verdicts without a session would be taken for changes of one mind.
            session=session or (f"usage {uuid4()}" if actor else ""),
            actor=actor,
            # Who comes back to an earlier verdict means it: without a time it would be a repetition of that one.
            at=platform.now if session else None,
        )
    except UnknownItemError:
        raise _unknown(search, principle_id) from None
    return await settled(search, await _known(search, principle_id))


async def settled(search: PrincipleSearch, one: Principle) -> Principle:
    """The principle after its probation: a candidate that proved itself becomes active, one that failed is archived.

    Of those who see it at once, one changes it; a principle that is no candidate any more stays what it is.
    """
    if one.status != CANDIDATE:
        return one
    becomes = _BECOMES.get(probation(one.use_count, one.success_count))
    if becomes is None:
        return one
    await search.collection.set_status(one.id, becomes, was=CANDIDATE)
    return await _known(search, one.id)


async def _known(search: PrincipleSearch, principle_id: str) -> Principle:
    found = await search.collection.get([principle_id])
    if principle_id not in found:
        raise _unknown(search, principle_id)
    [principle] = await search.principles([found[principle_id]])
    return principle


def _unknown(search: PrincipleSearch, principle_id: str) -> UnknownItemError:
    return UnknownItemError(
        f"there is no principle {principle_id!r:.80} in collection {search.collection.name!r}; "
        "give the id of one that search_principles shows, or add it first"
    )
