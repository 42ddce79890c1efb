"""Patterns are found where they are looked for, and nowhere else."""

import re

import pytest

from broker.model.message import StoredMessage
from broker.tools.pattern_search import PLACES, matching
from broker.tools.selection import LogSearch, Selection
from tests.fakes.log_bytes import golden_files
from tests.golden_stores import GoldenStores


@pytest.mark.parametrize("place", PLACES)
def test_as_a_look_at_every_message_would_find(golden: GoldenStores, place: str) -> None:
    pattern, files = re.compile(rb"[0-9]7"), golden_files(golden, "basic")
    found = [m.physical_offset for m in matching(LogSearch(files, Selection()), pattern, place)]

    def holds(message: StoredMessage) -> bool:
        block = "\x02".join(f"{k}\x01{v}" for k, v in message.properties.items()).encode()
        in_body = place != "properties" and pattern.search(message.body) is not None
        return in_body or (place != "body" and pattern.search(block) is not None)

    every = LogSearch(files, Selection()).messages()
    assert found == [message.physical_offset for message in every if holds(message)]
    assert found
