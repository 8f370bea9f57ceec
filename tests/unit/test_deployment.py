"""The files of a deployment other than the containers': Kubernetes' and Grafana's."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from retrieval import Settings
from retrieval.surfaces.http.app import create_app
from scripts.container_files import command_of, compose
from tests.support.deployment import VARIABLES, check_command

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kubernetes" / "base"
EXAMPLE = ROOT / "deploy" / "kubernetes" / "example"
DASHBOARD = ROOT / "deploy" / "grafana" / "retrieval.json"


def objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a file."""
    return [manifest for manifest in yaml.safe_load_all(path.read_text()) if manifest]


def deployments() -> dict[str, dict[str, Any]]:
    """The Deployments of the base by name, without what the patch gives to each."""
    manifests = [manifest for path in BASE.glob("*.yaml") if path.name != "platform.yaml" for manifest in objects(path)]
    return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == "Deployment"}


def container_of(deployment: dict[str, Any]) -> dict[str, Any]:
    """The one container of a Deployment."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "retrieval", "the patch of the base is for the container of this name"
    return cast("dict[str, Any]", container)


def kustomization(folder: Path) -> dict[str, Any]:
    """The objects that the folder makes."""
    (manifest,) = objects(folder / "kustomization.yaml")
    return manifest


@pytest.mark.parametrize("name", ["http", "worker", "mcp"])
def test_each_deployment_runs_what_the_compose_file_runs(name: str) -> None:
    """The same command, which there is, with at least the same time to end."""
    service = compose()["services"][name]
    pod = deployments()[f"retrieval-{name}"]["spec"]["template"]["spec"]

    assert container_of(deployments()[f"retrieval-{name}"])["args"] == service["command"]
    check_command(name, command_of(service))
    assert f"{pod['terminationGracePeriodSeconds']}s" == service["stop_grace_period"]


def test_ports_lead_from_the_service_to_the_command() -> None:
    """A container's port is the port of its command, and its service refers to the port by name."""
    services = {
        manifest["metadata"]["name"]: manifest
        for name in ("http", "mcp")
        for manifest in objects(BASE / f"{name}.yaml")
        if manifest["kind"] == "Service"
    }
    for name, service in services.items():
        container = container_of(deployments()[name])
        (port,) = container["ports"]
        assert str(port["containerPort"]) == container["args"][container["args"].index("--port") + 1]
        assert [entry["targetPort"] for entry in service["spec"]["ports"]] == [port["name"]]
        labels = deployments()[name]["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()


def test_probes_ask_for_what_there_is() -> None:
    """Paths are routes of the service that need no key, ports are the container's, and commands the program's."""
    paths = create_app(Settings(embedder="none")).openapi()["paths"]
    met = []
    for name, deployment in deployments().items():
        container = container_of(deployment)
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind, {})
            ports = {port["name"] for port in container.get("ports", [])}
            if "exec" in probe:
                check_command(name, probe["exec"]["command"])
            elif probe:
                way = probe.get("httpGet") or probe["tcpSocket"]
                assert way["port"] in ports
                assert "path" not in way or "security" not in paths[way["path"]]["get"]
                met.append(way.get("path"))
        assert "readinessProbe" in container, name
    assert {"/livez", "/readyz"} <= set(met)


def test_every_variable_is_a_setting() -> None:
    """The variables of the base and of the example; secrets are in no file."""
    for folder in (BASE, EXAMPLE):
        (generated,) = kustomization(folder)["configMapGenerator"]
        names = {line.partition("=")[0] for line in generated["literals"]}
        assert names <= VARIABLES | {"FORWARDED_ALLOW_IPS"}
        assert not [name for name in names if name.endswith(("TOKEN", "KEY", "URL", "PASSWORD"))]
    assert not [
        path for path in BASE.parent.rglob("*.yaml") for manifest in objects(path) if manifest["kind"] == "Secret"
    ]


def test_every_container_is_confined() -> None:
    """An ordinary user, the one of the image; a root file system that is read only; no capabilities."""
    (patch,) = objects(BASE / "platform.yaml")
    pod = patch["spec"]["template"]["spec"]
    (target,) = kustomization(BASE)["patches"]

    assert target == {"path": "platform.yaml", "target": {"kind": "Deployment"}}
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    for container in (*pod["initContainers"], *pod["containers"]):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]  # noqa: S108 - the container's
        assert {"configMapRef": {"name": "retrieval"}} in container["envFrom"]
    check_command("migrate", ["retrieval", *pod["initContainers"][0]["args"]])


def test_the_files_that_are_named_exist() -> None:
    """No resource is forgotten, and none is missing."""
    assert {*kustomization(BASE)["resources"], "platform.yaml", "kustomization.yaml"} == {
        p.name for p in BASE.iterdir()
    }
    assert all((EXAMPLE / name).exists() for name in kustomization(EXAMPLE)["resources"])


def test_the_ingress_leads_to_services_with_the_limits_of_the_proxy() -> None:
    """Each backend is a service of the base with its port; bodies are as large as the proxy takes them."""
    routes = {
        (manifest["metadata"]["name"], port["name"])
        for path in BASE.glob("*.yaml")
        for manifest in objects(path)
        if manifest["kind"] == "Service"
        for port in manifest["spec"]["ports"]
    }
    proxy = (ROOT / "docker" / "proxy" / "nginx.conf").read_text()
    for ingress in objects(EXAMPLE / "ingress.yaml"):
        size = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
        assert f"client_max_body_size {size};" in proxy
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                service = path["backend"]["service"]
                assert (service["name"], service["port"]["name"]) in routes


def test_the_example_can_be_built() -> None:
    """Kustomize makes the objects, where it is there: every container has an image and its settings."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("THE KUBERNETES FILES ARE NOT BUILT: it takes kubectl, for its kustomize")
    built = subprocess.run([kubectl, "kustomize", EXAMPLE], capture_output=True, text=True, check=True).stdout
    manifests = [manifest for manifest in yaml.safe_load_all(built) if manifest["kind"] == "Deployment"]

    assert {manifest["metadata"]["name"] for manifest in manifests} == set(deployments())
    for manifest in manifests:
        pod = manifest["spec"]["template"]["spec"]
        for each in (*pod["initContainers"], *pod["containers"]):
            assert each["image"] == "registry.example/retrieval-platform:0.1.0"
            assert [next(iter(source)) for source in each["envFrom"]] == ["configMapRef", "secretRef"]
            assert each["args"]


def test_the_dashboard_can_be_imported() -> None:
    """Panels have different ids, do not overlap, and use the chosen data source."""
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {"datasource", "job", "instance"}
    sources = [target["datasource"]["uid"] for panel in panels for target in panel.get("targets", [])]
    assert set(sources) == {"${datasource}"}
