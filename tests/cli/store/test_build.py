"""`pocketmq store rebuild`: a plan unless told to do it, then the golden bytes."""

from pathlib import Path

from tests.cli.command_line import run
from tests.fakes.log_bytes import views
from tests.golden_stores import GoldenStores


def test_beside_the_store_nothing_needs_to_be_agreed_to(
    golden: GoldenStores, tmp_path: Path
) -> None:
    store, out = str(golden.store("basic")), tmp_path / "out"
    done = run("store", "rebuild", store, "--out", str(out), "--check-crc", "--time-zone", "UTC")
    assert done.code == 0
    assert done.document["records"] == 2871
    assert "2871 records" in done.err
    assert views(out) == views(golden.store("basic"))


def test_in_place_the_plan_comes_first(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "s")
    done = run("store", "rebuild", str(store))
    assert done.code == 4
    assert done.document["index_style"] == "5.3"
    assert done.document["in_place"] is True
    assert "add --yes" in done.err
    assert not (store / "pocketmq").exists()
    done = run("store", "rebuild", str(store), "--yes", "--keep-old")
    assert done.code == 0
    assert views(store) == views(golden.store("v533"))
    assert len(list((store / "pocketmq/replaced").iterdir())) == 1


def test_the_style_can_be_told(golden: GoldenStores, tmp_path: Path) -> None:
    store, out = str(golden.store("v533")), tmp_path / "out"
    done = run("store", "rebuild", store, "--out", str(out), "--compat", "5.5")
    assert done.code == 0
    assert views(out) != views(golden.store("v533"))


def test_damage_is_exit_10_with_the_place(golden: GoldenStores, tmp_path: Path) -> None:
    store, out = str(golden.store("crash-flip.before")), str(tmp_path / "out")
    done = run("store", "rebuild", store, "--out", out, "--check-crc")
    assert done.code == 10
    assert "physical offset 424023" in done.err
    done = run("store", "rebuild", store, "--out", out, "--check-crc", "--accept-damage")
    assert done.code == 0
    assert done.document["holes"] == 1
    assert "Damage:" in done.err


def test_units_of_an_extension_need_a_yes(golden: GoldenStores, tmp_path: Path) -> None:
    store, out = str(golden.store("cqext")), str(tmp_path / "out")
    done = run("store", "rebuild", store, "--out", out)
    assert done.code == 4
    assert "extension" in done.err
    assert run("store", "rebuild", store, "--out", out, "--yes").code == 0
