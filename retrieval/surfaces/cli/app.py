"""The program: its table of contents, global options, log records, and one run of it."""

from __future__ import annotations

import difflib
import io
import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from retrieval.domain.checks import clean_text
from retrieval.surfaces.cli import errors
from retrieval.surfaces.cli.options import PROGRAM, ProgramOptions, examples, flag, option
from retrieval.surfaces.listening import installed_version

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings


REPEATED_SECONDS = 600.0
"""The time during which a message is not written again; later it is, because a worker runs for months."""


class LineHandler(logging.Handler):
    """Writes ``warning: message`` on standard error, a repeated message only once in ``REPEATED_SECONDS``."""

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__()
        self._debug = debug
        self._written: dict[str, float] = {}
        """The time of each recent message."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Passes on the package's own records from WARNING on, and libraries' errors; when debugging, everything."""
        ours = record.name == "retrieval" or record.name.startswith("retrieval.")
        least = logging.INFO if self._debug else logging.WARNING if ours else logging.ERROR
        return record.levelno >= least

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        line = f"{record.levelname.lower()}: {clean_text(record.getMessage(), is_line=True)}"
        oldest = record.created - REPEATED_SECONDS
        self._written = {known: at for known, at in self._written.items() if at > oldest}
        if line in self._written:
            return
        self._written[line] = record.created
        if self._debug and record.exc_info:
            line += "\n" + logging.Formatter().formatException(record.exc_info)
        # Standard error is looked up for each record, because a progress line replaces it to keep the lines apart.
        print(line, file=sys.stderr, flush=True)  # noqa: T201


_PANELS = {
    "Store and find": "ingest import-langchain search complete passages collections items memories tickets",
    "Serve": "serve keys mcp session-start session-end",
    "Learn": "feedback retrievals replay models actors",
    "Measure and tune": "evaluate tune calibrate compare profiles analytics",
    "Run and maintain": "worker jobs status doctor reindex reembed",
    "Database": "db backup restore analysts",
}
"""The commands and groups of commands by panel, in the order in which a reader needs them."""

_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}

_MODULES = {
    "access": "keys actors analysts",
    "db": "backup restore",
    "doctor": "status",
    "evaluate": "tune calibrate",
    "feedback": "models",
    "ingest": "import-langchain",
    "jobs": "worker reindex reembed",
    "retrievals": "replay",
    "search": "complete passages",
    "serve": "mcp",
    "sessions": "session-start session-end",
}
"""The commands by module, where the module has another name."""

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


class _Commands(Mapping[str, Any]):
    """The commands by name, each imported at its first use: a run needs only one."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_PANEL_OF)

    def __len__(self) -> int:
        return len(_PANEL_OF)


@cache
def _command(name: str) -> Any:
    """The command or group of that name, as typer builds it. Raises ``KeyError``."""
    panel = _PANEL_OF[name]
    module = import_module(f"retrieval.surfaces.cli.commands.{_MODULE_OF.get(name, name)}")
    command: Any = typer.main.get_group(module.app).commands[name]
    command.rich_help_panel = panel
    return _showing_flags(command)


def _showing_flags(command: Any) -> Any:
    """The command, in whose help flags have no type: they take no value, but some releases of typer show ``<bool>``."""
    all_params = command.get_params

    def get_params(context: Any) -> Any:
        params = all_params(context)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params

    command.get_params = get_params
    for inner in getattr(command, "commands", {}).values():
        _showing_flags(inner)
    return command


class _Contents(TyperGroup):
    """The program, whose commands are imported when they are named."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        _showing_flags(self)
        self.commands = _Commands()  # type: ignore[assignment]


_EXAMPLES = ("retrieval ingest tickets tickets.jsonl", 'retrieval search tickets "database connection timeout"')
_CODES = ", ".join(f"{code} {meaning}" for code, meaning in errors.EXIT_MEANINGS.items())

app = typer.Typer(
    cls=_Contents,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"{examples(*_EXAMPLES)}\n\nExit codes: {_CODES}.",
)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    *,
    tenant: Annotated[
        str | None, option("NAME", "The tenant; else RETRIEVAL_TENANT, else 'default'.", "--tenant", "-t")
    ] = None,
    debug: Annotated[bool, flag("Show tracebacks and the libraries' log records.", "--debug")] = False,
    version: Annotated[bool, flag("Show the version and exit.", "--version", "-V")] = False,
) -> None:
    """Search that is right, fast and explainable, on nothing but PostgreSQL and pgvector.

    Without RETRIEVAL_DATABASE_URL in the environment, an embedded PostgreSQL is created and used.
    """
    if version:
        number = installed_version()
        typer.echo(f"retrieval {number}" if number else "retrieval, run from its sources without being installed")
        raise typer.Exit
    PROGRAM.set(ProgramOptions(tenant, debug=debug))
    root = logging.getLogger()
    root.handlers[:] = [LineHandler(debug=debug)]
    root.setLevel(logging.INFO if debug else logging.WARNING)
    if context.invoked_subcommand not in {*errors.HOOKS, "doctor"}:  # the doctor's report has them
        for name, similar in unknown_variables():
            advice = f"did you mean {similar}?" if similar else "see docs/reference/settings.md"
            line = clean_text(f"note: {name} is not a setting, and is ignored; {advice}", is_line=True)
            print(line, file=sys.stderr)  # noqa: T201
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_PREFIX = "RETRIEVAL_"

_OF_OTHERS = ("RETRIEVAL_TEST_", "RETRIEVAL_FAISS_", "RETRIEVAL_SOURCE_URL", "RETRIEVAL_KEY")
"""Variables of tests, of a former configuration, of one command, and of the clients' examples."""


def unknown_variables() -> list[tuple[str, str]]:
    """The environment variables that are not settings, such as ``RETRIEVAL_EMBEDER``, each with the most similar one.

    It is empty where none is similar.
    """
    variables = {name for name in map(str.upper, os.environ) if name.startswith(_PREFIX)}
    unknown = {name for name in variables if not name.startswith(_OF_OTHERS)}
    if not unknown:
        return []
    from retrieval.settings import Settings

    known = _variables(Settings)
    if unknown - known:
        from retrieval.apps.tickets.models import RetrievalConfig  # which imports much

        known |= _variables(RetrievalConfig)
    found = []
    for name in sorted(unknown - known):
        similar = difflib.get_close_matches(name[len(_PREFIX) :], [other[len(_PREFIX) :] for other in known], n=1)
        found.append((f"{name:.60}", f"{_PREFIX}{similar[0]}" if similar else ""))
    return found


def _variables(settings: type[BaseSettings]) -> set[str]:
    """The environment variables ``RETRIEVAL_…`` of the settings."""
    names: list[object] = []
    for name, field in settings.model_fields.items():
        alias = field.validation_alias or f"{_PREFIX}{name}"
        names += getattr(alias, "choices", [alias])
    return {name for name in (str(name).upper() for name in names) if name.startswith(_PREFIX)}


def run_program(arguments: Sequence[str]) -> int:
    """Run the command of the arguments; return the exit code."""
    if not sys.stdout.isatty() and "FORCE_COLOR" not in os.environ:
        # Otherwise typer colours help texts in some CI systems.
        os.environ.setdefault("_TYPER_FORCE_DISABLE_TERMINAL", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    PROGRAM.set(ProgramOptions())
    try:
        code = app(list(arguments), prog_name="retrieval", standalone_mode=False)
        # Flushed here: at the end of the interpreter a failure could not be caught.
        sys.stdout.flush()
        if code == errors.INTERRUPTED:  # typer has caught it
            raise KeyboardInterrupt  # noqa: TRY301
    except BaseException as error:  # noqa: BLE001 - the last handler of every error
        if (hook := errors.hook_of(arguments)) is None:
            return errors.report_error(error, debug=PROGRAM.get().debug, worded=_of_tenant)
        if not errors.is_unread(error):
            line = str(error) if isinstance(error, OSError) else errors.error_line(error)[0]
            errors.hint(hook, line.removeprefix("error: "))
        return 0
    return code if isinstance(code, int) else 0


_COMMAND = re.compile(rf"\bretrieval (?=(?:{'|'.join(_PANEL_OF)})\b)")


def _of_tenant(line: str) -> str:
    """The line, in which each command names the tenant that the program was given: without it, it acts on another."""
    tenant = PROGRAM.get().tenant
    return line if tenant is None else _COMMAND.sub(lambda _: f"retrieval --tenant {shlex.quote(tenant)} ", line)
