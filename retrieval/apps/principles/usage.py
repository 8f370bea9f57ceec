"""A principle is judged: the verdict is feedback, and a candidate's may settle what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from retrieval.apps.principles.principle import ACTIVE, CANDIDATE, KIND, Principle
from retrieval.apps.principles.search import PrincipleSearch
from retrieval.apps.probation import ProbationVerdict, probation
from retrieval.collection import handle_of
from retrieval.domain.api_key import ApiKey
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.items.item import Item
from retrieval.domain.learning.feedback import Feedback
from retrieval.platform import Platform

_BECOMES: Final = {ProbationVerdict.PROVED: ACTIVE, ProbationVerdict.FAILED: "archived"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipleUsage:
    """A verdict on a principle. Raises ``InvalidRequestError`` for one that is neither True nor False."""

    principle_id: str
    was_helpful: bool
    session: str = ""
    trace_id: str | None = None
    retrieval_id: UUID | str | None = None
    """The answer that showed it; None: the session's latest answer that did."""
    note: str = ""
    actor: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.was_helpful, bool):
            raise InvalidRequestError(f"was_helpful is {self.was_helpful!r:.80}; it must be True or False")

    def event(self, collection: str, retrieval_id: UUID | str | None, now: datetime) -> Feedback:
        """The usage as feedback on the answer that showed it, or on the item. Raises ``InvalidRequestError``."""
        stands_for = self.session or self.trace_id or ""
        told_apart = stands_for or retrieval_id is not None
        noted = self.note
        if self.session and self.trace_id is not None:
            noted = f"trace {self.trace_id}: {self.note}".rstrip(": ")
        return Feedback(
            collection=None if retrieval_id is not None else collection,
            retrieval_id=retrieval_id,
            item_id=self.principle_id,
            helpful=self.was_helpful,
            note=noted,
            # One actor's verdicts without a session would be taken for changes of one mind.
            session=stands_for or ("" if told_apart or not self.actor else f"usage {uuid4()}"),
            actor=self.actor,
            # Who comes back to an earlier verdict means it: without a time it would be a repetition of that one.
            at=now if told_apart else None,
            of_session=True,
        )


async def record_usage(
    platform: Platform, search: PrincipleSearch, usage: PrincipleUsage, api_key: ApiKey | None = None
) -> Principle:
    """Store the verdict and give the principle as it is then. See ``PrincipleStore.record_usage``."""
    name = usage.principle_id
    await _checked_item(search, name)  # of another kind, an item would be judged as well
    shown_by = usage.retrieval_id
    if shown_by is None and usage.session:
        shown_by = await _latest_that_showed(search, name, usage.session)
    try:
        await platform.feedback_each([usage.event(search.collection.name, shown_by, platform.now)], api_key=api_key)
    except UnknownItemError:
        raise _unknown(search, name) from None
    return await settle(search, name)


async def settle(search: PrincipleSearch, principle_id: str) -> Principle:
    """The principle after its probation. See ``PrincipleStore.settle``."""
    return await settled(search, await _known(search, principle_id))


async def settled(search: PrincipleSearch, one: Principle) -> Principle:
    """The principle after its probation: a candidate that proved itself becomes active, one that failed is archived.

    Of those who see it at once, one changes it; a principle that is no candidate any more stays what it is.
    """
    if one.status != CANDIDATE:
        return one
    from retrieval.services.items import set_status

    becomes = _BECOMES.get(probation(one.use_count, one.success_count))
    if becomes is None:
        return one
    await set_status(handle_of(search.collection), one.id, becomes, was=CANDIDATE)
    return await _known(search, one.id)


async def _latest_that_showed(search: PrincipleSearch, principle_id: str, session: str) -> UUID | None:
    answers = await search.collection.answers_of(session)
    return next(
        (answer.retrieval_id for answer in answers if any(hit.item_id == principle_id for hit in answer.hits)), None
    )


async def _known(search: PrincipleSearch, principle_id: str) -> Principle:
    [principle] = await search.principles([await _checked_item(search, principle_id)])
    return principle


async def _checked_item(search: PrincipleSearch, principle_id: str) -> Item:
    found = (await search.collection.get([principle_id])).get(principle_id)
    if found is None or found.kind != KIND:
        raise _unknown(search, principle_id)
    return found


def _unknown(search: PrincipleSearch, principle_id: str) -> UnknownItemError:
    return UnknownItemError(
        f"there is no principle {principle_id!r:.80} in collection {search.collection.name!r}; "
        "give the id of one that search_principles shows, or add it first"
    )
