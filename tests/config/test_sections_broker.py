"""What the broker is told of itself has the defaults of the parts it is for."""

from broker.config.sections import KNOBS, LogsSection, MetricsSection
from broker.metrics.exposition import SERIES_MAX
from broker.metrics.numbers import FULL, PUBLIC
from broker.metrics.profiles import NATIVE


def test_metrics_have_the_defaults_of_the_metrics() -> None:
    section = MetricsSection()
    assert (section.profile, section.max_series) == (NATIVE, SERIES_MAX)
    assert KNOBS["metrics.detail"].choices == (PUBLIC, FULL)


def test_logs_are_for_people_on_a_terminal_only() -> None:
    assert LogsSection() == LogsSection(level="info", format="auto")
