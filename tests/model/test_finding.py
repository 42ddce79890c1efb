"""A finding has the six fields every check speaks of."""

from broker.model.finding import Finding


def test_the_fields() -> None:
    assert Finding._fields == ("kind", "file", "offset", "expected", "found", "repairable")
    assert Finding("unit", "f", 1, "a", "b").repairable
