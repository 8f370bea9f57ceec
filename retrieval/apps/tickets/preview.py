"""What moves when candidates are weighed otherwise, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from retrieval.apps.tickets.answers import TIME, VECTOR, WORTH
from retrieval.apps.tickets.preview_models import MovedTicket, Weighting, WeightingPreview
from retrieval.apps.tickets.weighing import Weighed

_NAMES = {VECTOR: "similarity", WORTH: "priority", TIME: "resolution time"}
_NOTHING = 5e-4
"""A change that three digits do not show."""


def compared(
    weighting: Weighting, ranked: Sequence[Weighed], before: Sequence[Weighed], top_k: int
) -> WeightingPreview:
    """The first page of ``ranked`` against that of ``before``: the same candidates, best first."""
    earlier = {one.ticket.ticket_id: one for one in before}
    page = {one.ticket.ticket_id for one in ranked[:top_k]}
    page_before = [one.ticket.ticket_id for one in before[:top_k]]
    both = page | set(page_before)
    changes = {
        one.ticket.ticket_id: _changes(one, earlier[one.ticket.ticket_id])
        for one in ranked
        if one.ticket.ticket_id in both
    }
    usual = _means(list(changes.values()))
    moved = {
        one.ticket.ticket_id: _moved(one, earlier[one.ticket.ticket_id], changes[one.ticket.ticket_id], usual)
        for one in ranked
        if one.ticket.ticket_id in both
    }
    tickets = [moved[one.ticket.ticket_id] for one in ranked[:top_k]]
    left = [moved[ticket_id] for ticket_id in page_before if ticket_id not in page]
    entered = [one.ticket.ticket_id for one in tickets if one.ticket.ticket_id not in page_before]
    return WeightingPreview(
        weighting=weighting,
        tickets=tickets,
        entered=entered,
        left=left,
        summary=_summary(weighting, tickets, entered, left),
    )


def _changes(now: Weighed, before: Weighed) -> dict[str, float]:
    return {name: value - before.contributions[name] for name, value in now.contributions.items()}


def _means(changes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(one[name] for one in changes) for name in changes[0]} if changes else {}


def _moved(now: Weighed, before: Weighed, changes: dict[str, float], usual: Mapping[str, float]) -> MovedTicket:
    against = {name: change - usual[name] for name, change in changes.items()}
    moved = before.rank - now.rank
    return MovedTicket(
        ticket=now.ticket,
        rank=now.rank,
        rank_before=before.rank,
        moved=moved,
        contributions=now.contributions,
        changes=changes,
        against_others=against,
        why=_why(now, before, changes, against),
    )


def _why(now: Weighed, before: Weighed, changes: Mapping[str, float], against: Mapping[str, float]) -> str:
    """``up 3, from 4 to 1: priority adds 0.300 (+0.120; on average +0.050)``: what speaks most for it goes first."""
    moved = before.rank - now.rank
    if moved == 0:
        return f"stays at {now.rank}"
    sign = 1 if moved > 0 else -1
    order = sorted(against, key=lambda name: -sign * against[name])
    reasons = [name for name in order if sign * against[name] > _NOTHING]
    head = f"{'up' if moved > 0 else 'down'} {abs(moved)}, from {before.rank} to {now.rank}"
    said = [
        f"{_NAMES[name]} adds {now.contributions[name]:.3f} ({changes[name]:+.3f}; "
        f"on average {changes[name] - against[name]:+.3f})"
        for name in reasons
    ]
    return f"{head}: {', '.join(said)}" if said else f"{head}: others changed more"


def _summary(
    weighting: Weighting, tickets: Sequence[MovedTicket], entered: Sequence[str], left: Sequence[MovedTicket]
) -> str:
    moved = sum(1 for one in tickets if one.moved)
    weights = f"{weighting.name} ({weighting.vector_weight:g} similarity, {weighting.metadata_weight:g} metadata)"
    return f"{weights}: {moved} of {len(tickets)} stand elsewhere, {len(entered)} came in and {len(left)} went out"
