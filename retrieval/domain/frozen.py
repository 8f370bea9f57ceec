"""A mapping of a value that does not change. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Frozen(dict[K, V]):
    """A dictionary that refuses changes, and can be copied and sent to other processes like others."""

    __slots__ = ()

    def _refuse(self, *_arguments: object, **_values: object) -> Any:
        raise TypeError("this mapping does not change; make a dictionary of it, and change that")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)
