"""A read that would wait: it carries what brings the bytes."""

from broker.model.cold_read import ColdRead


def test_whoever_catches_it_can_fetch() -> None:
    fetched: list[str] = []
    ColdRead(lambda: fetched.append("bytes")).fetch()
    assert fetched == ["bytes"]
