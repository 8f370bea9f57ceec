"""The store of principles: additions, changes, verdicts and figures.

A verdict is feedback; verdicts on a candidate may make it active or archive it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Self
from uuid import UUID, uuid4

from retrieval.apps.principles import principle as choosing
from retrieval.apps.principles import search, traces
from retrieval.apps.principles.principle import FoundPrinciple, Principle
from retrieval.apps.principles.search import FoundPrinciples
from retrieval.apps.principles.traces import Outcome, Trace
from retrieval.apps.probation import ACTIVE, ARCHIVED, CANDIDATE, status_after
from retrieval.collection import Collection, handle_of
from retrieval.domain.api_key import ApiKey
from retrieval.domain.checks import check_flags, check_text, checked_limit, checked_number, checked_positive, written
from retrieval.domain.errors import InvalidItemError, InvalidRequestError, UnknownFieldError, UnknownItemError
from retrieval.domain.items.collection import ValueCount
from retrieval.domain.items.item import Item
from retrieval.domain.learning.arm import Standing
from retrieval.domain.learning.context import MAX_NAME_LENGTH, Context
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.filters import Where
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import Profile
from retrieval.domain.serialization import Serializable
from retrieval.engine.collection_handle import FRESH_SECONDS
from retrieval.engine.learning import standings_where
from retrieval.engine.plan import default_profile
from retrieval.engine.profiles import change_profile
from retrieval.engine.request import checked_item_ids, checked_words
from retrieval.platform import Platform, checked_platform
from retrieval.services.items import add_new, set_status


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipleStats(Serializable):
    """Counts over all principles."""

    serialized_properties = ("success_rate",)

    active: int
    candidates: int
    archived: int
    """Candidates that failed."""
    untested: int
    """Principles in use without verdicts."""
    under_tested: int
    """Principles in use with fewer than 5 verdicts, including untested ones."""
    uses: int
    """The verdicts on all principles."""
    successes: int
    tags: int
    """The distinct tags of principles in use."""

    @property
    def success_rate(self) -> float | None:
        """The share of good verdicts, 0 to 1; None: there are none."""
        return self.successes / self.uses if self.uses else None


def stats_of(principles: Iterable[Principle]) -> PrincipleStats:
    """The counts."""
    every = list(principles)
    in_use = [principle for principle in every if principle.status in choosing.IN_USE]
    return PrincipleStats(
        active=sum(principle.status == ACTIVE for principle in every),
        candidates=sum(principle.status == CANDIDATE for principle in every),
        archived=len(every) - len(in_use),
        untested=sum(principle.use_count == 0 for principle in in_use),
        under_tested=sum(principle.use_count < choosing.FEWER_USES_THAN for principle in in_use),
        uses=sum(principle.use_count for principle in every),
        successes=sum(principle.success_count for principle in every),
        tags=len({tag for principle in in_use for tag in principle.tags}),
    )


class PrincipleScore(NamedTuple):
    """A principle with its score."""

    principle: Principle
    score: float
    """(successes + 1) / (uses + 2)."""


_UNCHOSEN = "the default"
"""The beginning of the notes of profiles that nobody has set."""


async def principles_collection(platform: Platform, name: str = choosing.COLLECTION) -> Collection:
    """The collection of that name, ranked by use, tags and meaning; created if missing.

    If it holds only principles, and nobody has set its profile, it gets the one for collections with or without
    vectors.
    """
    collection = await platform.collection(name, profile=search.PRINCIPLES_PROFILE)
    space = await collection.space()
    profile, kind = (search.WORDS_PROFILE, "without") if space is None else (search.PRINCIPLES_PROFILE, "with")
    settings = handle_of(collection).stored
    default = default_profile(space, settings.text_search_config)
    # Compares the stored forms, which ignore the order of signals.
    others = [
        other.as_dict() for other in (search.PRINCIPLES_PROFILE, search.WORDS_PROFILE, default) if other is not profile
    ]

    def is_unchosen(used: Profile, note: str) -> bool:
        return note.startswith(_UNCHOSEN) and used.as_dict() in others

    if is_unchosen(settings.profile, settings.profile_note) and all(
        count.value == choosing.KIND for count in await collection.value_counts("kind")
    ):
        await change_profile(
            handle_of(collection),
            lambda used: profile if is_unchosen(used.profile, used.note) else used.profile,
            f"{_UNCHOSEN} {kind} vectors",
        )
    return collection


class PrincipleStore:
    """The principles of one collection, and the traces of another; the first call makes both collections."""

    def __init__(
        self, db: Platform, collection: str = choosing.COLLECTION, *, chance: random.Random | None = None
    ) -> None:
        """``chance`` draws the explored principles."""
        self._platform = checked_platform("db", db)
        self._name = collection
        self._chance = chance or random.Random()  # noqa: S311 - for exploration, not for secrets
        self._cached_collection: Collection | None = None
        self._cached_traces: Collection | None = None

    @classmethod
    async def open(cls, db: Platform, name: str = choosing.COLLECTION, *, chance: random.Random | None = None) -> Self:
        """The store, after making its collection."""
        store = cls(db, name, chance=chance)
        await store.prepare()
        return store

    async def prepare(self) -> None:
        """Make the collection, unless it exists."""
        await self._collection()

    async def add_principle(
        self,
        title: str,
        body: str = "",
        tags: Sequence[str] = (),
        *,
        principle_id: str | None = None,
        status: str = ACTIVE,
        actor: str = "",
    ) -> Principle:
        """Store a principle, and return the stored one.

        ``status``: ``active``, or ``candidate`` for a principle that has to prove itself first. ``principle_id``: the
        application's own key; a known key replaces texts and status, and keeps verdicts and age. By default the key is
        made from the text, and a known text returns the stored principle unchanged. ``actor`` is its author. Raises
        ``InvalidRequestError``.
        """
        now, own_tags = self._platform.now, choosing.normalised_tags(tags)
        item = choosing.principle_item(principle_id, title, body, own_tags, status, actor=actor, created_at=now)
        key, collection = item.item_id, await self._collection()
        stored = (await self.get([key])).get(key)
        if stored is None:
            try:
                await add_new(handle_of(collection), item)
            except InvalidItemError:  # invalid, or stored by another caller meanwhile
                stored = (await self.get([key])).get(key)
                if stored is None:
                    raise
        if stored is not None:
            if principle_id is None:
                return stored
            await collection.add([item.changed(occurred_at=stored.created_at)])
        return (await self.get([key]))[key]

    async def get(self, principle_ids: str | Sequence[str]) -> dict[str, Principle]:
        """The existing principles of those ids, or of one id, by id, in the order of the ids; archived ones too."""
        keys = list(dict.fromkeys(checked_item_ids(principle_ids)))
        stored = await (await self._collection()).get(keys)
        items = [stored[key] for key in keys if key in stored and stored[key].kind == choosing.KIND]
        return {principle.id: principle for principle in await self._principles(items)}

    async def get_all_principles(self) -> list[Principle]:
        """Every principle in use, candidates too, by id."""
        return await self._all(*choosing.IN_USE)

    async def search_principles(
        self,
        query: str | None = None,
        tags: Sequence[str] | None = None,
        *,
        limit: int = 5,
        min_principle_score: float = choosing.MIN_PRINCIPLE_SCORE,
        include_exploration: bool = False,
        session: str = "",
        actor: str = "",
    ) -> FoundPrinciples:
        """The ``limit`` best by principle score + 0.1 × each matching tag + 2 × similarity of meaning.

        The principles are active, have at least one of the ``tags`` if there are some, and a principle score of at
        least ``min_principle_score``. With ``include_exploration``, up to two with few verdicts follow, also
        candidates, marked as exploration. ``limit``: 1 to 1000. Raises ``InvalidRequestError``, ``InvalidLimitError``.
        """
        check_flags(include_exploration=include_exploration)
        distinct_tags = choosing.normalised_tags(tags)
        where = search.proven(distinct_tags, checked_number("min_principle_score", min_principle_score))
        words = checked_words(query, self._platform.settings.search_bounds)
        most, context = checked_limit(limit, search.MOST_FOUND), Context(session=session, actor=actor)
        stored = await self._collection()
        collection = stored
        if include_exploration:
            # The unrecorded collection uses what this refresh reads.
            await stored.refresh(older_than_seconds=FRESH_SECONDS)
            collection = stored.unrecorded()
        result = await collection.search(
            words, tags=distinct_tags, where=where, limit=most, context=context, syntax=False
        )
        if not include_exploration:
            return FoundPrinciples(await self._found(result), retrieval_id=result.retrieval_id, notes=result.notes)
        picks = await self._picks(words, distinct_tags, [hit.item_id for hit in result])
        ids = [pick.item_id for pick in picks]
        # With the profile's scores, which are comparable with those of other hits.
        explored = (
            await collection.search(words, tags=distinct_tags, where={"item_id": ids}, limit=len(ids), syntax=False)
            if ids
            else None
        )
        found = await self._found([*result, *(explored or ())])
        shown = [*found[: len(result)], *choosing.with_propensities(found[len(result) :], picks)]
        retrieval_id = await stored.record_answer(
            words,
            [
                principle.shown_item({part.leg: part.raw_score for part in principle.explanation.contributions})
                for principle in shown
                if principle.explanation is not None
            ],
            context=context,
            origin=search.ORIGIN,
            retrieval_time_ms=sum(answer.timings_ms.get("total", 0.0) for answer in (result, explored) if answer),
            notes=result.notes,
        )
        return FoundPrinciples(shown, retrieval_id=retrieval_id, notes=result.notes)

    async def record_usage(
        self,
        principle_id: str,
        trace_id: str | None = None,
        was_helpful: bool = True,  # noqa: FBT001, FBT002 - the position is part of the public interface
        *,
        retrieval_id: UUID | str | None = None,
        note: str = "",
        session: str = "",
        actor: str = "",
        api_key: ApiKey | None = None,
    ) -> Principle:
        """Store a verdict on a principle, and return the principle. It may make a candidate active, or archive it.

        The latest verdict of a session counts, or of a trace if no session is named; without either, each verdict
        counts. The verdict is on the answer ``retrieval_id``, else on the latest of the session's last 20 answers that
        showed the principle, else on the principle itself. It does not count on an answer that did not show the
        principle, nor beyond the cap of its ``api_key``. Raises ``UnknownItemError``, ``UnknownRetrievalError``, and
        ``InvalidRequestError``.
        """
        check_flags(was_helpful=was_helpful)
        check_text("trace_id", "" if trace_id is None else trace_id, MAX_NAME_LENGTH)
        await self._item(principle_id)  # ``feedback_each`` would accept an item of another kind
        shown_by = retrieval_id
        if shown_by is None and session:
            answers = await (await self._collection()).answers_of(session)
            showed = (answer for answer in answers if any(hit.item_id == principle_id for hit in answer.hits))
            shown_by = next((answer.retrieval_id for answer in showed), None)
        if session and trace_id is not None:
            note = f"trace {trace_id}: {note}".rstrip(": ")
        session = session or trace_id or ""
        has_subject = bool(session) or shown_by is not None
        event = Feedback(
            collection=None if shown_by is not None else self._name,
            retrieval_id=shown_by,
            item_id=principle_id,
            helpful=was_helpful,
            note=note,
            # Without a session, a later verdict of the same actor would replace the earlier one.
            session=session or ("" if has_subject or not actor else f"usage {uuid4()}"),
            actor=actor,
            of_session=True,
        )
        try:
            await self._platform.feedback_each([event], api_key=api_key, new=True)
        except UnknownItemError:
            raise self._unknown(principle_id) from None
        return await self.settle(principle_id)

    async def settle(self, principle_id: str) -> Principle:
        """Accept or archive a candidate by its verdicts, and return the principle.

        ``record_usage`` calls it; call it after verdicts by ``platform.feedback``. Raises ``UnknownItemError``.
        """
        principle = await self._principle(principle_id)
        status = status_after(principle.use_count, principle.success_count)
        if principle.status != CANDIDATE or status is None:
            return principle
        # Only one of several simultaneous callers changes it.
        await set_status(handle_of(await self._collection()), principle_id, status, was=CANDIDATE)
        return await self._principle(principle_id)

    async def get_exploratory_principles(self, count: int = 2, tags: Sequence[str] | None = None) -> list[Principle]:
        """``count`` (1 to 1000) eligible principles (see ``is_eligible``), candidates too, with any of the ``tags``.

        Each gets a draw from Beta(successes + 1, failures + 1); those with the highest draws are returned.
        """
        checked_limit(count, search.MOST_FOUND, name="count")
        where = search.little_known(choosing.normalised_tags(tags), self._platform.now)
        picks = choosing.thompson(await self._eligible(where), count, self._chance, rows=1)
        principles = await self.get([pick.item_id for pick in picks])
        return list(principles.values())

    async def get_principle_scores(self) -> list[PrincipleScore]:
        """Every active principle with its score, the best first; then by id."""
        best = sorted(await self._all(ACTIVE), key=lambda principle: (-principle.score, principle.id))
        return [PrincipleScore(principle, principle.score) for principle in best]

    async def list_tags(self) -> list[ValueCount]:
        """The tags of the principles in use, each with its number of principles, the most frequent first."""
        where = {"kind": choosing.KIND, "status": list(choosing.IN_USE)}
        return await (await self._collection()).value_counts("tags", where=where)

    async def stats(self) -> PrincipleStats:
        """Figures about the principles, archived ones too."""
        return stats_of(await self._all(*choosing.IN_USE, ARCHIVED))

    async def loaded(self, session_id: str) -> FoundPrinciples:
        """The principles of a session's last recorded start, in their order; empty if it was not recorded.

        Removed principles are left out. Raises ``InvalidRequestError`` for an empty session.
        """
        collection = await self._collection()
        answers = await collection.answers_of(session_id, origin=choosing.SESSION_START, limit=1)
        if not answers:
            return FoundPrinciples(())
        principles = await self.get([hit.item_id for hit in answers[0].hits])
        found = [
            FoundPrinciple(
                principle=principles[hit.item_id], score=hit.score, is_exploratory=hit.slot is Slot.EXPLORE,
                propensity=hit.propensity, rank_propensity=hit.rank_propensity,
            )
            for hit in answers[0].hits
            if hit.item_id in principles
        ]  # fmt: skip
        return FoundPrinciples(found, retrieval_id=answers[0].retrieval_id)

    async def add_trace(
        self,
        title: str,
        tags: Sequence[str] = (),
        outcome: Outcome | str = "success",
        at: datetime | None = None,
        *,
        note: str = "",
        trace_id: str | None = None,
        session: str = "",
    ) -> Trace:
        """Store the trace of a session: its outcome (``success``, ``failure`` or another word) and its tags.

        ``at`` is the end of the session, with a time zone; default: now. A known ``trace_id`` replaces the stored
        trace. Raises ``InvalidRequestError``.
        """
        check_text("session", session, MAX_NAME_LENGTH)
        if note and isinstance(outcome, Outcome):
            raise InvalidRequestError("the outcome has a note of its own; give it as Outcome(status=..., note=...)")
        now = self._platform.now
        trace = Trace(
            id=str(uuid7(int(now.timestamp() * 1000), self._chance)) if trace_id is None else trace_id,
            title=title,
            tags=choosing.normalised_tags(tags),
            outcome=outcome if isinstance(outcome, Outcome) else Outcome(status=outcome, note=note),
            at=now if at is None else at,
            session=session,
        )
        await (await self._traces()).add([trace.item()])
        return trace

    async def search_traces(
        self, limit: int = 20, time_range: search.TimeBounds | None = None, status: str | None = None
    ) -> list[Trace]:
        """The latest traces, the latest first, within the time and of that outcome. ``limit`` is 1 to 1000.

        Raises ``InvalidLimitError``, ``InvalidRequestError``.
        """
        most, where = checked_limit(limit, search.MOST_FOUND), search.traces_filter(time_range, status)
        collection = await self._traces()
        try:
            hits = await collection.unrecorded().search(where=where or None, limit=most, profile=traces.LATEST_PROFILE)
        except UnknownFieldError:
            return []  # there is no trace yet
        return [traces.trace_of(hit) for hit in hits]

    async def recent_tags(self, days: float = choosing.RECENT_DAYS, most: int = choosing.RECENT_TAGS) -> list[str]:
        """The tags of the successful traces among the latest 20 of the last days, the most frequent first."""
        now = self._platform.now
        since = now - timedelta(days=checked_positive("days", days, "7", 36500))
        latest = await self.search_traces(choosing.LATEST_TRACES, (since, now))
        return choosing.frequent_tags(
            (trace.tags for trace in latest if trace.outcome.status == traces.SUCCESS),
            checked_limit(most, search.MOST_FOUND, name="most"),
        )

    async def _principle(self, principle_id: str) -> Principle:
        [principle] = await self._principles([await self._item(principle_id)])
        return principle

    async def _principles(self, items: Sequence[Item | Hit]) -> list[Principle]:
        """The principles of the items, with their verdicts."""
        standings = await (await self._collection()).standings([item.item_id for item in items])
        return [choosing.principle_of(item, standings.get(item.item_id)) for item in items]

    async def _all(self, *statuses: str) -> list[Principle]:
        """Every principle of those statuses, by id."""
        where = {"kind": choosing.KIND, "status": list(statuses)}
        return await self._principles([item async for item in (await self._collection()).scan(where)])

    async def _found(self, hits: Sequence[Hit]) -> list[FoundPrinciple]:
        return [
            FoundPrinciple(principle=principle, score=hit.score, explanation=hit.explanation)
            for principle, hit in zip(await self._principles(hits), hits, strict=True)
        ]

    async def _picks(self, words: str, tags: Sequence[str], shown: Sequence[str]) -> list[Placed]:
        """Pick principles to explore: among the most relevant that are not shown, those with the highest draws.

        A principle without the tags may be relevant too, and would otherwise never be tried by who always gives tags.
        """
        where = {**search.little_known((), self._platform.now), "item_id": {"nin": list(shown)}}
        if not words and not tags:
            rivals = await self._eligible(where)
        else:
            collection = await self._collection()
            hits = await collection.unrecorded().search(
                words, tags=tags, where=where, limit=search.MOST_ELIGIBLE,
                profile=search.relevance_only(collection.profile), syntax=False,
            )  # fmt: skip
            standings = await collection.standings([hit.item_id for hit in hits])
            rivals = [standings[hit.item_id] for hit in hits if hit.item_id in standings]
        # An answer has at most ``MOST_FOUND`` principles.
        return choosing.thompson(rivals, min(choosing.SLOTS, search.MOST_FOUND - len(shown)), self._chance)

    async def _eligible(self, where: Where) -> list[Standing]:
        """All principles that match the filter, by id, without reading their texts."""
        return await standings_where(handle_of(await self._collection()), where)

    async def _item(self, principle_id: str) -> Item:
        item = (await (await self._collection()).get([principle_id])).get(principle_id)
        if item is None or item.kind != choosing.KIND:
            raise self._unknown(principle_id)
        return item

    def _unknown(self, principle_id: str) -> UnknownItemError:
        return UnknownItemError(
            f"there is no principle {written(principle_id)} in collection {self._name!r}; "
            "give an id of an answer of search_principles, or add the principle first"
        )

    async def _collection(self) -> Collection:
        if self._cached_collection is None:
            self._cached_collection = await principles_collection(self._platform, self._name)
        return self._cached_collection

    async def _traces(self) -> Collection:
        if self._cached_traces is None:
            name = choosing.traces_name(self._name)
            self._cached_traces = await self._platform.collection(name, profile=traces.LATEST_PROFILE)
        return self._cached_traces
