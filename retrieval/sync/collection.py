"""Collections without ``await``."""

from __future__ import annotations

from retrieval.collection import Collection
from retrieval.domain.search.profile import Profile
from retrieval.sync.mirror import Mirror, fact, iterated, waiting


class SyncCollection(Mirror[Collection]):
    """``Collection`` without ``await``. ``SyncPlatform.collection`` gives it.

    A function that a call is given, such as ``decide`` of ``change``, is called on the door's own thread.
    """

    def __repr__(self) -> str:
        return repr(self.twin).replace("<", "<Sync", 1)

    def _repr_html_(self) -> str:
        return self.twin._repr_html_()

    name: str = fact(Collection.name)
    profile: Profile = fact(Collection.profile)

    search = waiting(Collection.search)
    search_each = waiting(Collection.search_each)
    interleave = waiting(Collection.interleave)
    preview = waiting(Collection.preview)
    complete = waiting(Collection.complete)
    passages = waiting(Collection.passages)

    def unrecorded(self) -> SyncCollection:
        """The same collection without recording, for trials and measurements; its searches explore nothing either."""
        return SyncCollection(self.twin.unrecorded(), self.door)

    add = waiting(Collection.add)
    add_each = waiting(Collection.add_each)
    ingest = waiting(Collection.ingest)
    ingest_documents = waiting(Collection.ingest_documents)
    add_documents = waiting(Collection.add_documents)
    put = waiting(Collection.put)
    patch = waiting(Collection.patch)
    change = waiting(Collection.change)
    delete = waiting(Collection.delete)
    delete_documents = waiting(Collection.delete_documents)
    remove = waiting(Collection.remove)
    get = waiting(Collection.get)
    stored = waiting(Collection.stored)
    page = waiting(Collection.page)
    scan = iterated(Collection.scan)
    value_counts = waiting(Collection.value_counts)
    info = waiting(Collection.info)
    space = waiting(Collection.space)
    embeddings = waiting(Collection.embeddings)
    vectors_of = waiting(Collection.vectors_of)
    profiles = waiting(Collection.profiles)
    stored_profile = waiting(Collection.stored_profile)
    set_profile = waiting(Collection.set_profile)
    use_profile = waiting(Collection.use_profile)
    calibrate = waiting(Collection.calibrate)
    retrievals = waiting(Collection.retrievals)
    record_answer = waiting(Collection.record_answer)
    answers_of = waiting(Collection.answers_of)
    count_accesses = waiting(Collection.count_accesses)
    set_half_life = waiting(Collection.set_half_life)
    set_daily_cap = waiting(Collection.set_daily_cap)
    standings = waiting(Collection.standings)
    expectations = waiting(Collection.expectations)
    is_trained = waiting(Collection.is_trained)
    count_verdicts = waiting(Collection.count_verdicts)
    learn = waiting(Collection.learn)
    models = waiting(Collection.models)
    use_model = waiting(Collection.use_model)
    make_filterable = waiting(Collection.make_filterable)
    make_unfilterable = waiting(Collection.make_unfilterable)
    set_neighbours = waiting(Collection.set_neighbours)
    refresh = waiting(Collection.refresh)
