"""The corpus in the database: static, dynamic and candidate metaphors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.metaphors import METAPHORS_PROFILE, STANDARD_CORPUS, Metaphor, MetaphorCorpus, Operation
from retrieval.domain.errors import InvalidRequestError, UnknownItemError
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.services.add import AddReport
from retrieval.services.items import add_new
from tests.support.database import SCHEMA

PLUMBING, ECOSYSTEM, IMMUNE = STANDARD_CORPUS[:3]
BEEHIVE = Metaphor(
    id="beehive",
    name="Beehive",
    domain="biology",
    description="Scouts dance for the nest sites that they found until enough of them dance for the same one.",
    operations=(
        Operation(name="dance", effects=("others look at the site",), description="Show where it is."),
        Operation(name="reach_quorum", effects=("the swarm moves",)),
    ),
    examples=("a group that has to decide without a leader",),
)
_NUMBERS = count()


class TwoWays(HashingEmbedder):
    """Embeds a text as a question otherwise than as an item, as some models do."""

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """With the role's own words in front."""
        return await super().embed([f"{'of a question ' * (role is TextRole.QUERY)}{text}" for text in texts], role)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(database_url: str) -> AsyncIterator[Platform]:
    """The platform that the corpora are on."""
    settings = Settings(tenant="metaphors-corpus", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=TwoWays()) as platform:
        yield platform


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standard(house: Platform) -> MetaphorCorpus:
    """The curated metaphors alone."""
    return await MetaphorCorpus.open(house, "standard")


@pytest_asyncio.fixture(loop_scope="module")
async def corpus(house: Platform) -> MetaphorCorpus:
    """A corpus of this test's own, with two static metaphors."""
    return await open_corpus(house, f"corpus-{next(_NUMBERS)}")


async def open_corpus(
    platform: Platform, name: str, static: Sequence[Metaphor] = (PLUMBING, ECOSYSTEM)
) -> MetaphorCorpus:
    """The corpus of that name, with the given metaphors or two static ones."""
    return await MetaphorCorpus.open(platform, name, static)


async def ids_of(corpus: MetaphorCorpus) -> list[str]:
    """The ids in the order of iteration."""
    return [metaphor.id async for metaphor in corpus]


async def rate(platform: Platform, corpus: MetaphorCorpus, verdicts: str) -> str:
    """Judge the beehive, + good and - bad, each by somebody else; gives its status after being settled."""
    for number, verdict in enumerate(verdicts):
        await platform.feedback(
            item_id="beehive",
            collection=corpus.collection.name,
            helpful=verdict == "+",
            actor=f"actor {next(_NUMBERS)} {number}",
        )
    return await corpus.settle("beehive")


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_curated_ones_are_stored_and_found(standard: MetaphorCorpus) -> None:
    """Each has its vector, and the application's profile ranks them; they are read back unchanged."""
    metaphors = await standard.get([metaphor.id for metaphor in STANDARD_CORPUS])

    assert list(metaphors.values()) == STANDARD_CORPUS
    assert set(await standard.embeddings(list(metaphors))) == set(metaphors)
    assert standard.collection.profile == METAPHORS_PROFILE
    assert await ids_of(standard) == [metaphor.id for metaphor in STANDARD_CORPUS]
    assert await standard.count() == len(standard.static) == len(STANDARD_CORPUS)
    hits = await standard.collection.unrecorded().search(PLUMBING.description, limit=3)
    assert hits[0].item_id == "plumbing"


async def test_opened_again_nothing_is_written(house: Platform, standard: MetaphorCorpus) -> None:
    """Only what changed is: the items keep the time of their last change."""
    name = standard.collection.name

    async def changes() -> list[tuple[object, ...]]:
        async with house.database.transaction(house.tenant_id) as connection:
            cursor = await connection.execute(
                "SELECT i.item_id, i.updated_at FROM items i JOIN collections c USING (collection_id) "
                "WHERE c.name = %s ORDER BY 1",
                (name,),
            )
            return await cursor.fetchall()

    before = await changes()
    await MetaphorCorpus.open(house, name)

    assert len(before) == len(STANDARD_CORPUS)
    assert await changes() == before


async def test_opened_by_several_at_once_it_is_one_corpus(house: Platform) -> None:
    """The first caller makes the corpus; no caller fails, and each metaphor is stored once."""
    corpora = await asyncio.gather(*(open_corpus(house, "together") for _ in range(4)))

    assert [await ids_of(corpus) for corpus in corpora] == [["plumbing", "ecosystem"]] * 4


async def test_an_empty_corpus_is_one_too(house: Platform) -> None:
    """Every call works, and the first metaphor can be added."""
    corpus = await open_corpus(house, "empty", [])
    assert await ids_of(corpus) == []
    assert await corpus.all_ids() == set()
    assert await corpus.near_duplicates(BEEHIVE) == []
    await corpus.add(BEEHIVE)

    assert await ids_of(corpus) == ["beehive"]


async def test_static_ones_follow_what_is_given(house: Platform) -> None:
    """A changed one is changed, one that is not given any more is archived, and one that comes back is active again."""
    await open_corpus(house, "followed", [PLUMBING, ECOSYSTEM])
    changed = replace(PLUMBING, description="Pipes, and what runs through them.")
    later = await open_corpus(house, "followed", [changed, IMMUNE])

    assert await ids_of(later) == ["plumbing", "immune_system"]
    assert (await later.get(["plumbing"]))["plumbing"] == changed
    assert (await later.origins(["ecosystem"]))["ecosystem"].status == "archived"
    again = await open_corpus(house, "followed", [changed, ECOSYSTEM])
    assert (await again.origins(["ecosystem"]))["ecosystem"].status == "active"
    assert set(await again.embeddings(["ecosystem", "immune_system"])) == {"ecosystem"}


async def test_an_added_metaphor_keeps_its_id(house: Platform) -> None:
    """A later version's static metaphor does not replace it, and is not among the static ones."""
    first = await open_corpus(house, "kept", [PLUMBING])
    await first.add(BEEHIVE, source="workshop")
    second = await open_corpus(house, "kept", [PLUMBING, replace(BEEHIVE, name="Another Hive")])

    assert [metaphor.id for metaphor in second.static] == ["plumbing"]
    assert await second.dynamic() == [BEEHIVE]
    assert await ids_of(second) == ["plumbing", "beehive"]


async def test_added_ones_follow_the_static_ones(house: Platform, corpus: MetaphorCorpus) -> None:
    """They are in the corpus at once, for every handle, with their source and their vector."""
    await corpus.add(BEEHIVE, source="workshop", provenance={"by": "ann"})
    other = await open_corpus(house, corpus.collection.name)

    assert await ids_of(other) == ["plumbing", "ecosystem", "beehive"]
    assert await other.dynamic() == [BEEHIVE]
    assert await other.count() == 3
    origin = (await other.origins(["beehive", "nobody"]))["beehive"]
    assert (origin.source, origin.status, origin.provenance) == ("workshop", "active", {"by": "ann"})
    assert list(await other.embeddings(["beehive"])) == ["beehive"]


async def test_a_known_id_is_refused(corpus: MetaphorCorpus) -> None:
    """Whether static, dynamic, a candidate or rejected: a ``ValueError`` names it, and nothing changes."""
    await corpus.add(BEEHIVE)
    for taken_id in (PLUMBING, BEEHIVE):
        with pytest.raises(ValueError, match=f"{taken_id.id}' already exists"):
            await corpus.add(replace(taken_id, name="Another"))
    await corpus.reject("beehive")
    with pytest.raises(InvalidRequestError, match="already exists"):
        await corpus.add_candidate(BEEHIVE)

    assert await corpus.all_ids() == {"plumbing", "ecosystem", "beehive"}
    assert (await corpus.get(["beehive"]))["beehive"] == (await corpus.get("beehive"))["beehive"] == BEEHIVE
    assert list(await corpus.origins("beehive")) == ["beehive"]


async def test_of_those_who_add_the_same_id_at_once_one_does(corpus: MetaphorCorpus) -> None:
    """The others are refused, and the stored metaphor is the winner's."""
    versions = [replace(BEEHIVE, name=f"Beehive {number}") for number in range(4)]
    outcomes = await asyncio.gather(*(corpus.add(version) for version in versions), return_exceptions=True)

    [winner] = [version for version, outcome in zip(versions, outcomes, strict=True) if outcome is None]
    assert sum(isinstance(outcome, InvalidRequestError) for outcome in outcomes) == 3
    assert await corpus.dynamic() == [winner]


async def test_a_candidate_that_another_caller_rejects_at_once_stays_rejected(
    corpus: MetaphorCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored together with its own vector, and not written again."""
    vector = (await corpus.embeddings(["plumbing"]))["plumbing"]

    async def rejected(*arguments: Any) -> AddReport:
        report = await add_new(*arguments)
        await corpus.reject("beehive")
        return report

    monkeypatch.setattr("retrieval.apps.metaphors.corpus.add_new", rejected)
    await corpus.add_candidate(replace(BEEHIVE, embedding=tuple(map(float, vector))))
    assert (await corpus.origins(["beehive"]))["beehive"].status == "archived"


async def test_a_candidate_is_kept_outside_the_corpus(corpus: MetaphorCorpus) -> None:
    """With where it came from; it has its vector, and no iteration gives it."""
    await corpus.add_candidate(BEEHIVE, {"model": "sim", "problem": "p1"})

    assert await corpus.candidates() == [BEEHIVE]
    assert await ids_of(corpus) == ["plumbing", "ecosystem"]
    assert await corpus.count() == 2
    origin = (await corpus.origins(["beehive"]))["beehive"]
    assert (origin.source, origin.status) == ("generated", "candidate")
    assert origin.provenance == {"model": "sim", "problem": "p1"}
    assert list(await corpus.embeddings(["beehive"])) == ["beehive"]


async def test_an_invalid_candidate_is_refused_with_its_issues(corpus: MetaphorCorpus) -> None:
    """Warnings alone do not refuse a candidate."""
    with pytest.raises(InvalidRequestError, match=r"cannot be used: Too few operations \(need at least 2\)"):
        await corpus.add_candidate(replace(BEEHIVE, operations=()))
    await corpus.add_candidate(replace(BEEHIVE, examples=()))

    assert [candidate.id for candidate in await corpus.candidates()] == ["beehive"]


async def test_a_person_settles_what_becomes_of_a_candidate(corpus: MetaphorCorpus) -> None:
    """Accepting and rejecting can be undone; a static metaphor cannot be rejected."""
    await corpus.add_candidate(BEEHIVE)
    await corpus.accept("beehive")
    assert await corpus.dynamic() == [BEEHIVE]
    await corpus.reject("beehive")
    assert (await corpus.dynamic(), await corpus.candidates()) == ([], [])
    await corpus.accept("beehive")
    assert await ids_of(corpus) == ["plumbing", "ecosystem", "beehive"]
    assert list(await corpus.embeddings(["beehive"])) == ["beehive"]

    with pytest.raises(InvalidRequestError, match="'plumbing' is static"):
        await corpus.reject("plumbing")
    for call in (corpus.accept, corpus.reject, corpus.settle):
        with pytest.raises(UnknownItemError, match="there is no metaphor 'nobody'"):
            await call("nobody")


async def test_a_candidate_proves_itself_by_use(house: Platform, corpus: MetaphorCorpus) -> None:
    """Two good verdicts settle nothing, the third lets it into the corpus, and later ones do not take it out."""
    await corpus.add_candidate(BEEHIVE)

    assert await rate(house, corpus, "++") == "candidate"
    assert await rate(house, corpus, "+") == "active"
    assert await corpus.dynamic() == [BEEHIVE]
    assert await rate(house, corpus, "------") == "active"


async def test_a_candidate_fails_by_use(house: Platform, corpus: MetaphorCorpus) -> None:
    """Four bad verdicts change nothing, the fifth rejects it; it stays stored, and its name stays reserved."""
    await corpus.add_candidate(BEEHIVE)

    assert await rate(house, corpus, "----") == "candidate"
    assert await rate(house, corpus, "-") == "archived"
    assert await corpus.candidates() == []
    again = replace(BEEHIVE, id="hive-2", name="The Beehive")
    assert [(metaphor.id, alike) for metaphor, alike in await corpus.near_duplicates(again)] == [("beehive", 1.0)]


async def test_near_duplicates_are_found_by_name_and_by_meaning(corpus: MetaphorCorpus) -> None:
    """The most similar come first, candidates included, itself excluded; a higher threshold still compares names."""
    await corpus.add_candidate(BEEHIVE)
    reworded = replace(PLUMBING, id="pipes", name="Pipes", examples=())
    namesake = replace(IMMUNE, id="plumbing-2", name="The plumbing")

    by_meaning = await corpus.near_duplicates(reworded, above=0.4)
    assert [metaphor.id for metaphor, _ in by_meaning] == ["plumbing"]
    assert 0.4 <= by_meaning[0][1] < 1
    assert await corpus.near_duplicates(reworded, above=1) == []
    assert [(metaphor.id, alike) for metaphor, alike in await corpus.near_duplicates(namesake, above=0.9)] == [
        ("plumbing", 1.0)
    ]
    assert [metaphor.id for metaphor, _ in await corpus.near_duplicates(replace(BEEHIVE, id="hive"))] == ["beehive"]
    assert await corpus.near_duplicates(BEEHIVE, above=0.9) == []


async def test_a_metaphor_is_given_its_vector(corpus: MetaphorCorpus) -> None:
    """The vector is the given one, the stored one, or is computed from a text that differs from the stored one."""
    stored = await corpus.embed(PLUMBING)
    other = await corpus.embed(replace(PLUMBING, description="Something else."))
    new = await corpus.embed(BEEHIVE)

    assert stored.embedding == (await corpus.embeddings(["plumbing"]))["plumbing"]
    assert len({stored.embedding, other.embedding, new.embedding}) == 3
    assert await corpus.embed(stored) is stored
    assert sum(value * value for value in new.embedding or ()) == pytest.approx(1, abs=1e-3)


async def test_without_vectors_names_still_tell_duplicates(database_url: str) -> None:
    """A corpus without an embedder can be stored and listed."""
    settings = Settings(tenant="metaphors-bare", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings) as platform:
        corpus = await open_corpus(platform, "bare")
        near = await corpus.near_duplicates(replace(ECOSYSTEM, id="eco", name="an ecosystem"))
        assert [(metaphor.id, alike) for metaphor, alike in near] == [("ecosystem", 1.0)]
        assert await ids_of(corpus) == ["plumbing", "ecosystem"]


async def test_invalid_arguments_are_refused(house: Platform, corpus: MetaphorCorpus) -> None:
    """Each message says what to give instead."""
    with pytest.raises(InvalidRequestError, match="give a Metaphor"):
        await corpus.add("plumbing")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="name another source"):
        await corpus.add(BEEHIVE, source="static")
    with pytest.raises(InvalidRequestError, match="is 'active' or 'candidate'"):
        await corpus.add(BEEHIVE, status="archived")
    with pytest.raises(InvalidRequestError, match="'plumbing' twice"):
        await open_corpus(house, "twice", [PLUMBING, PLUMBING])
    with pytest.raises(InvalidRequestError, match="give an open platform"):
        await MetaphorCorpus.open("metaphors")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="from 0 to 1"):
        await corpus.near_duplicates(BEEHIVE, above=2)

    assert await ids_of(corpus) == ["plumbing", "ecosystem"]


async def test_metaphors_are_compared_as_they_are_stored(standard: MetaphorCorpus) -> None:
    """Not as a question would be: the same text under another id and name is as near as can be."""
    twin = replace(PLUMBING, id="twin")
    stored = (await standard.embeddings([PLUMBING.id]))[PLUMBING.id]
    assert (await standard.embed(twin)).embedding == pytest.approx(stored, abs=1e-4)
    renamed = {
        metaphor.id: alike for metaphor, alike in await standard.near_duplicates(replace(twin, name="Plumbings"))
    }
    assert renamed[PLUMBING.id] > 0.9


async def test_verdicts_that_come_by_any_way_settle_candidates_when_the_corpus_is_opened(
    corpus: MetaphorCorpus, house: Platform
) -> None:
    """``platform.feedback`` does not settle candidates itself."""
    name = corpus.collection.name
    await corpus.add_candidate(BEEHIVE)
    waiting = replace(BEEHIVE, id="waiting", name="Anthill")
    await corpus.add_candidate(waiting)
    for run in range(3):
        await house.feedback(item_id="beehive", collection=name, helpful=True, session=str(run))
    again = await open_corpus(house, name)
    assert [metaphor.id for metaphor in await again.dynamic()] == ["beehive"]
    assert [candidate.id for candidate in await again.candidates()] == ["waiting"]
    assert await again.settle_all() == {}
