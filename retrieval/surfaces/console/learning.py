"""The Learning view: rising items, the gain and cost of exploration, items' rewards, and the replay of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import htpy as h
from starlette.routing import Route

from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import RetrievalError
from retrieval.domain.records.recorded import RecordedRetrieval
from retrieval.engine.replay import Replay
from retrieval.surfaces.console.frame import Visit, empty, notice, page, problem_box, shown_value, table, view
from retrieval.surfaces.console.plots import (
    Series,
    bars,
    figure,
    legend,
    lines,
    literal,
    sql_of,
    sql_of_hits,
    stacked_bar,
    timings,
    told_apart,
)
from retrieval.surfaces.console.profiles import comparing

_BARS, _LINES = 12, 4
_ROWS, _EVENTS, _SEARCHES = 1000, 10_000, 25

Row = Mapping[str, Any]


async def learning(visit: Visit) -> h.Node:
    """The figures of a collection's feedback, and its recorded searches."""
    if not visit.said("collection"):
        return await page(visit, "Learning", empty("Choose a collection."))
    collection = await visit.collection()
    return await page(visit, "Learning", [
        h.div(".two")[
            await _rising(visit, collection.name), await _exploration(visit, collection.name),
            await _arms(visit, collection.name), await _over_time(visit, collection.name),
        ],
        await _contexts(visit, collection.name),
        comparing(visit, await collection.profiles(limit=50)),
        h.div("#models")[await _models(visit, collection)],
        await _searches(visit, collection),
    ])  # fmt: skip


def _named(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The rows, with the titles of their items."""
    names = told_apart([str(row["title"] or row["item_id"]) for row in rows], [row["item_id"] for row in rows])
    return list(zip(names, rows, strict=True))


async def _rising(visit: Visit, name: str) -> h.Node:
    found = await visit.platform.analytics("rising_items", collection=name, limit=_ROWS)
    by_change = sorted(found, key=lambda row: row["used_before"] - row["used"])
    rising = [row for row in by_change if row["rise"] > 1][:_BARS]
    sinking = [row for row in reversed(by_change) if row["rise"] < 1][:_BARS]
    drawing = [
        [h.h3[kind], bars(f"{kind} items: verdicts in 14 days {word} than in the 14 before", change)]
        for kind, word, rows in (("Rising", "more", rising), ("Sinking", "fewer", sinking))
        if (change := {said: float(abs(row["used"] - row["used_before"])) for said, row in _named(rows)})
    ]
    none = h.p(".hint")["No item was used more often, or less, in the last 14 days than in the 14 before."]
    title = "Rising and sinking items: verdicts of the last 14 days against the 14 before"
    return figure(title, drawing or none, found.columns, found.values, sql_of("rising_items", name))


async def _exploration(visit: Visit, name: str) -> h.Node:
    found = await visit.platform.analytics("exploration", collection=name)
    days = [row for row in found if row["day"] is not None]
    whole = next((row for row in found if row["day"] is None), None)
    if not any(row["explored"] for row in found):
        drawing: h.Node = h.p(".hint")[
            "Nothing was explored in the last 28 days; the profile says whether anything is."
        ]
    else:
        series = [
            Series("share of what was shown to explore", [_number(row["explored_share"]) for row in days]),
            Series("its price: reward given up by an explored hit", *_interval(days, "cost", "cost_se")),
        ]
        drawing = lines("Exploration by day", [f"{row['day']:%d %b}" for row in days], series)
    said = None
    if whole is not None and whole["cost"] is not None:
        said = h.p[
            f"In all {whole['explored_share']:.1%} was explored; an explored hit earned {abs(whole['cost']):.3f} ",
            "less." if whole["cost"] >= 0 else "more.",
        ]
    title = "Exploration: its share, and its price"
    return figure(title, [drawing, said], found.columns, found.values, sql_of("exploration", name))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _interval(rows: Sequence[Row], name: str, error: str) -> tuple[list[float | None], ...]:
    """The values with the ends of their 95 % intervals."""
    every = [(_number(row[name]), _number(row[error])) for row in rows]
    ends = [
        [None if value is None or spread is None else value + side * 1.96 * spread for value, spread in every]
        for side in (-1, 1)
    ]
    return ([value for value, _ in every], *ends)


async def _arms(visit: Visit, name: str) -> h.Node:
    found = await visit.platform.analytics("usage", collection=name, limit=_ROWS)
    rows = _named([row for row in found if not row["context"] and row["uses"]][:_BARS])
    links = [
        h.li[h.a(href=visit.url("/learning/item", collection=name, id=row["item_id"]))[said]] for said, row in rows
    ]
    more = h.details[h.summary["The events behind them"], h.ul[links]] if links else None
    values, low, high = (
        {said: float(row[column]) for said, row in rows} for column in ("success_rate", "success_low", "success_high")
    )
    drawing = bars("Share of good verdicts", values, low=low, high=high) if rows else _NO_FEEDBACK
    title = "How items fared: share of good verdicts, with 95 % intervals"
    return figure(title, [drawing, more], found.columns, found.values, sql_of("usage", name))


_NO_FEEDBACK = h.p(".hint")["There is no feedback yet: say under Search which hits are helpful."]


async def _over_time(visit: Visit, name: str) -> h.Node:
    found = await visit.platform.analytics("usage_by_day", collection=name, limit=_ROWS)
    whole = [row for row in found if not row["context"]]
    days = sorted({row["day"] for row in whole})
    latest = list({row["item_id"]: row for row in whole}.values())[:_LINES]
    known = {(row["item_id"], row["day"]): row for row in whole}
    series = [
        Series(said, *(_filled([known.get((row["item_id"], day), {}).get(column) for day in days]) for column in
                       ("success_rate", "success_low", "success_high")))
        for said, row in _named(latest)
    ]  # fmt: skip
    drawing: h.Node = _NO_FEEDBACK
    if series:
        label = "Share of good verdicts since the first day, of the most used items"
        drawing = lines(label, [f"{day:%d %b}" for day in days], series, least=0.0, most=1.0)
    title = "The most used items over the last 28 days, with 95 % intervals"
    return figure(title, drawing, found.columns, found.values, sql_of("usage_by_day", name))


def _filled(values: Sequence[float | None]) -> list[float | None]:
    """The values of a running total; a missing value repeats the previous one."""
    last, filled = None, list[float | None]()
    for value in values:
        last = last if value is None else value
        filled.append(last)
    return filled


async def _contexts(visit: Visit, name: str) -> h.Node:
    found = await visit.platform.analytics("contexts", collection=name)
    rows = {str(row["context"] or "all feedback"): row for row in found[: _BARS + 1]}
    values = {said: float(row["reward"]) for said, row in rows.items()}
    errors = {said: 1.96 * float(row["reward_se"] or 0.0) for said, row in rows.items()}
    low = {said: max(value - errors[said], 0.0) for said, value in values.items()}
    high = {said: min(value + errors[said], 1.0) for said, value in values.items()}
    drawing = bars("Mean reward by context, with 95 % intervals", values, low=low, high=high) if rows else _NO_FEEDBACK
    title = "Reward by context, of the last 28 days"
    return figure(title, drawing, found.columns, found.values, sql_of("contexts", name))


async def _models(visit: Visit, collection: Collection) -> h.Node:
    known, used = await collection.models(), (await collection.info()).model_version
    rows = [
        (
            str(model.version),
            model.kind,
            f"{model.events:,}",
            shown_value(model.created_at),
            model.reason,
            h.span(".state.active")["in use"]
            if model.version == used
            else ("kept" if model.is_published else "not used"),
        )
        for model in known
    ]
    learn = h.form(hx_post=visit.url("/learning/learn"), hx_target="#models", hx_sync="this:drop")[
        h.input(type="hidden", name="collection", value=collection.name),
        h.button(".quiet", type="submit")["Learn from the feedback now"],
    ]
    return h.section(".card")[
        h.div(".row")[h.h2["What was learned"], learn if visit.may(Scope.ADMIN) else None],
        table(("version", "kind", "verdicts", "made", "why", "state"), rows, caption="Models of the learned reward")
        if rows
        else h.p["No model has been fitted yet."],
    ]


async def learn(visit: Visit) -> h.Node:
    """Fit a model on the feedback now; it is used if it is better."""
    collection = await visit.collection()
    done = await collection.learn()
    return [notice(str(done.get("reason") or "Done.")), await _models(visit, collection)]


async def _searches(visit: Visit, collection: Collection) -> h.Node:
    found = await collection.retrievals(limit=_SEARCHES, before=visit.said("before") or None)
    rows = [
        (
            shown_value(retrieval.retrieved_at),
            h.a(href=visit.url("/learning/search", collection=collection.name, id=retrieval.retrieval_id))[
                retrieval.query or "(by a vector)"
            ],
            str(retrieval.hits),
            f"{retrieval.retrieval_time_ms:.0f}",
            retrieval.path,
            str(retrieval.profile_version or "its own"),
        )
        for retrieval in found
    ]
    if not rows:
        return h.section(".card")[h.p["No search is recorded yet."]]
    more = visit.url("/learning", collection=collection.name, before=found[-1].retrieval_id)
    return h.section(".card")[
        table(("when", "question", "hits", "ms", "path", "profile"), rows, caption="Recorded searches"),
        h.nav(".pages", aria_label="Pages")[
            h.a(href=more, rel="next")["Earlier ones"] if len(found) == _SEARCHES else None
        ],
    ]  # fmt: skip


async def item(visit: Visit) -> h.Node:
    """The events of one item: its impressions and its rewards."""
    collection, key = await visit.collection(), visit.said("id")
    found = await visit.platform.analytics("rated", collection=collection.name, limit=_EVENTS)
    rows = sorted((row for row in found if row["item_id"] == key), key=lambda row: row["retrieved_at"])
    standing = (await collection.standings([key])).get(key) if key else None
    summary = (
        f"{standing.uses} verdicts, {standing.successes} of them good." if standing else "It is not stored any more."
    )
    places = [f"{row['retrieved_at']:%d %b %H:%M}" for row in rows]
    drawing = (
        lines(
            "Rewards by event", places, [Series("reward", [float(row["reward"]) for row in rows])], least=0.0, most=1.0
        )
        if rows
        else h.p(".hint")["No recorded search that showed it was rated."]
    )
    shown = [tuple(row.values()) for row in rows]
    sql = f"{sql_of('rated', collection.name)} AND item_id = {literal(key)}\nORDER BY retrieved_at"
    links = [
        h.li[
            h.a(href=visit.url("/learning/search", collection=collection.name, id=row["retrieval_id"]))[
                shown_value(row["retrieved_at"])
            ],
            f": rank {row['rank']}, reward {row['reward']:.3g}",
        ]
        for row in rows[-_BARS:]
    ]
    cut = f"Only the last {_EVENTS:,} rated hits of the collection were looked through; the SQL reads all."
    return await page(visit, f"Feedback on {key}", [
        h.p[summary],
        h.p(".note")[cut] if len(found) == _EVENTS else None,
        figure("Rewards of this item", drawing, found.columns, shown, sql),
        h.section(".card")[h.h2["The latest searches that showed it"], h.ul[links]] if links else None,
    ], chooses=False)  # fmt: skip


async def search(visit: Visit) -> h.Node:
    """A recorded search, and its replay."""
    name = visit.said("collection")
    recorded = await visit.platform.retrieval(visit.said("id"), name)
    try:
        again: h.Node = _again(await visit.platform.replay(visit.said("id"), name))
    except RetrievalError as error:
        again = problem_box("It cannot be asked again", str(error))
    return await page(
        visit, recorded.query or "A search by a vector", [_recorded(visit, recorded), again], chooses=False
    )


def _recorded(visit: Visit, found: RecordedRetrieval) -> h.Node:
    names = list(dict.fromkeys(part for impression in found.impressions for part in impression.signals))
    facts = {
        "when": shown_value(found.retrieved_at), "collection": found.collection,
        "profile": str(found.profile_version or "its own"), "model": str(found.model_version or "none"),
        "policy": found.policy, "path": found.path, "filter": shown_value(dict(found.where)),
        "candidates": f"{found.candidates:,}",
    }  # fmt: skip
    rows = [
        (
            str(impression.rank),
            h.a(href=visit.url("/data/item", collection=found.collection, id=impression.item_id))[impression.item_id],
            f"{impression.score:.4f}",
            stacked_bar(_values(impression.signals), names),
            impression.slot.value,
            f"{impression.propensity:.3g}",
        )
        for impression in found.impressions
    ]
    numbers = [
        (
            impression.rank,
            impression.item_id,
            impression.score,
            *(_values(impression.signals).get(name) for name in names),
        )
        for impression in found.impressions
    ]
    columns = ("rank", "item", "score", "made of", "slot", "propensity")
    drawing = [legend(names), table(columns, rows, caption="The hits", numbers=("score",))]
    sql = sql_of_hits(found.retrieval_id)
    return [
        h.section(".card")[h.dl[((h.dt[label], h.dd[value]) for label, value in facts.items())]],
        figure("What was shown", drawing, ("rank", "item", "score", *names), numbers, sql),
        timings(found.retrieval_id, found.timings_ms, found.retrieval_time_ms),
    ]


def _values(signals: Mapping[str, Any]) -> dict[str, float]:
    """The contributions of a recorded hit; empty if its profile no longer exists."""
    return {name: float(part.get("value") or 0.0) for name, part in signals.items() if isinstance(part, Mapping)}


def _again(found: Replay) -> h.Node:
    rows = [
        (
            difference.item_id,
            shown_value(difference.rank_then),
            shown_value(difference.rank_now),
            "; ".join(difference.why),
        )
        for difference in found.differences
    ]
    return h.section(".card", aria_label="Asked again")[
        h.h2["Asked again"],
        h.p["Its ranking follows from its record." if found.is_reproduced else "; ".join(found.why_not)],
        h.p["Today's answer is the same."] if found.is_same_today else [
            (h.p(".note")[change] for change in found.changes),
            table(("item", "rank then", "rank now", "why"), rows, caption="What differs today"),
        ],
    ]  # fmt: skip


ROUTES: tuple[Route, ...] = (
    view("/learning", learning, needs=Scope.READ),
    view("/learning/item", item, needs=Scope.READ),
    view("/learning/search", search, needs=Scope.READ),
    view("/learning/learn", learn, needs=Scope.ADMIN, method="POST"),
)
