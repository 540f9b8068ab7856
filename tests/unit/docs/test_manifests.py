"""The manifests for Kubernetes fit each other, the queue's name and the worker's options."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from quarterjack.sqs.stripes import Stripe

from tests.support.doc_pages import ROOT
from tests.support.parsed_commands import check_quarterjack

PAGE = "docs/how-to/run-workers-on-containers.md"
_AFTER_GRACE = 15  # seconds for the last long poll and for what is released


@pytest.fixture(scope="module")
def manifests() -> dict[str, dict[str, Any]]:
    """By kind."""
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / PAGE).read_text(encoding="utf-8"), re.DOTALL)
    return {each["kind"]: each for each in yaml.safe_load_all(block)}


@pytest.fixture
def pod(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    template: dict[str, Any] = manifests["Deployment"]["spec"]["template"]
    return template


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["spec"]["containers"]
    return dict(found)


def option(container: dict[str, Any], name: str) -> str:
    return str(container["args"][container["args"].index(name) + 1])


def test_the_worker_takes_its_options(container: dict[str, Any]) -> None:
    command: list[str] = container["command"] + container["args"]
    program, *words = command
    assert program == "quarterjack"
    assert all(isinstance(word, str) for word in words)
    check_quarterjack(list(words))


def test_the_deployment_finds_its_pods(manifests: dict[str, dict[str, Any]], pod: dict[str, Any]) -> None:
    assert manifests["Deployment"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert "replicas" not in manifests["Deployment"]["spec"]  # KEDA says how many


def test_the_platform_waits_longer_than_the_worker(pod: dict[str, Any], container: dict[str, Any]) -> None:
    assert pod["spec"]["terminationGracePeriodSeconds"] >= int(option(container, "--grace")) + _AFTER_GRACE


def test_the_probes_ask_where_the_worker_answers(container: dict[str, Any]) -> None:
    ((name, port),) = [(each["name"], each["containerPort"]) for each in container["ports"]]
    assert option(container, "--health") == f"0.0.0.0:{port}"
    asked = {kind: container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {kind: probe["path"] for kind, probe in asked.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {probe["port"] for probe in asked.values()} == {name}


def test_keda_scales_this_deployment_by_this_queue(
    manifests: dict[str, dict[str, Any]], container: dict[str, Any]
) -> None:
    scaled = manifests["ScaledObject"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == manifests["Deployment"]["metadata"]["name"]
    assert scaled["minReplicaCount"] < scaled["maxReplicaCount"]
    (trigger,) = scaled["triggers"]
    assert trigger["authenticationRef"]["name"] == manifests["TriggerAuthentication"]["metadata"]["name"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    read = trigger["metadata"]
    name = f"{variables['QUARTERJACK_PREFIX']}-{Stripe(option(container, '--queue')).suffix}"
    assert read["queueURL"].endswith(f"/{name}")
    assert read["awsRegion"] == variables["AWS_REGION"]
    assert read["queueLength"] == option(container, "--concurrency")
    assert all(isinstance(value, str) for value in read.values())  # KEDA takes texts only
