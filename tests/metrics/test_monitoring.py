"""Alerts, rules and dashboard ask for metrics that there are, by labels they have."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.metrics.contract import (
    ACCESS,
    FOLLOWER,
    FULL,
    NATIVE,
    OWN,
    ROLES,
    SETTINGS,
    TIMER,
)  # fmt: skip

DIRECTORY: Final = Path(__file__).resolve().parents[2] / "conf" / "monitoring"
DASHBOARD: Final = DIRECTORY / "grafana-dashboard.json"
FILES: Final = sorted(path.name for path in DIRECTORY.iterdir())
REPLICATION: Final = (*ROLES, *FOLLOWER)
ALL: Final = (*NATIVE, *TIMER, *ACCESS, *SETTINGS, *OWN, *FULL, *REPLICATION)
ROWS: Final = {row.name: row for row in ALL}
# Recorded series have colons in their names.
METRIC: Final = re.compile(r"(?<![\w:])(?:rocketmq|pocketmq)_\w+(?![\w:])")
SELECTOR: Final = re.compile(r"((?:rocketmq|pocketmq)_\w+)\s*\{([^}]*)\}")
SCRAPED: Final = {"instance", "job"}


def expressions() -> dict[str, list[str]]:
    """Returns every expression of every file."""
    found: dict[str, list[str]] = {}
    for path in DIRECTORY.glob("*.yml"):
        text = path.read_text("utf-8")
        found[path.name] = re.findall(r"expr: (?:>-\n)?((?:.+\n)(?: {10,}.+\n)*)", text)
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    found[DASHBOARD.name] = [t["expr"] for panel in panels for t in panel.get("targets", ())]
    return found


def family(name: str) -> str:
    """Returns the metric that a series belongs to."""
    base = re.sub(r"_(bucket|count|sum)$", "", name)
    return base if base in ROWS and ROWS[base].kind == "histogram" else name


def test_there_is_what_the_manual_says() -> None:
    assert FILES == [
        "alerts.yml",
        "grafana-dashboard.json",
        "grafana-datasource.yml",
        "grafana-provider.yml",
        "prometheus.yml",
        "recording-rules.yml",
    ]
    found = expressions()
    assert {name: bool(texts) for name, texts in found.items()} == {
        "alerts.yml": True,
        "grafana-dashboard.json": True,
        "grafana-datasource.yml": False,
        "grafana-provider.yml": False,
        "prometheus.yml": False,
        "recording-rules.yml": True,
    }


@pytest.mark.parametrize("file", FILES)
def test_metrics_asked_for_are_in_the_contract(file: str) -> None:
    asked = {name for text in expressions()[file] for name in METRIC.findall(text)}
    assert not {name for name in asked if family(name) not in ROWS}


@pytest.mark.parametrize("file", FILES)
def test_labels_asked_for_are_labels_of_the_metric(file: str) -> None:
    for text in expressions()[file]:
        for name, body in SELECTOR.findall(text):
            labels = set(re.findall(r"(\w+)\s*[=!]~?", body))
            known = {*ROWS[family(name)].all_labels, *SCRAPED, "le"}
            assert labels <= known, text


def test_histograms_are_asked_for_by_a_series_of_theirs() -> None:
    for texts in expressions().values():
        for name in (name for text in texts for name in METRIC.findall(text)):
            assert not (name in ROWS and ROWS[name].kind == "histogram"), name


def panels() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return rows


def test_the_dashboard_keeps_its_uid() -> None:
    assert json.loads(DASHBOARD.read_text("utf-8"))["uid"] == "pocketmq-broker"


def test_panels_have_ids_and_places_of_their_own() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(places) == len(set(places))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels())


def test_an_alert_says_how_bad_it_is_and_what_to_do() -> None:
    text = (DIRECTORY / "alerts.yml").read_text("utf-8")
    alerts = re.split(r"- alert: ", text)[1:]
    for alert in alerts:
        name = alert.split("\n")[0]
        assert re.search(r"severity: (warning|critical)", alert), name
        assert "summary:" in alert, name
        assert "description:" in alert, name
