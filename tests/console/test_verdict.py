"""The sentence of the overview names why sends are refused."""

import pytest

from pocketmq.console.pages.overview import Facts, StateSentence, _full_ms, verdict
from pocketmq.console.rates import RecentFlow
from pocketmq.console.texts import DAY_MS
from tests.cli.local_broker import STATUS

ABOVE = "the disk is 91 % used, the limit is 90 % (retention.disk_refuse_percent)"


def sentence(state: str, send_refusal: str) -> StateSentence:
    """Returns the sentence on a broker in this state, which also deleted files."""
    retention_state = f"refusing sends: {send_refusal}, deleted 3 files that an archive lacks"
    status = STATUS._replace(
        state=state, retention_state=retention_state, send_refusal=send_refusal
    )
    return verdict(Facts(status, 1, 0, 0.0, None, 0, 0, None, None, None))


@pytest.mark.parametrize("state", ["read_only", "disk_full"])
def test_a_limit_of_the_disk_is_named_with_its_figure_and_setting(state: str) -> None:
    found = sentence(state, ABOVE)
    assert found.text == f"Sends are refused: {ABOVE}. Reads are served."
    assert (found.tone, found.path) == ("bad", "/settings")


def test_a_full_disk_and_another_refusal_have_their_own_sentences() -> None:
    assert sentence("disk_full", "").text.startswith("The disk is full: sends are refused")
    assert sentence("read_only", "").text.startswith("The store is read-only")
    assert sentence("damaged", ABOVE).text.startswith("The log is damaged")


@pytest.mark.parametrize(("lag", "text"), [(1, "1 message waits, "), (2, "2 messages wait, ")])
def test_one_message_waits_and_several_wait(lag: int, text: str) -> None:
    found = verdict(Facts(STATUS, 1, 0, 0.0, None, lag, 0, None, None, None))
    assert found.text == f"{text}and no consumer is connected."


@pytest.mark.parametrize(("rate", "days"), [(1_000_000, 1), (1_000, None)])
def test_a_disk_that_is_full_in_years_is_no_fact(rate: int, days: int | None) -> None:
    status = STATUS._replace(disk_total_bytes=10**12, disk_free_bytes=86_400 * 10**6)
    rates = RecentFlow()
    rates.bytes_in.append(rate)
    assert _full_ms(status, rates) == (None if days is None else days * DAY_MS)
