"""The Profiles view: the versions, the comparison of two versions, and the choice of the active one."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import htpy as h
from starlette.routing import Route

from retrieval.collection import Collection
from retrieval.domain.api_key import Scope
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import MAX_VERSION, Profile, StoredProfile
from retrieval.services.compare import ProfileComparison, compare_profiles, named_profile
from retrieval.services.evaluate import Report, evaluate, parse_metrics
from retrieval.services.judgements import missing_items, read_pairs
from retrieval.surfaces.console.frame import Visit, empty, notice, page, shown_value, table, view
from retrieval.surfaces.console.plots import bars, interval, stored_figure

_METRICS = "nDCG@10,R@10,MRR@10"
_MOST_JUDGED = 500
"""The most judged queries of a comparison, which must end within a request's deadline."""
_DAYS, _MOST_DAYS = 28.0, 3650.0


async def profiles(visit: Visit) -> h.Node:
    """The versions, their rewards, and the form that compares two."""
    if not visit.text("collection"):
        return await page(visit, "Profiles", empty("Choose a collection."))
    collection = await visit.collection()
    return await page(visit, "Profiles", [
        h.p[
            "A profile says how a collection is searched. ",
            "Create a new version by changing the weights under ",
            h.a(href=visit.url("/search", collection=collection.name))["Search"],
            ", and compare it here before you use it.",
        ],
        h.div("#versions")[await _versions(visit, collection)],
        comparing(visit, await collection.profiles(limit=50)),
        await _rewards(visit, collection),
    ])  # fmt: skip


async def _versions(visit: Visit, collection: Collection) -> h.Node:
    stored = await collection.profiles(limit=50)
    columns = ("version", "weights", "fusion", "note", "created", "state")
    rows = [
        (
            str(version.version),
            ", ".join(f"{name} {weight:g}" for name, weight in version.profile.weights.items()),
            version.profile.fusion.kind.value,
            version.note or "–",
            shown_value(version.created_at),
            _state(visit, collection, version),
        )
        for version in stored
    ]
    return h.section(".card")[table(columns, rows, caption=f"The versions of {collection.name}, the newest first")]


def _state(visit: Visit, collection: Collection, profile: StoredProfile) -> h.Node:
    if profile.is_active:
        return h.span(".state.active")["in use"]
    if not visit.may(Scope.ADMIN):
        return "–"
    return h.form(method="post", action=visit.url("/profiles/use"), hx_post=visit.url("/profiles/use"),
                  hx_target="#versions", hx_sync="this:drop")[
        h.input(type="hidden", name="collection", value=collection.name),
        h.button(".quiet", type="submit", name="version", value=str(profile.version),
                 aria_label=f"Use version {profile.version}")["Use this one"],
    ]  # fmt: skip


async def use(visit: Visit) -> h.Node:
    """Use another version, newer or older."""
    collection = await visit.collection()
    version = int(visit.number("version", 0, 1, MAX_VERSION))
    await collection.use_profile(version)
    await collection.refresh()
    done = notice(f"Searches of the collection now use version {version}.")
    return [done, await _versions(visit, collection)]


def comparing(visit: Visit, stored: Sequence[StoredProfile]) -> h.Node:
    """The form that compares two versions, and the element for its result."""
    versions = [version.version for version in stored]
    active = next((version.version for version in stored if version.is_active), versions[0])
    other = next((version for version in versions if version != active), active)
    first, against = max(active, other), min(active, other)
    return h.section(".card")[
        h.h2["Compare two versions"],
        h.form(method="post", action=visit.url("/profiles/compare"), hx_post=visit.url("/profiles/compare"),
               hx_target="#compared")[
            h.input(type="hidden", name="collection", value=visit.text("collection")),
            h.div(".cards")[
                _version("first", "Version", versions, first),
                _version("against", "against", versions, against),
                h.div[h.label(for_="days")["Recorded in the last days"],
                      h.input("#days", type="number", name="days", value=f"{_DAYS:g}", min="1", max=f"{_MOST_DAYS:g}")],
            ],
            h.details[
                h.summary["On judged queries instead of recorded searches"],
                h.label(for_="judged")["CSV with the columns query and expected_id; the first line names them"],
                h.textarea("#judged", name="judged", placeholder="query,expected_id\nconnection timeout,13411721"),
            ],
            h.p[h.button(type="submit")["Compare"]],
        ],
        h.div("#compared", aria_live="polite"),
    ]  # fmt: skip


def _version(name: str, label: str, versions: Sequence[int], chosen: int) -> h.Node:
    options = [h.option(value=str(version), selected=version == chosen)[str(version)] for version in versions]
    return h.div[h.label(for_=name)[label], h.select(f"#{name}", name=name)[options]]


async def compare(visit: Visit) -> h.Node:
    """Compare two versions on recorded searches, or on judged queries."""
    collection = await visit.collection()
    stored = await collection.refresh()
    names = [visit.text("first"), visit.text("against")]
    if not all(name.isdecimal() for name in names):
        raise InvalidRequestError("choose two versions of the profile")
    database, tenant_id = visit.platform.database, visit.platform.tenant_id
    first, against = [await named_profile(database, tenant_id, stored, name) for name in names]
    if visit.text("judged").strip():
        content = await _on_judged(visit, collection, {first.name: first.profile, against.name: against.profile})
    else:
        since = visit.platform.now - timedelta(days=visit.number("days", _DAYS, 1, _MOST_DAYS))
        content = _on_recorded(await compare_profiles(database, tenant_id, stored, first, against, since=since))
    return content if visit.is_part else await page(visit, "Profiles", content)


def _on_recorded(comparison: ProfileComparison) -> h.Node:
    first, against = comparison.profile, comparison.against
    return [
        h.p[h.strong[comparison.verdict.text]],
        h.p(".hint")[
            f"{comparison.searches:,} recorded searches, {comparison.changed:,} of them with another answer. ",
            " ".join(f"Left out: {searches:,}: {reason}." for reason, searches in comparison.left_out.items()),
        ],
        _estimates(comparison) if comparison.estimates else None,
        table(
            ("", "searches", "rated hits", "effective sample", "mean weight", "largest weight", "without support"),
            [
                (name, f"{weighing.retrievals:,}", f"{weighing.rated:,}", _figure(weighing.effective_sample_size),
                 _figure(weighing.mean_weight), _figure(weighing.max_weight), _figure(100 * weighing.unsupported, " %"))
                for name, weighing in zip((first, against), comparison.weighings, strict=True)
            ],
            caption=f"The evidence of the recorded searches about {first} and {against}",
        ),
    ]  # fmt: skip


def _estimates(comparison: ProfileComparison) -> h.Node:
    first, against = comparison.profile, comparison.against
    rows = [
        (f"{estimate.estimator.value.upper()}{', clipped' if estimate.is_clipped else ''}",
         estimate.first.text(), estimate.second.text(), estimate.difference.text())
        for estimate in comparison.estimates
    ]  # fmt: skip
    return table(("estimator", first, against, "difference"), rows, caption="Mean reward of a hit, with 95 % intervals")


def _figure(value: float, unit: str = "") -> str:
    return "–" if math.isnan(value) else f"{value:,.3g}{unit}"


async def _on_judged(visit: Visit, collection: Collection, profiles: Mapping[str, Profile]) -> h.Node:
    if len(profiles) < 2:
        raise InvalidRequestError("choose two different versions to compare them on judged queries")
    with tempfile.TemporaryDirectory(prefix="retrieval-console-") as folder:
        file = Path(folder) / "judged.csv"
        file.write_text(visit.text("judged"), encoding="utf-8")
        try:
            queries, qrels = read_pairs(file)
        except InvalidRequestError as error:
            raise InvalidRequestError(str(error).replace(str(file), "the judged queries")) from None
    if len(queries) > _MOST_JUDGED:
        raise InvalidRequestError(
            f"{len(queries):,} judged queries are more than the console takes, {_MOST_JUDGED}; use retrieval evaluate"
        )
    unrecorded = collection.unrecorded()
    note = await missing_items(unrecorded.get, queries, qrels)

    async def ask(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> Sequence[str]:
        hits = await unrecorded.search(text, where=where, limit=limit, profile=profiles[variant], syntax=False)
        return [hit.item_id for hit in hits]

    report = await evaluate(ask, queries, qrels, metrics=parse_metrics(_METRICS), variants=tuple(profiles))
    return [h.p(".note")[note] if note else None, _judged_report(report)]


def _judged_report(report: Report) -> h.Node:
    rows = [(variant.variant, *(f"{variant.means[name]:.4f}" for name in report.metrics), f"{variant.median_ms:.1f}")
            for variant in report.variants]  # fmt: skip
    first = report.metrics[0]
    means = {variant.variant: variant.means[first] for variant in report.variants}
    best = max(means, key=lambda name: means[name])
    conclusion = f"{best} is better in {first}." if len(set(means.values())) > 1 else "Both are equal."
    queries = "1 judged query" if report.queries == 1 else f"{report.queries} judged queries"
    return [
        h.p[f"{queries}. ", h.strong[conclusion]],
        table(("", *report.metrics, "median ms"), rows, caption="Means over the judged queries"),
    ]


async def _rewards(visit: Visit, collection: Collection) -> h.Node:
    rewards = await visit.platform.analytics("profiles", collection=collection.name)
    rows = [row for row in rewards if row["reward"] is not None]
    values = {
        f"version {row['profile_version']}, model {row['model_version']}": interval(row["reward"], row["reward_se"])
        for row in rows
    }
    drawing = bars("Mean reward of rated hits by version, with 95 % intervals", values)
    none = h.p(".hint")["No hit was rated in the last 28 days."]
    title = "Rewards by version in the last 28 days"
    return stored_figure(title, drawing if rows else none, rewards, collection.name)


ROUTES: tuple[Route, ...] = (
    view("/profiles", profiles, needs=Scope.READ),
    view("/profiles/use", use, needs=Scope.ADMIN, method="POST"),
    view("/profiles/compare", compare, needs=Scope.READ, method="POST"),
)
