"""`pocketmq config`: writing, checking, showing and comparing settings, without a broker."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pocketmq.cli.groups import NamingGroup
from pocketmq.cli.options import (
    FILE,
    PATH,
    examples,
    file_option,
    force_option,
    form_option,
    preset_option,
    remember_settings,
    set_option,
)
from pocketmq.cli.output import (
    Column,
    Document,
    Exit,
    Failure,
    Output,
    columns,
    talk,
    talk_notes,
    typed,
    write,
)
from pocketmq.cli.text_file import replace_text

if TYPE_CHECKING:
    from pocketmq.config.sections import Config

IMPORT: Final = "pocketmq config import-broker-conf"
VALUE: Final = Column("value", lambda row: row["text"], also=("text",))


@click.group(
    cls=NamingGroup,
    epilog=examples(
        "pocketmq config init broker.toml",
        "pocketmq config check broker.toml",
        "pocketmq config show -c broker.toml --origin",
        "pocketmq config import-broker-conf broker.conf > broker.toml",
    ),
)
def config() -> None:
    """Write, check, show and compare settings, without a broker.

    Precedence, from low to high: the defaults, the preset, the file of POCKETMQ_DEFAULTS, the file,
    conf.d/*.toml beside it, POCKETMQ__SECTION__KEY and --set. The file is TOML or RocketMQ's
    broker.conf.
    """


@config.command(
    epilog=examples(
        "pocketmq config init broker.toml", "pocketmq config init --preset server > broker.toml"
    )
)
@click.argument("file", type=FILE, required=False)
@preset_option
@click.option("--yes", is_flag=True, help="Replace an existing file.")
def init(file: Path | None, preset: str | None, *, yes: bool) -> None:
    """Write a settings file to start from.

    The file contains every setting, commented out, with its default and its explanation. Without
    FILE, it is printed to standard output.
    """
    from pocketmq.config.document import sample_file
    from pocketmq.config.load import load
    from pocketmq.config.sections import EDGE

    text = sample_file(load(preset=preset or EDGE).preset)  # refuses an unknown preset
    if file is None:
        click.echo(text, nl=False)
        return
    if file.exists() and not yes:
        raise Failure(f"{file} exists; nothing was written", Exit.REFUSED, "replace it with --yes")
    replace_text(file, text)
    set_now = f"preset {preset} and nothing else" if preset else "nothing yet"
    talk(f"Wrote {file} with every setting, commented out; it sets {set_now}")


@config.command(
    epilog=examples(
        "pocketmq config check broker.toml", "pocketmq config check -c broker.toml -o json"
    )
)
@click.argument("operand", metavar="FILE", type=FILE, required=False)
@file_option
@force_option
@form_option
def check(operand: Path | None, file: Path | None, out: Output, *, force: bool) -> None:
    """Report all errors of a settings file.

    FILE is read with conf.d beside it; the environment is ignored. Exit code 1 if there are errors.
    Files that it names, of certificates and secrets, cause warnings if this user cannot read them.
    """
    from pocketmq.config.load import examine, with_parts
    from pocketmq.config.relations import unread

    file = _settings_file(operand, file)
    if file is None:
        raise click.UsageError("name a settings file: pocketmq config check broker.toml")
    loaded = examine(file=file, force=force)
    problems = [str(problem) for problem in loaded.problems]
    warnings = [*loaded.config.warnings, *unread(loaded.config)]
    document = {
        "file": str(file),
        "valid": not problems,
        "preset": loaded.config.preset,
        "set_count": len(loaded.config.origins),
    }
    # A table has only the number of problems: their texts are printed below it.
    texts = {"problems": problems, "warnings": warnings}
    out.show(document | ({"problem_count": len(problems)} if out.is_table else texts))
    talk_notes(warnings)
    if problems:
        is_foreign = IMPORT in problems[0]  # The problem itself names the next step.
        step = "" if is_foreign else _step_of_check(problems, file, with_parts(file), force)
        if not file.exists():
            step = f"name another file, or make this one: pocketmq config init {typed(file)}"
        raise Failure("\n       ".join(problems), Exit.FAILED, step)


def _step_of_check(problems: Sequence[str], file: Path, read: Sequence[Path], force: bool) -> str:
    """Returns the next step, with those of the read files that the problems name."""
    marks = {path: (f"({path}:", f"({path})") for path in read}
    faulty = [
        str(path)
        for path in read
        if any(
            problem.startswith(f"{path}: ") or any(mark in problem for mark in marks[path])
            for problem in problems
        )
    ]
    command = f"pocketmq config check {typed(file)}{' --force' if force else ''}"
    return f"correct {' and '.join(faulty or [str(file)])}, then: {command}"


@config.command(
    epilog=examples(
        "pocketmq config show",
        "pocketmq config show -c broker.toml --set store.flush=async --origin",
        "pocketmq config show --preset server -o json",
    )
)
@click.argument("operand", metavar="[FILE]", type=FILE, required=False, callback=remember_settings)
@click.option("--origin", is_flag=True, help="Print the origin of each value.")
@file_option
@preset_option
@set_option
@force_option
@form_option
def show(
    operand: Path | None, out: Output, assignments: tuple[str, ...], *, origin: bool, **sources: Any
) -> None:
    """Print every setting.

    Values are those that `serve` would use with FILE and this environment."""
    if operand is not None and not operand.exists() and str(operand) in _keys():
        step = f"pocketmq config show -o table | grep {operand}"
        raise click.UsageError(f"{operand} is a setting, not a file: {step}")
    sources["file"] = _settings_file(operand, sources["file"])
    print_settings(out, assignments, origin=origin, **sources)


def _keys() -> Collection[str]:
    from pocketmq.config.sections import KNOBS

    return KNOBS


def _settings_file(operand: Path | None, option: Path | None) -> Path | None:
    if operand is not None and option is not None:
        raise click.UsageError(f"name one settings file: {operand} or -c {option}, not both")
    return option if operand is None else operand


def print_settings(
    out: Output, assignments: Sequence[str], *, origin: bool = False, **sources: Any
) -> None:
    """Prints the settings of these sources and the environment.

    Errors   IllegalConfig
    """
    from pocketmq.config.load import load

    loaded = load(environment=os.environ, assignments=assignments, **sources)
    talk_notes(loaded.warnings)
    rows = _shown(loaded)
    if origin:
        out.table(rows, columns("key", VALUE, "origin"))
    else:
        hidden = ({k: v for k, v in row.items() if k != "origin"} for row in rows)
        out.table(hidden, columns("key", VALUE))


def _shown(loaded: "Config") -> Iterator[Document]:
    from pocketmq.config.sections import KNOBS

    preset = loaded.preset
    yield {"key": "preset", "value": preset, "text": preset, "origin": loaded.preset_origin}
    for key, knob in KNOBS.items():
        value = loaded.value(key)
        text = knob.text_of(value) if value != "" else '""'
        yield {"key": key, "value": value, "text": text, "origin": loaded.origin(key)}


@config.command(epilog=examples("pocketmq config diff old.toml new.toml"))
@click.argument("file_a", type=FILE)
@click.argument("file_b", type=FILE)
@form_option
def diff(file_a: Path, file_b: Path, out: Output) -> None:
    """Print the settings in which two files differ.

    Exit code 1 if they differ. Each file is read with conf.d beside it and its preset; the
    environment is ignored.
    """
    from pocketmq.config.load import load

    pairs = zip(*(_shown(load(file=file, force=True)) for file in (file_a, file_b)), strict=True)
    different = [
        {
            "key": left["key"],
            "a": left["text"],
            "b": right["text"],
            "origin_a": left["origin"],
            "origin_b": right["origin"],
        }
        for left, right in pairs
        if left["value"] != right["value"]
    ]
    out.table(different, columns("key", "a", "b"))
    if different:
        raise click.exceptions.Exit(Exit.FAILED)


@config.command(
    "import-broker-conf",
    epilog=examples(
        "pocketmq config import-broker-conf /opt/rocketmq/conf/broker.conf > broker.toml",
        "pocketmq config import-broker-conf broker.conf --strict",
        "pocketmq config import-broker-conf plain_acl.yml --store ./store",
    ),
)
@click.argument("file", type=FILE)
@click.option("--strict", is_flag=True, help="Fail on unknown names.")
@click.option(
    "--store",
    type=PATH,
    metavar="DIR",
    help="For plain_acl.yml: write its users and grants into this store, which must not be in use.",
)
def import_broker_conf(file: Path, *, strict: bool, store: Path | None) -> None:
    """Print RocketMQ's broker.conf or rmq-proxy.json as settings; import plain_acl.yml.

    Settings without a counterpart in PocketMQ are omitted; comments at the end list them with the
    reason. A value that cannot be parsed is an error, and nothing is printed.

    For plain_acl.yml, users and grants are printed, without secrets. With --store they are also
    written into that store, all or none.
    """
    from pocketmq.cli.import_acl import import_acl
    from pocketmq.config.broker_conf import import_file

    if import_acl(file, store):
        return
    if store is not None:
        raise click.UsageError("--store is only for plain_acl.yml")
    imported = import_file(file, strict=strict)
    talk_notes(imported.warnings)
    for problem in imported.problems[:-1]:
        talk(f"Error: {problem}")
    if imported.problems:
        raise imported.problems[-1]
    write(imported.text)
    if imported.left_out:
        talk_notes([f"omitted: {', '.join(imported.left_out)}; the output ends with the reasons"])
    if imported.unknown:
        talk_notes([f"unknown: {', '.join(imported.unknown)}; --strict refuses these"])
