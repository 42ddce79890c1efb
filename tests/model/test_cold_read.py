"""A read that would wait: it carries what brings the bytes."""

from broker.model.cold_read import ColdRead, LongChain


def test_whoever_catches_it_can_fetch() -> None:
    fetched: list[str] = []
    ColdRead(lambda: fetched.append("bytes")).fetch()
    assert fetched == ["bytes"]


def test_a_long_chain_says_where_to_go_on() -> None:
    assert LongChain("there").cursor == "there"
