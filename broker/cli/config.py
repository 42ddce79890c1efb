"""`pocketmq config`: writing, checking, showing and comparing settings, without a broker."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.failures import EXIT_FAILED, EXIT_REFUSED, Failure
from broker.cli.options import file_option, output_option, preset_option, set_option
from broker.cli.output import Document, Rows, column, print_document, talk

if TYPE_CHECKING:
    from broker.config.knob import Value
    from broker.config.sections import Config

CONF_FILE: Final = click.Path(path_type=Path, dir_okay=False)
DRAFT_SUFFIX: Final = ".draft"

EPILOG: Final = """\b
Examples:
  pocketmq config init broker.toml
  pocketmq config check broker.toml
  pocketmq config show -c broker.toml --origin
  pocketmq config import-broker-conf broker.conf > broker.toml
"""


@click.group(epilog=EPILOG)
def config() -> None:
    """Write, check, show and compare settings; no broker is asked.

    Over the defaults and the preset go the file, conf.d/*.toml beside it, POCKETMQ__SECTION__KEY
    and --set, in this order.
    """


@config.command(
    epilog="""\b
Examples:
  pocketmq config init broker.toml
  pocketmq config init --preset server > broker.toml
"""
)
@click.argument("file", type=CONF_FILE, required=False)
@preset_option
@click.option("--yes", is_flag=True, help="Replace a file that exists.")
def init(file: Path | None, preset: str | None, *, yes: bool) -> None:
    """Write a file to start from.

    It has every setting with its reason and default, commented out. Without FILE it goes to
    standard output.
    """
    from broker.config.document import sample_file
    from broker.config.sections import EDGE

    text = sample_file(_known_preset(preset or EDGE))
    if file is None:
        click.echo(text, nl=False)
        return
    if file.exists() and not yes:
        raise Failure(f"{file} exists; nothing was written", EXIT_REFUSED, "replace it with --yes")
    _replace_file(file, text)
    talk(f"{file} is written; it sets {f'preset {preset}' if preset else 'nothing'} as it is")


def _known_preset(preset: str) -> str:
    from broker.config.load import load

    return load(preset=preset).preset


def _replace_file(path: Path, text: str) -> None:
    draft = path.with_name(path.name + DRAFT_SUFFIX)
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise Failure(f"{path} cannot be written: {error.strerror}", EXIT_FAILED) from error


@config.command(
    epilog="""\b
Examples:
  pocketmq config check broker.toml
  pocketmq config check broker.toml -o json
"""
)
@click.argument("file", type=CONF_FILE)
@output_option
def check(file: Path, output_format: str | None) -> None:
    """Tell everything that is wrong with a file.

    FILE is read with conf.d beside it; the environment is left aside. Exit code 1 if anything is
    wrong.
    """
    from broker.config.load import examine

    loaded = examine(file=file)
    problems, warnings = [str(problem) for problem in loaded.problems], loaded.config.warnings
    for warning in warnings:
        talk(f"Note: {warning}")
    document = {"file": str(file), "valid": not problems, "preset": loaded.config.preset}
    document |= {"set_count": len(loaded.config.origins)}
    print_document({**document, "problems": problems, "warnings": [*warnings]}, output_format)
    if problems:
        raise Failure("\n       ".join(problems), EXIT_FAILED, f"mend {file}, then check it again")


@config.command(
    epilog="""\b
Examples:
  pocketmq config show
  pocketmq config show -c broker.toml --set store.flush=async --origin
  pocketmq config show --preset server -o json
"""
)
@click.option("--origin", is_flag=True, help="Say who set each value.")
@file_option
@preset_option
@set_option
@output_option
def show(
    file: Path | None,
    preset: str | None,
    assignments: tuple[str, ...],
    output_format: str | None,
    *,
    origin: bool,
) -> None:
    """Print every setting.

    Values are those `serve` would have here, with this environment."""
    from broker.config.load import load

    loaded = load(file=file, environment=os.environ, assignments=assignments, preset=preset)
    for warning in loaded.warnings:
        talk(f"Note: {warning}")
    titles = ("key", "value", "origin") if origin else ("key", "value")
    columns = {title.upper(): column(title) for title in titles}
    columns["VALUE"] = column("text")
    with Rows(output_format, columns) as rows:
        for row in _shown(loaded):
            rows.add(row if origin else {k: v for k, v in row.items() if k != "origin"})


def _shown(loaded: "Config") -> Iterator[Document]:
    from broker.config.sections import KNOBS

    preset = loaded.preset
    yield {"key": "preset", "value": preset, "text": preset, "origin": loaded.preset_origin}
    for key in KNOBS:
        value = loaded.value(key)
        yield {"key": key, "value": value, "text": _text(key, value), "origin": loaded.origin(key)}


def _text(key: str, value: "Value") -> str:
    from broker.config.sections import KNOBS

    return KNOBS[key].text_of(value) if value != "" else '""'


@config.command(
    epilog="""\b
Examples:
  pocketmq config diff old.toml new.toml
"""
)
@click.argument("file_a", type=CONF_FILE)
@click.argument("file_b", type=CONF_FILE)
@output_option
def diff(file_a: Path, file_b: Path, output_format: str | None) -> None:
    """Print where two files differ.

    Exit code 1 if they do. Each file counts with conf.d beside it and its preset; the environment
    is left aside.
    """
    from broker.config.load import load

    left, right = load(file=file_a), load(file=file_b)
    with Rows(output_format, {"KEY": column("key"), "A": column("a"), "B": column("b")}) as rows:
        rows_of_a = {str(row["key"]): row for row in _shown(left)}
        different = [row for row in _shown(right) if rows_of_a[row["key"]]["value"] != row["value"]]
        for row in different:
            rows.add(_difference(rows_of_a[row["key"]], row))
    if different:
        raise click.exceptions.Exit(EXIT_FAILED)


def _difference(left: Document, right: Document) -> dict[str, Any]:
    return {
        "key": left["key"],
        "a": left["text"],
        "b": right["text"],
        "origin_a": left["origin"],
        "origin_b": right["origin"],
    }


@config.command(
    "import-broker-conf",
    epilog="""\b
Examples:
  pocketmq config import-broker-conf /opt/rocketmq/conf/broker.conf > broker.toml
""",
)
@click.argument("file", type=CONF_FILE)
def import_broker_conf(file: Path) -> None:
    """Print RocketMQ's broker.conf as our settings.

    What has no meaning here is left out; comments at the end say what and why. A name RocketMQ does
    not know is an error, and nothing is printed.
    """
    from broker.config.broker_conf import import_file

    imported = import_file(file)
    for warning in imported.warnings:
        talk(f"Note: {warning}")
    for problem in imported.problems[:-1]:
        talk(f"Error: {problem}")
    if imported.problems:
        raise imported.problems[-1]
    click.echo(imported.text, nl=False)
    if imported.left_out:
        talk(f"Note: left out {', '.join(imported.left_out)}; the end of the output says why")
