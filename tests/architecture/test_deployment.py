"""Compose file, manifest, units and recipes name what the image and the broker really have."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from pocketmq.app.container import IMAGE, SECRET, SECRET_FILE, STORE, USER
from pocketmq.app.serve import EXIT_STORE_FAILED
from pocketmq.cli.output import Exit
from pocketmq.config.load import SHORT_VARIABLES, load
from pocketmq.config.sections import Config
from tests.e2e.recipes import LANGUAGES, recipes

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {"/livez", "/readyz", "/startupz", "/metrics"}
MANIFEST: Final = ROOT / "conf" / "kubernetes" / "pocketmq.yaml"


def image_defaults() -> Config:
    """Returns the settings of the image without any of an operator."""
    return load(environment={"POCKETMQ_DEFAULTS": str(ROOT / "conf" / "image.toml")})


def manifest() -> dict[str, Any]:
    documents = yaml.safe_load_all(MANIFEST.read_text("utf-8"))
    return {document["kind"]: document for document in documents}


def broker_of(stateful_set: dict[str, Any]) -> dict[str, Any]:
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def test_the_image_serves_where_it_says() -> None:
    config, text = image_defaults(), (ROOT / "Dockerfile").read_text("utf-8")
    assert f"\nVOLUME {config.store.directory}\n" in text
    ports = [address.rpartition(":")[2] for address in (config.rpc.listen, config.http.listen)]
    assert f"\nEXPOSE {' '.join(ports)}\n" in text
    assert config.store.directory == STORE
    assert {config.rpc.listen.rpartition(":")[0], config.http.listen.rpartition(":")[0]} == {
        "0.0.0.0"
    }
    assert f"{IMAGE}=pocketmq" in text
    assert "\nCOPY conf/image.toml /etc/pocketmq/image.toml\n" in text
    assert "POCKETMQ_DEFAULTS=/etc/pocketmq/image.toml" in text


def test_variables_of_containers_are_ones_that_count() -> None:
    known = {IMAGE, SECRET, USER, "POCKETMQ_DEFAULTS", "POCKETMQ_PRESET", *SHORT_VARIABLES}
    known |= {"POCKETMQ_COMMIT", "POCKETMQ_COMPILE", "POCKETMQ_OPTIMIZE"}  # of the build
    files = [ROOT / "compose.yaml", MANIFEST, *(ROOT / "conf" / "systemd").iterdir()]
    files += [ROOT / "Dockerfile", ROOT / "docs" / "howto" / "containers.md"]
    for path in files:
        named = set(re.findall(r"\bPOCKETMQ_[A-Z]\w*", path.read_text("utf-8")))
        assert named <= known, path
    assert SECRET_FILE in known


def test_compose_mounts_files_that_exist_and_scrapes_the_broker() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    mounts = [mount for one in compose["services"].values() for mount in one.get("volumes", ())]
    for source in (mount.partition(":")[0] for mount in mounts):
        assert source in compose["volumes"] or (ROOT / source).is_file(), source
    assert f"store:{STORE}" in compose["services"]["broker"]["volumes"]
    scraped = yaml.safe_load(compose["configs"]["prometheus"]["content"])
    (job,) = scraped["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    name, _, port = target.partition(":")
    assert name in compose["services"]
    assert image_defaults().http.listen.endswith(f":{port}")
    published = [port for one in compose["services"].values() for port in one.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)
    grace_ms = int(compose["services"]["broker"]["stop_grace_period"].removesuffix("s")) * 1000
    assert grace_ms > Config().rpc.shutdown_grace_ms


def test_composes_dashboard_finds_the_broker_as_its_name_server() -> None:
    """Dashboard 2.1.0 listens on 8082, and its own namesrvAddrs go before a namesrvAddr."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    options = services["dashboard"]["environment"]["JAVA_OPTS"]
    (address,) = re.findall(r"-Drocketmq\.config\.namesrvAddrs=(\S+)", options)
    name, _, port = address.partition(":")
    assert name in services
    assert image_defaults().rpc.listen.endswith(f":{port}")
    assert "-Drocketmq.config.isVIPChannel=false" in options
    image, published = services["dashboard"]["image"], services["dashboard"]["ports"]
    assert image.endswith(":2.1.0")
    assert [one.rpartition(":")[2] for one in published] == ["8082"]


def test_the_provisioned_datasource_and_dashboard_are_where_compose_has_them() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    monitoring = ROOT / "conf" / "monitoring"
    (source,) = yaml.safe_load((monitoring / "grafana-datasource.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((monitoring / "grafana-provider.yml").read_text())["providers"]
    mounts = compose["services"]["grafana"]["volumes"]
    assert any(f":{provider['options']['path']}/" in mount for mount in mounts)


def test_the_manifest_probes_pages_that_exist_on_ports_of_the_image() -> None:
    broker = broker_of(manifest()["StatefulSet"])
    ports = {one["name"]: one["containerPort"] for one in broker["ports"]}
    config = image_defaults()
    assert config.rpc.listen.endswith(f":{ports['grpc']}")
    assert config.http.listen.endswith(f":{ports['http']}")
    probes = [broker[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert [probe["path"] for probe in probes] == ["/startupz", "/readyz", "/livez"]
    assert {probe["port"] for probe in probes} == {"http"}
    (endpoint,) = manifest()["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["path"] in PAGES
    assert endpoint["port"] in {one["name"] for one in manifest()["Service"]["spec"]["ports"]}


def test_the_manifest_has_one_broker_for_its_store_and_no_rights() -> None:
    spec = manifest()["StatefulSet"]["spec"]
    pod, broker = spec["template"]["spec"], broker_of(manifest()["StatefulSet"])
    assert spec["replicas"] == 1
    mounts = {one["name"]: one["mountPath"] for one in broker["volumeMounts"]}
    (claim,) = spec["volumeClaimTemplates"]
    assert mounts[claim["metadata"]["name"]] == STORE
    secret = {one["name"]: one["value"] for one in broker["env"]}[SECRET_FILE]
    assert secret.startswith(f"{mounts['secret']}/")
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 3000
    assert broker["securityContext"]["readOnlyRootFilesystem"] is True
    assert broker["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["terminationGracePeriodSeconds"] * 1000 > Config().rpc.shutdown_grace_ms


def test_the_selectors_of_the_manifest_meet() -> None:
    kinds = manifest()
    labels = kinds["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert kinds["Service"]["spec"]["selector"] == labels
    assert kinds["StatefulSet"]["spec"]["selector"]["matchLabels"] == labels
    monitor = kinds["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"] == kinds["Service"]["metadata"]["labels"]
    # Alerts and dashboard ask for job="pocketmq".
    assert kinds["Service"]["metadata"]["labels"][monitor["jobLabel"]] == "pocketmq"


def test_the_service_is_not_restarted_in_vain() -> None:
    text = (ROOT / "conf" / "systemd" / "pocketmq.service").read_text("utf-8")
    assert f"RestartPreventExitStatus={Exit.USAGE} {EXIT_STORE_FAILED}" in text
    stop = re.search(r"TimeoutStopSec=(\d+)", text)
    assert stop is not None
    assert int(stop[1]) * 1000 > Config().rpc.shutdown_grace_ms
    assert f"serve --store {STORE}" in text


def test_each_recipe_opens_the_broker_and_waits_for_it() -> None:
    found = recipes()
    assert [*found][:4] == [*LANGUAGES]
    assert len(found) == 6
    for name, recipe in found.items():
        assert recipe.environment == {"POCKETMQ_INSECURE": "1", "POCKETMQ_PRESET": "dev"}, name
        assert "8081" in recipe.ports
        if name in LANGUAGES:
            assert recipe.ready_page in PAGES
            assert "5557" in recipe.ports
