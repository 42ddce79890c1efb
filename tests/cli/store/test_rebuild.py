"""`pocketmq store rebuild`: a plan unless told to do it, then the golden bytes."""

from pathlib import Path

from tests.cli.command_line import run
from tests.golden_stores import GoldenStores
from tests.kit.golden_log import files_below
from tests.kit.log_bytes import views


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
    assert done.document["index_style_from"] == "the index files, as far as they show it"
    assert done.document["bytes_needed"] > 0
    assert "add --yes" in done.err
    assert not (store / "pocketmq").exists()
    done = run("store", "rebuild", str(store), "--yes", "--keep-old")
    assert done.code == 0
    assert views(store) == views(golden.store("v533"))
    (kept,) = (store / "pocketmq/replaced").iterdir()
    assert f"kept in {kept}" in done.err


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


def test_an_extension_is_built_as_rocketmq_wrote_it(golden: GoldenStores, tmp_path: Path) -> None:
    real, out = golden.store("cqext"), tmp_path / "out"
    assert run("store", "rebuild", str(real), "--out", str(out)).code == 0
    for name in ("consumequeue", "consumequeue_ext"):
        assert files_below(out / name) == files_below(real / name)


def test_leaving_an_extension_out_needs_a_yes(golden: GoldenStores, tmp_path: Path) -> None:
    arguments = (
        "store", "rebuild", str(golden.store("cqext")), "--out", str(tmp_path / "out"),
        "--set", "enableConsumeQueueExt=false",
    )  # fmt: skip
    done = run(*arguments)
    assert done.code == 4
    assert "extension" in done.err
    assert run(*arguments, "--yes").code == 0
    assert not (tmp_path / "out/consumequeue_ext").exists()


def test_where_settings_were_found(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("v533", tmp_path / "s")
    done = run("store", "rebuild", str(store), "--time-zone", "Asia/Shanghai", "--in-place")
    assert done.document["time_zone"] == "Asia/Shanghai"
    assert done.document["time_zone_from"] == "the command line"
    assert run("store", "rebuild", str(store), "--time-zone", "UTC", "--yes").code == 0
    done = run("store", "rebuild", str(store))
    assert done.document["time_zone"] == "UTC"
    assert done.document["time_zone_from"] == "pocketmq/store.json"
    assert done.document["index_style_from"] == "pocketmq/store.json"


def test_a_part_of_the_log(golden: GoldenStores, tmp_path: Path) -> None:
    store, out = str(golden.store("v533")), str(tmp_path / "out")
    done = run("store", "rebuild", store, "--out", out, "--upto", "500000")
    assert done.code == 0
    assert f"The views end at {done.document['end']}\n" in done.err
    assert done.document["end"] <= 501_000


def test_one_place_only(golden: GoldenStores, tmp_path: Path) -> None:
    store = str(golden.store("v533"))
    done = run("store", "rebuild", store, "--in-place", "--out", str(tmp_path / "out"))
    assert done.code == 2


def test_batch_queues_are_left_alone(golden: GoldenStores, tmp_path: Path) -> None:
    store = golden.copy("bcq", tmp_path / "s")
    was = files_below(store / "batchconsumequeue")
    done = run("store", "rebuild", str(store), "--yes", "--time-zone", "UTC")
    assert (done.code, done.document["queues"]) == (0, 2)
    assert "batch consume queues are unchanged" in done.err
    assert sorted(path.name for path in (store / "consumequeue").iterdir()) == ["Plain"]
    assert files_below(store / "batchconsumequeue") == was
    assert run("store", "verify", str(store)).code == 0
    assert run("store", "repair", str(store), "--yes").code == 0
