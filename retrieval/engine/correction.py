"""The correction of misspelt words of a query, by the words that the collection's items have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from unicodedata import normalize

from retrieval.adapters.store.search.words import beginnings_of, known_spellings, terms_beginning, unknown_words
from retrieval.domain.search import spelling
from retrieval.domain.search.profile import LegName, Profile
from retrieval.domain.search.query import SearchBounds, Synonyms, with_synonyms
from retrieval.engine.request import checked_request
from retrieval.engine.search import Searcher

_MOST_ALIKE = 2000
"""The most terms with the same beginning with which an unknown word is compared."""

_MOST_SPELT = 20
"""The most items whose texts are searched for the spelling of a term."""


class CorrectedQuery(NamedTuple):
    """A query with known words instead of unknown ones."""

    text: str
    prefixes: tuple[str, ...] = ()
    """The beginnings of known words among its words. The text has no stars: they would count as the caller's."""
    notes: tuple[str, ...] = ()
    """What was changed; empty: nothing."""


async def corrected_query(
    searcher: Searcher, query: str, synonyms: Synonyms, *, bounds: SearchBounds, syntax: bool
) -> CorrectedQuery:
    """The corrected query. Known words cost one statement, and each unknown word one to three more."""
    query = normalize("NFC", query)
    checkable = spelling.checkable(query, syntax=syntax)
    words = [word for word in checkable if with_synonyms(word.spelling, synonyms) == word.spelling]
    if not words:
        return CorrectedQuery(query)
    spellings = list(dict.fromkeys(word.spelling for word in words))
    unknown = await unknown_words(searcher.database, searcher.tenant_id, searcher.collection, spellings)
    to_correct = [word for word in spellings if word in unknown][: spelling.MAX_CORRECTED]
    if not to_correct:
        return CorrectedQuery(query)
    corrections = await _one_edit_away(searcher, to_correct, begins=syntax)
    uncorrected = [word for word in to_correct if word not in corrections and len(word) >= spelling.LONG]
    if uncorrected:
        terms = await _two_edits_away(searcher, uncorrected)
        corrections |= {word: await _spelling_of(searcher, term, word, bounds) for word, term in terms.items()}
    if not corrections:
        return CorrectedQuery(query)
    prefixes = tuple(word for word, other in corrections.items() if other.endswith("*"))
    replaced = {word: other for word, other in corrections.items() if word not in prefixes}
    return CorrectedQuery(spelling.respelt(query, words, replaced), prefixes, (spelling.note_of(corrections),))


async def _one_edit_away(searcher: Searcher, words: Sequence[str], *, begins: bool) -> dict[str, str]:
    """The correction of each unknown word: known words that begin with it, else the likeliest word one edit away."""
    in_collection = (searcher.database, searcher.tenant_id, searcher.collection)
    accents = searcher.collection.text_search_config not in {"english", "simple"}
    candidates = {word: spelling.one_edit_away(word, accents=accents) for word in words}
    items_with = await known_spellings(*in_collection, candidates.values())
    longer = await terms_beginning(*in_collection, words, most=1) if begins else {}
    corrections: dict[str, str] = {}
    for word, spellings in candidates.items():
        near = [spelling.NearWord(name, 1, items_with[name]) for name in spellings if name in items_with]
        best = spelling.likeliest(word, near)
        if longer.get(word):
            corrections[word] = f"{word}*"
        elif best is not None:
            corrections[word] = best.spelling
    return corrections


async def _two_edits_away(searcher: Searcher, words: Sequence[str]) -> dict[str, str]:
    """The correction of each word: the likeliest term two edits away with the same beginning."""
    beginnings = list({word[: spelling.BEGINNING] for word in words})
    in_collection = (searcher.database, searcher.tenant_id, searcher.collection)
    terms = await terms_beginning(*in_collection, beginnings, most=_MOST_ALIKE)
    corrections: dict[str, str] = {}
    for word in words:
        alike = terms[word[: spelling.BEGINNING]].items()
        near = [
            spelling.NearWord(term, edits, items)
            for term, items in alike
            if len(term) >= spelling.SHORTEST_TERM and (edits := spelling.edits_to(word, term, 2)) is not None
        ]
        if best := spelling.likeliest(word, near):
            corrections[word] = best.spelling
    return corrections


async def _spelling_of(searcher: Searcher, term: str, word: str, bounds: SearchBounds) -> str:
    """The spelling of a term in its items, because the term itself may not be a word ("univers")."""
    profile = Profile(legs={LegName.LEXICAL: 1.0}, depth=_MOST_SPELT)
    request = checked_request(term, limit=_MOST_SPELT, profile=profile, syntax=False, bounds=bounds)
    rankings = await searcher.leg_rankings(replace(request, prefixes=(term,)))
    ids = [candidate.item_id for candidate in rankings[LegName.LEXICAL]]
    beginnings = await beginnings_of(searcher.place, ids, spelling.READ)
    return spelling.spelling_of(term, word, (text for _, *texts in beginnings for text in texts)) or term
