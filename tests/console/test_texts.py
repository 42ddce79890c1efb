"""Unknown text on pages and in command lines; the scripts that the wheel brings."""

import subprocess
from hashlib import sha256
from typing import Final

import pytest

from pocketmq.console import texts
from pocketmq.console.asset_files import FILES
from pocketmq.console.log_squares import legend_of

HTMX: Final = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""SHA-256 of htmx.min.js as npm has it in htmx.org@2.0.11."""


@pytest.mark.parametrize(
    "word",
    [
        "$(touch /tmp/x)",
        "`id`",
        "a b",
        "'; id; '",
        "-rf",
        "a\nb",
        "\x1b[2J",
        "\u202eevil",
        "ä",
        "\\",
    ],
)
def test_a_shell_parses_a_shown_command_to_the_same_words(word: str) -> None:
    line = texts.command("printf", r"%s\0%s", word, "end")
    assert not texts.UNSAFE.search(line)
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=10)
    assert done.stdout.decode() == f"{word}\0end"


def test_unsafe_characters_are_shown_by_their_numbers() -> None:
    shown = str(texts.shown("<b>\u202e\x07", 5))
    assert shown == '<bdi>&lt;b&gt;<i class="ctl">U+202E</i><i class="ctl">U+0007</i></bdi>'
    assert texts.shown("x" * 10, 3).endswith("…</bdi>")
    assert texts.plain("a\u202eb") == "a\ufffdb"


def test_an_address_is_shown_without_the_notation_of_grpc() -> None:
    assert texts.address("ipv4:10.0.0.7:4711") == "10.0.0.7:4711"
    assert texts.address("ipv6:%5B::1%5D:4711") == "[::1]:4711"


def test_the_script_of_others_is_the_one_that_was_published() -> None:
    assert sha256(FILES["htmx.min.js"]).hexdigest() == HTMX


def test_a_noun_is_in_the_plural_unless_there_is_one() -> None:
    assert [texts.counted(number, "topic") for number in (0, 1, 2, 1_000)] == [
        "0 topics", "1 topic", "2 topics", "1,000 topics",
    ]  # fmt: skip


def test_a_name_can_be_broken_at_its_dots_and_is_no_html() -> None:
    shown = texts.breakable("a.<b>_c")
    assert shown == "<bdi>a.<wbr>&lt;b&gt;_<wbr>c</bdi>"


@pytest.mark.parametrize(("count", "name"), [(7, "1 further topic"), (8, "2 further topics")])
def test_the_legend_of_a_map_counts_topics_without_a_colour(count: int, name: str) -> None:
    rows = legend_of([(f"t{number}", 10) for number in range(count)])
    assert (rows[-1].topic, rows[-1].size_bytes) == (name, 10 * (count - 6))
