"""The limits on a process's concurrent requests, in all and for one key."""

from __future__ import annotations

from retrieval.surfaces.http.limits import Load, RequestRoom


def take_all(load: Load, key_id: str) -> list[RequestRoom]:
    """All the places that a key gets which asks until it is turned away."""
    places: list[RequestRoom] = []
    while (place := load.enter()) is not None:
        if not place.belongs_to(key_id):
            place.leave()
            return places
        places.append(place)
    return places


def test_no_key_takes_all_the_room() -> None:
    """A single key gets half of the room; each further key gets half of the rest, and a new one is always admitted."""
    load = Load(100)
    assert [len(take_all(load, key_id)) for key_id in ("a", "b", "c")] == [50, 25, 12]
    assert load.in_flight == 87
    assert load.shed == 3


def test_a_key_gets_in_where_there_is_room_for_one() -> None:
    """Also where that is all the room."""
    load = Load(1)
    assert len(take_all(load, "a")) == 1
    assert load.enter() is None


def test_released_places_are_free_again() -> None:
    """Releasing twice counts once; and a key without requests uses no memory."""
    load = Load(10)
    places = take_all(load, "a")
    for place in [*places, *places]:
        place.leave()
    assert (load.in_flight, load.shares) == (0, {})
    assert len(take_all(load, "a")) == len(places)


def test_without_keys_a_caller_has_all_places() -> None:
    """A service on this machine alone, whose callers are one."""
    assert len(take_all(Load(10), "")) == 10
