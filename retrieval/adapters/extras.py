"""The extras of the package, which install the libraries that a part of it needs."""

from __future__ import annotations

from importlib.util import find_spec

from retrieval.domain.errors import MissingExtraError

DISTRIBUTION = "retrieval-platform"
"""The package's name, by which pip installs it."""


def require_extra(extra: str, what: str, *modules: str) -> None:
    """Raise ``missing_extra`` if a module that ``what`` needs is not installed."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise missing_extra(extra, what, " and ".join(missing))


def missing_extra(extra: str, what: str, modules: str) -> MissingExtraError:
    """The error that ``what`` lacks the modules; its message has the command that installs the extra."""
    return MissingExtraError(f"{what} needs {modules}; install it with: {installing(extra)}")


def installing(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
