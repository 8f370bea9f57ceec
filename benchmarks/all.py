"""Every benchmark, one after the other, and the documentation's pictures: what ``make bench`` runs.

    python benchmarks/all.py [DATA] [--peers-python PATH] [--full]

DATA is the folder of the test collections in BEIR's format; without it whatever needs judged queries is left out, and
that is said. ``--full`` adds 300,000 items, 10,000 tenants and, with DATA, the learning curve.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent


def commands(data: Path | None, peers_python: str | None, *, full: bool) -> list[list[str]]:
    """The benchmarks to run, in order."""
    all_commands: list[list[str]] = []
    if data is not None:
        all_commands += [_script(name, str(data)) for name in ("quality", "lexical_latency", "recall_temporal")]
        all_commands += [_script("locomo", str(data))] if (data / "locomo").is_dir() else []
    beside = [str(data)] if data is not None else []
    all_commands.append(_script("side_by_side", *beside, *(["--peers-python", peers_python] if peers_python else [])))
    all_commands.append(_script("growth", *(["--full"] if full else [])))
    all_commands += [
        _script(name)
        for name in (
            "learned_reward",
            "exploration",
            "principles",
            "session_start",
            "metaphors",
            "metaphor_corpus",
            "feedback_rate",
            "writes",
            "quantised",
            "http_load",
            "stalls",
            "analytics",
        )
    ]
    # Compared with simulated truth, and with the Open Bandit data if they are among the collections.
    all_commands.append(
        _script("off_policy", *([str(data / "obd")] if data is not None and (data / "obd").is_dir() else []))
    )
    if peers_python:
        all_commands.append(_script("migration", "--peers-python", peers_python))
        all_commands.append(_script("graph_store", "--peers-python", peers_python))
    if data is not None:
        all_commands += [_script("learned_cost", str(data))] if (data / "locomo").is_dir() else []
        all_commands += [_script(name, str(data)) for name in ("learning_curve", "trial_power")] if full else []
    if peers_python:
        all_commands.append([peers_python, str(FOLDER / "pictures.py")])
    return all_commands


def _script(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(FOLDER / f"{name}.py"), *arguments]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--peers-python", help="the Python of the peers' environment")
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args(arguments)
    if options.data is not None and not (options.data / "scifact").is_dir():
        print(
            f"error: {options.data} holds no scifact folder; name the folder of the test collections", file=sys.stderr
        )
        return 1
    if options.data is None:
        print("QUALITY IS NOT MEASURED: no test collections; make bench DATA=folder of them", file=sys.stderr)
    for command in commands(options.data, options.peers_python, full=options.full):
        print(f"== {Path(command[1]).name}", file=sys.stderr, flush=True)
        if (code := subprocess.run(command, check=False).returncode) != 0:
            print(f"error: {Path(command[1]).name} failed; see its message above", file=sys.stderr)
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
