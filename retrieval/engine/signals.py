"""The signals of a search's candidates: each becomes a ranking of them beside the legs'."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.memories import read_expiries
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import Found
from retrieval.adapters.store.search.facts import Candidates, FactsRequest, Known, read_facts
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.signal import Question, Signal
from retrieval.domain.search.signals import EntityOverlap, VectorSimilarity


@dataclass(frozen=True, slots=True)
class Signaller:
    """Reads the facts about the candidates of one collection."""

    database: Database
    tenant_id: int
    collection: StoredCollection

    async def signalled(
        self, each: Sequence[Found], profile: Profile, queries: Sequence[Query], now: datetime
    ) -> list[Found]:
        """The candidates of several searches by one profile, with their signals' rankings.

        A signal that a query gives nothing to compare is told too, whatever it weighs: by the record, another profile
        can be judged that weighs it. ``now`` is the clock's: an item that is gone, or has expired by then, is a
        candidate no more, whatever moment a query is asked as of.
        """
        weighing = [signal for signal in profile.signals if signal.weight]
        needs_entities = any(isinstance(signal, EntityOverlap) for signal in weighing)
        needs_vectors = any(isinstance(signal, VectorSimilarity) for signal in weighing)
        each_asked = [_asked(query, now) for query in queries]
        request = FactsRequest(
            collection_id=self.collection.collection_id,
            searches=[Candidates(_ids(found), query.vector) for found, query in zip(each, queries, strict=True)],
            read=frozenset().union(*(signal.reads for signal in weighing)),
            with_entities=needs_entities and any(query.entities for query in queries),
            space=self.collection.space if needs_vectors else None,
        )
        facts = await read_facts(self.database, self.tenant_id, request)
        return await aside(
            lambda: [
                signalled(
                    found,
                    [signal for signal in profile.signals if signal.weight or not signal.compares(asked)],
                    {item_id: candidate for item_id, candidate in known.items() if not _has_expired(candidate, now)},
                    asked,
                )
                for found, known, asked in zip(each, facts, each_asked, strict=True)
            ],
            is_long=sum(map(len, facts)) >= LONG,
        )

    async def unexpired(self, each: Sequence[Found], now: datetime) -> list[Found]:
        """The candidates of several searches that have not expired by ``now``."""
        all_ids = list(dict.fromkeys(item_id for found in each for item_id in _ids(found)))
        expiries = await read_expiries(self.database, self.tenant_id, self.collection.collection_id, all_ids)
        if not expiries:
            return list(each)
        over = {item_id for item_id, at in expiries.items() if at <= now}
        return [only(found, set(_ids(found)) - over) for found in each]


def signalled(found: Found, signals: Sequence[Signal], known: Mapping[str, Known], asked: Question) -> Found:
    """The candidates that are known, with a ranking for each signal, best first; equal values by item id. Pure."""
    kept = only(found, known)
    rankings = dict(kept.rankings)
    for signal in signals:
        values = sorted((-signal.value(candidate.facts, asked), item_id) for item_id, candidate in known.items())
        rankings[signal.key] = [
            Candidate(signal.key, item_id, rank, -value) for rank, (value, item_id) in enumerate(values, 1)
        ]
    return replace(kept, rankings=rankings)


def only(found: Found, item_ids: Container[str]) -> Found:
    """The candidates that are among these items, ranked from 1 again. Pure."""
    rankings = {
        name: [
            candidate._replace(rank=rank)
            for rank, candidate in enumerate((c for c in candidates if c.item_id in item_ids), 1)
        ]
        for name, candidates in found.rankings.items()
    }
    return replace(found, rankings=rankings, brought={name: len(some) for name, some in found.rankings.items()})


def _asked(query: Query, now: datetime) -> Question:
    return Question(
        now=query.as_of or now,
        words=query.words,
        entities=frozenset(query.entities),
        tags=frozenset(query.tags),
        has_vector=query.vector is not None,
    )


def _ids(found: Found) -> list[str]:
    return list(dict.fromkeys(candidate.item_id for candidates in found.rankings.values() for candidate in candidates))


def _has_expired(known: Known, now: datetime) -> bool:
    return known.expires_at is not None and known.expires_at <= now
