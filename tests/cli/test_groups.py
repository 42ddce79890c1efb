"""A group shows its commands without loading them, and loads the one that is called."""

import sys

import click
from click.testing import CliRunner

from broker.cli.groups import LazyGroup, Place

LAZY = "tests.cli.a_module_that_is_not_there"


def group() -> LazyGroup:
    places = {
        "topic": Place("broker.cli.topic", "Tells of topics."),
        "broken": Place(LAZY, "Cannot be loaded."),
    }
    return LazyGroup("tool", places=places)


def test_help_loads_nothing() -> None:
    done = CliRunner().invoke(group(), ["--help"])
    assert done.exit_code == 0
    assert "Tells of topics." in done.output
    assert "Cannot be loaded." in done.output
    assert LAZY not in sys.modules


def test_commands_are_listed_in_the_order_of_the_table() -> None:
    assert group().list_commands(click.Context(group())) == ["topic", "broken"]


def test_a_called_command_is_loaded() -> None:
    done = CliRunner().invoke(group(), ["topic", "--help"])
    assert "Create, change, list, count and remove topics." in done.output


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(group(), ["nothing"]).exit_code == 2
