"""The slate as a whole: its items, their slots, and their probabilities."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.learning.arm import Arm
from retrieval.domain.records.slate import Placed, Slot
from retrieval.domain.search.profile_parts import Exploration, PolicyName, PosteriorKind
from retrieval.learning.slate import Ranked, drawn_slate, slate_probabilities
from tests.support.probability import p_value

THOMPSON = Exploration(policy=PolicyName.THOMPSON_SLOTS, slots=2, posterior=PosteriorKind.BETA, most_eligible=6)


def candidates(count: int, eligible: str = "all", *, unsure: float = 0.0) -> list[Ranked]:
    """``a``, ``b``, ``c`` … by falling score; ``eligible`` names the eligible ones."""
    return [
        Ranked(
            item_id=chr(97 + place),
            score=1 - place / 100,
            eligible=eligible == "all" or chr(97 + place) in eligible,
            arm=Arm(uses=place % 4, raw_successes=place % 4 // 2),
            uncertainty=unsure * (place % 3),
        )
        for place in range(count)
    ]


def draw_slate(count: int, limit: int, exploration: Exploration, seed: int = 0, eligible: str = "all") -> list[Placed]:
    """A slate."""
    return drawn_slate(candidates(count, eligible), limit, exploration, np.random.default_rng(seed))[0]


def names(slate: list[Placed]) -> str:
    """The items of the slate, in order."""
    return "".join(place.item_id for place in slate)


EVERY = [
    Exploration(policy=policy, slots=slots, floor=floor, swaps=swaps, most_eligible=most)
    for policy in PolicyName
    for slots, floor, swaps, most in [(1, 0.1, 0.0, 30), (2, 0.0, 0.5, 3), (2, 1.0, 1.0, 1), (1, 0.5, 0.02, 2)]
]


@given(
    exploration=st.sampled_from(EVERY),
    count=st.integers(0, 9),
    limit=st.integers(0, 11),
    eligible=st.sets(st.sampled_from("abcdefghi")).map("".join),
    seed=st.integers(0, 2**32),
)
def test_every_slate_keeps_the_rules(
    exploration: Exploration, count: int, limit: int, eligible: str, seed: int
) -> None:
    """Full, without repetitions, with positive probabilities that add up, and reproducible from the seed."""
    exploration = Exploration(**exploration.as_dict() | {"posterior": PosteriorKind.BETA})
    pool = candidates(count, eligible, unsure=0.2)
    slate = drawn_slate(pool, limit, exploration, np.random.default_rng(seed))[0]
    probabilities = slate_probabilities(pool, limit, exploration, np.random.default_rng(seed))

    assert len(slate) == len({place.item_id for place in slate}) == min(count, limit)
    assert list(probabilities) == [candidate.item_id for candidate in pool]
    assert sum(probabilities.values()) == pytest.approx(min(count, limit), abs=1e-9)
    assert [place.propensity for place in slate] == [probabilities[place.item_id] for place in slate]
    assert all(0 < place.rank_propensity <= place.propensity <= 1 for place in slate)
    assert slate == drawn_slate(pool, limit, exploration, np.random.default_rng(seed))[0]


@pytest.mark.parametrize("exploration", EVERY)
def test_all_candidates_are_certain_if_there_is_room(exploration: Exploration) -> None:
    """With no more candidates than places, nothing is drawn but swaps."""
    for count in range(5):
        slate = draw_slate(count, 4, exploration)
        assert sorted(names(slate)) == [candidate.item_id for candidate in candidates(count)]
        assert all(place.propensity == 1 and place.slot in (Slot.EXPLOIT, Slot.SWAP) for place in slate)


@pytest.mark.parametrize("exploration", EVERY)
def test_the_only_place_is_that_of_the_best(exploration: Exploration) -> None:
    """A slate of one explores nothing."""
    assert draw_slate(9, 1, exploration) == [Placed("a")]


def test_off_shows_what_the_scores_say() -> None:
    """Each with probability 1."""
    assert draw_slate(5, 3, Exploration()) == [Placed("a"), Placed("b"), Placed("c")]


class TestThompsonSlots:
    """One or two places at the end."""

    def test_the_other_places_are_those_of_the_score(self) -> None:
        """Settled and marked as such."""
        for seed in range(20):
            slate = draw_slate(12, 5, THOMPSON, seed)
            assert names(slate[:3]) == "abc"
            assert [place.slot for place in slate[:3]] == [Slot.EXPLOIT] * 3
            assert [place.propensity for place in slate[:3]] == [1.0] * 3

    def test_the_best_eligible_compete_with_who_has_the_place(self) -> None:
        """Six at most, behind the slate, with ``d`` and ``e``, whose places by score these are."""
        item_ids = {
            place.item_id for seed in range(150) for place in draw_slate(14, 5, THOMPSON, seed, "abcghijklmn")[3:]
        }

        assert item_ids == set("deghijkl")

    def test_a_place_in_the_slots_is_as_probable_as_any_other(self) -> None:
        """The rank propensity is the propensity shared out between the slots."""
        for place in draw_slate(12, 5, THOMPSON)[3:]:
            assert place.rank_propensity == pytest.approx(place.propensity / 2)

    def test_a_drawn_item_that_keeps_its_place_is_marked_as_by_score(self) -> None:
        """``e`` is drawn like the others, eligible or not, and marked as shown by score."""
        one_slot = Exploration(**THOMPSON.as_dict() | {"slots": 1})
        for eligible in ("g", "eg"):
            lasts = {
                place.item_id: place for seed in range(60) for place in draw_slate(9, 5, one_slot, seed, eligible)[4:]
            }
            assert {name: place.slot for name, place in lasts.items()} == {"e": Slot.EXPLOIT, "g": Slot.EXPLORE}
            assert all(0 < place.propensity < 1 for place in lasts.values())

    def test_items_shown_by_score_keep_a_propensity(self) -> None:
        """Its records can evaluate a policy that shows only these items."""
        hopeless = [
            Ranked(item_id=name, reward_mean=0.01 if name in "de" else 0.99, effective_sample_size=900, eligible=True)
            for name in "abcdefgh"
        ]
        shrunk = Exploration(**THOMPSON.as_dict() | {"posterior": PosteriorKind.SHRUNK, "slots": 1})

        chances = slate_probabilities(hopeless, 5, shrunk, np.random.default_rng(0))

        assert chances["e"] == pytest.approx(0.1 / 4)
        assert chances["d"] == 1.0

    def test_a_known_newcomer_does_not_displace_what_is_better(self) -> None:
        """Young, but with a posterior far below: by the floor alone."""
        ranked = [
            Ranked(item_id=name, reward_mean=0.9 if name < "f" else 0.1, effective_sample_size=300, eligible=name > "e")
            for name in "abcdefgh"
        ]
        shrunk = Exploration(**THOMPSON.as_dict() | {"posterior": PosteriorKind.SHRUNK, "slots": 1})

        chances = slate_probabilities(ranked, 5, shrunk, np.random.default_rng(0))

        assert [chances[name] for name in "efgh"] == pytest.approx([0.925, 0.025, 0.025, 0.025])

    def test_relevance_counts_in_the_contest_as_it_does_in_the_score(self) -> None:
        """The more relevant of two unknown newcomers is tried more often."""
        others = [Ranked(item_id=name, relevance=0.9, learned_share=0.6) for name in "ab"]
        new = [
            Ranked(item_id=name, relevance=relevance, learned_share=0.6, eligible=True)
            for name, relevance in (("c", 0.8), ("d", 0.2))
        ]

        chances = slate_probabilities([*others, *new], 2, THOMPSON, np.random.default_rng(0))

        assert chances["b"] > chances["c"] > 2 * chances["d"] > 0

    def test_there_are_no_more_slots_than_newcomers(self) -> None:
        """With one eligible candidate behind the slate, only the last place is at stake."""
        slates = {names(draw_slate(9, 5, THOMPSON, seed, "dg")) for seed in range(60)}

        assert slates == {"abcde", "abcdg"}

    @pytest.mark.parametrize("eligible", ["", "abc", "de", "abcde"])
    def test_without_eligible_candidates_the_slate_is_by_score(self, eligible: str) -> None:
        """If all eligible candidates are shown anyway, the slate is that of the score."""
        assert draw_slate(9, 5, THOMPSON, 0, eligible) == [Placed(name) for name in "abcde"]

    def test_two_slots_of_two_places_leave_the_first_to_the_score(self) -> None:
        """The result is a single slot."""
        slates = [draw_slate(9, 2, THOMPSON, seed) for seed in range(60)]

        assert {names(slate[:1]) for slate in slates} == {"a"}
        assert {names(slate[1:]) for slate in slates} == set("bcdefgh")

    def test_the_floor_alone_is_uniform(self) -> None:
        """Floor 1: the six eligible and the two who have the places by score share two slots."""
        chances = slate_probabilities(
            candidates(12), 5, Exploration(**THOMPSON.as_dict() | {"floor": 1.0}), np.random.default_rng()
        )

        assert [chances[name] for name in "defghijk"] == pytest.approx([1 / 4] * 8)

    def test_two_seeds_explore_differently(self) -> None:
        """Replicas that start with other seeds do not show the same newcomers."""
        assert len({names(draw_slate(12, 5, THOMPSON, seed)) for seed in range(20)}) > 5


class TestUncertaintyBonus:
    """Optimism, and a floor in the last place."""

    BONUS = Exploration(policy=PolicyName.UNCERTAINTY_BONUS, rate=1.0, floor=0.2, most_eligible=4)

    def slate(self, seed: int = 0, exploration: Exploration = BONUS, limit: int = 3) -> list[Placed]:
        """A slate of the items a to i; c, f and i have an uncertainty of .4, b, e and h of .2."""
        return drawn_slate(candidates(9, unsure=0.2), limit, exploration, np.random.default_rng(seed))[0]

    def test_the_order_is_that_of_score_and_uncertainty(self) -> None:
        """c, f, i, then b, e, h: what the score alone would not have shown is marked."""
        without_floor = Exploration(**self.BONUS.as_dict() | {"floor": 0.0})

        assert self.slate(0, without_floor, 4) == [
            Placed("c"),
            Placed("f", Slot.EXPLORE),
            Placed("i", Slot.EXPLORE),
            Placed("b"),
        ]

    def test_the_last_place_has_a_floor(self) -> None:
        """i has .8 + .2 / 4; b, e and h .05 each; all others nothing."""
        chances = slate_probabilities(candidates(9, unsure=0.2), 3, self.BONUS, np.random.default_rng())

        assert chances == pytest.approx(
            dict.fromkeys("cf", 1.0) | {"i": 0.85} | dict.fromkeys("beh", 0.05) | dict.fromkeys("adg", 0.0)
        )
        served = Counter(self.slate(seed)[2].item_id for seed in range(600))
        assert set(served) == set("ibeh")
        assert served["i"] > 450

    def test_items_picked_by_the_floor_are_marked(self) -> None:
        """Except ``b``, which the score alone would have shown."""
        lasts = {place.item_id: place.slot for seed in range(300) for place in self.slate(seed)[2:]}

        assert lasts == dict.fromkeys("ieh", Slot.EXPLORE) | {"b": Slot.EXPLOIT}

    def test_without_uncertainty_the_order_is_unchanged(self) -> None:
        """Equal sums keep their order, and the last place is the score's unless the floor takes it."""
        certain = [Ranked(item_id=name) for name in "abcdef"]
        slates = [drawn_slate(certain, 3, self.BONUS, np.random.default_rng(seed))[0] for seed in range(50)]

        assert all(names(slate[:2]) == "ab" for slate in slates)
        assert {slate[2].slot for slate in slates if slate[2].item_id == "c"} == {Slot.EXPLOIT}


class TestSwaps:
    """Neighbours change places."""

    def test_one_pair_of_neighbours_at_most(self) -> None:
        """All three pairs occur; both hits of a pair are marked, and no others."""
        slates = [draw_slate(9, 4, Exploration(swaps=0.5), seed) for seed in range(200)]

        assert {names(slate) for slate in slates} == {"abcd", "bacd", "acbd", "abdc"}
        for slate in slates:
            moved = [place.item_id for place, name in zip(slate, "abcd", strict=True) if place.item_id != name]
            assert [place.item_id for place in slate if place.slot is Slot.SWAP] == moved

    def test_the_chance_of_a_place_is_exact(self) -> None:
        """.3 for three pairs: .1 each; the inner places are in two of them."""
        stays = draw_slate(9, 4, Exploration(swaps=0.3), 0)
        swapped = next(
            slate
            for seed in itertools.count()
            if names(slate := draw_slate(9, 4, Exploration(swaps=0.3), seed)) == "acbd"
        )

        assert names(stays) == "abcd"
        assert [place.rank_propensity for place in stays] == pytest.approx([0.9, 0.8, 0.8, 0.9])
        assert [place.rank_propensity for place in swapped] == pytest.approx([0.9, 0.1, 0.1, 0.9])
        assert {place.propensity for place in stays + swapped} == {1.0}

    def test_slots_take_no_part(self) -> None:
        """With two slots of five, the pairs are a-b and b-c."""
        slates = [draw_slate(12, 5, Exploration(**THOMPSON.as_dict() | {"swaps": 1.0}), seed) for seed in range(60)]

        assert {names(slate[:3]) for slate in slates} == {"bac", "acb"}
        assert Slot.SWAP not in {place.slot for slate in slates for place in slate[3:]}
        assert {place.rank_propensity for slate in slates for place in slate[:3]} == {0.5}

    def test_a_single_settled_place_has_no_neighbour(self) -> None:
        """Nothing to swap, nothing marked."""
        assert draw_slate(9, 1, Exploration(swaps=1.0)) == [Placed("a")]


def test_served_slates_agree_with_their_propensities() -> None:
    """300 slates with different seeds, by a chi-square test over the items that the slot may show."""
    exploration = Exploration(**THOMPSON.as_dict() | {"slots": 1, "swaps": 0.02})
    ranked = candidates(9)
    pool = "efghi"
    counts, expected, covariance = np.zeros(5), np.zeros(5), np.zeros((5, 5))
    for seed in range(300):
        chances = slate_probabilities(ranked, 5, exploration, np.random.default_rng(seed))
        each = np.array([chances[name] for name in pool])
        counts[pool.index(drawn_slate(ranked, 5, exploration, np.random.default_rng(seed))[0][4].item_id)] += 1
        expected += each
        covariance += np.diag(each) - np.outer(each, each)

    assert p_value(counts, expected, covariance) > 0.001
