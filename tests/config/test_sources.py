"""Files, a directory of more of them, and the environment, each told with the place of a value."""

from pathlib import Path

import pytest

from broker.config.layers import Layers
from broker.config.load import lines_of_keys, read_environment, read_file, read_files


@pytest.fixture
def layers() -> Layers:
    return Layers()


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def reasons(layers: Layers) -> list[str]:
    return [str(problem) for problem in layers.problems]


def test_a_value_is_told_with_its_file_and_line(layers: Layers, tmp_path: Path) -> None:
    text = '# a\n[broker]\n\nname = "b"\n[ store ]\n  flush="async"\n'
    file = written(tmp_path / "b.toml", text)
    read_file(layers, file)
    assert layers.origins == {"broker.name": f"{file}:4", "store.flush": f"{file}:6"}


def test_keys_with_dots_are_keys_of_sections(layers: Layers, tmp_path: Path) -> None:
    file = written(tmp_path / "b.toml", 'preset = "dev"\nstore.flush = "sync"\n')
    read_file(layers, file)
    assert layers.origins == {"store.flush": f"{file}:2"}
    assert layers.preset == "dev"


def test_a_key_whose_line_is_not_seen_has_its_file(layers: Layers, tmp_path: Path) -> None:
    file = written(tmp_path / "b.toml", 'store = { flush = "sync" }\n')
    read_file(layers, file)
    assert layers.origins == {"store.flush": str(file)}


def test_an_unknown_section_is_refused_even_when_empty(layers: Layers, tmp_path: Path) -> None:
    read_file(layers, written(tmp_path / "b.toml", "[sotre]\n"))
    assert len(layers.problems) == 1
    assert "sotre" in reasons(layers)[0]


def test_a_section_in_a_section_is_unknown(layers: Layers, tmp_path: Path) -> None:
    read_file(layers, written(tmp_path / "b.toml", "[store.flush]\nmode = 1\n"))
    assert len(layers.problems) == 1
    assert "store.flush" in reasons(layers)[0]


@pytest.mark.parametrize("content", [b"[store\n", b"\xff\xfe", b"[a]\n[a]\n"])
def test_what_is_no_toml_is_refused(layers: Layers, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "b.toml"
    file.write_bytes(content)
    read_file(layers, file)
    assert str(file) in reasons(layers)[0]
    assert layers.origins == {}


def test_parts_go_over_the_file_by_their_names(layers: Layers, tmp_path: Path) -> None:
    file = written(tmp_path / "b.toml", '[broker]\nname = "file"\ncluster = "file"\n')
    later = written(tmp_path / "conf.d" / "20.toml", '[broker]\nname = "20"\n')
    early = written(tmp_path / "conf.d" / "10.toml", '[broker]\nname = "10"\npermission = 4\n')
    written(tmp_path / "conf.d" / "30.toml.off", '[broker]\nname = "30"\n')
    read_files(layers, file)
    assert layers.values == {"broker.name": "20", "broker.cluster": "file", "broker.permission": 4}
    assert layers.origins == {
        "broker.name": f"{later}:2",
        "broker.cluster": f"{file}:3",
        "broker.permission": f"{early}:3",
    }


def test_lines_are_found_by_section_and_key() -> None:
    text = 'preset = "dev"\n[a]\nb = 1 # c = 2\n[d.e]\nf = 3\n'
    assert lines_of_keys(text) == {"preset": 1, "a.b": 3, "d.e.f": 5}


def test_variables_are_sections_and_keys(layers: Layers) -> None:
    read_environment(layers, {"POCKETMQ__STORE__FLUSH": '"async"', "POCKETMQ_ENDPOINT": "h:1"})
    assert layers.values == {"store.flush": "async"}
    assert layers.origins == {"store.flush": "POCKETMQ__STORE__FLUSH"}


def test_a_variable_may_name_a_file_with_the_value(layers: Layers, tmp_path: Path) -> None:
    secret = written(tmp_path / "name", "b7\n")
    read_environment(layers, {"POCKETMQ__BROKER__NAME_FILE": str(secret)})
    assert layers.values == {"broker.name": "b7"}
    assert layers.origins == {"broker.name": f"POCKETMQ__BROKER__NAME_FILE {secret}"}


def test_a_file_that_cannot_be_read_is_named(layers: Layers, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    read_environment(
        layers,
        {
            "POCKETMQ__BROKER__CLUSTER_FILE": str(binary),
            "POCKETMQ__BROKER__NAME_FILE": str(tmp_path / "none"),
        },
    )
    assert f"{binary} cannot be read: it is not UTF-8" in reasons(layers)[0]
    assert f"{tmp_path / 'none'} cannot be read: No such file" in reasons(layers)[1]


def test_a_value_and_a_file_for_it_are_refused_together(layers: Layers, tmp_path: Path) -> None:
    both = {"POCKETMQ__BROKER__NAME": "a", "POCKETMQ__BROKER__NAME_FILE": str(tmp_path / "none")}
    read_environment(layers, both)
    assert "POCKETMQ__BROKER__NAME is set as well" in reasons(layers)[0]


def test_an_unknown_variable_names_the_nearest_key(layers: Layers) -> None:
    read_environment(layers, {"POCKETMQ__STORE__FLSH": "1", "POCKETMQ__STORE__FLSH_FILE": "1"})
    assert "did you mean store.flush?" in reasons(layers)[0]
    assert "POCKETMQ__STORE__FLSH_FILE" in reasons(layers)[1]


def test_the_preset_has_a_variable_of_its_own(layers: Layers) -> None:
    read_environment(layers, {"POCKETMQ_PRESET": "server"})
    assert (layers.preset, layers.preset_origin) == ("server", "POCKETMQ_PRESET")
    read_environment(layers, {"POCKETMQ_PRESET": ""})
    assert layers.preset == "server"
