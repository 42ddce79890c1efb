"""conf/broker.toml is what the settings say, and loading it changes nothing."""

import tomllib
from pathlib import Path

from broker.config.load import load
from broker.config.sample import sample_file
from broker.config.sections import KNOBS

FILE = Path(__file__).resolve().parents[2] / "conf" / "broker.toml"


def test_the_file_is_current() -> None:
    assert FILE.read_text("utf-8") == sample_file(), "python -m broker.config > conf/broker.toml"


def test_as_it_is_the_file_sets_nothing() -> None:
    assert load(file=FILE).origins == {}


def test_with_every_key_uncommented_it_sets_the_defaults(tmp_path: Path) -> None:
    lines = sample_file().split("\n")
    uncommented = [line.removeprefix("#") if " = " in line[1:40] else line for line in lines]
    file = tmp_path / "all.toml"
    file.write_text("\n".join(line for line in uncommented if not line.startswith(" ")))
    assert tomllib.loads(file.read_text())
    config = load(file=file)
    assert config.origins.keys() == KNOBS.keys()
    assert config.store == load().store
    assert config.broker == load().broker
