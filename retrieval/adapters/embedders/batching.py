"""Splitting many texts into pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def estimated_tokens(text: str) -> int:
    """How many tokens a byte-pair tokenizer makes of a text: UTF-8 bytes / 3, rounded up, at least 1.

    English has 4 to 5 bytes a token and Chinese about 3, so this is on the high side; hexadecimal digits and
    rare scripts can have fewer than 3, so it is no upper bound.
    """
    return max(1, -(-len(text.encode()) // 3))


def batches(sizes: Sequence[int], *, max_items: int, max_size: int) -> Iterator[range]:
    """Consecutive ranges of positions, each with at most ``max_items`` of them and a total of ``max_size``.

    ``sizes`` holds one size a position. A single one above ``max_size`` has a range of its own.
    """
    start = total = 0
    for position, size in enumerate(sizes):
        if position > start and (position - start == max_items or total + size > max_size):
            yield range(start, position)
            start, total = position, 0
        total += size
    if start < len(sizes):
        yield range(start, len(sizes))


def padded_batches(lengths: Sequence[int], *, max_area: int) -> Iterator[list[int]]:
    """Positions grouped by similar length, so that padding a group to its longest wastes little.

    A group times its longest length is at most ``max_area``; a longer one has a group of its own.
    Shortest first; every position appears once.
    """
    group: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and lengths[position] * (len(group) + 1) > max_area:
            yield group
            group = []
        group.append(position)
    if group:
        yield group
