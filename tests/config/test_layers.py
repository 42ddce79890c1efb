"""Later values go over earlier ones, and everything wrong is kept with where it stood."""

from broker.config.layers import Layers, unknown


def test_of_two_values_the_later_counts_with_its_origin() -> None:
    layers = Layers()
    layers.put("broker.name", "a", "first")
    layers.put("broker.name", "b", "second")
    config = layers.config()
    assert (config.broker.name, config.origins) == ("b", {"broker.name": "second"})
    assert layers.problems == []


def test_a_problem_stops_nothing() -> None:
    layers = Layers()
    layers.put("store.flsh", "sync", "here")
    layers.put("store.flush", "often", "here")
    layers.put("broker.name", "b", "here")
    assert [str(problem) for problem in layers.problems] == [
        "setting store.flsh (here): there is none of this name; did you mean store.flush?",
        "setting store.flush (here): 'often' is not one of sync, async",
    ]
    assert layers.config().broker.name == "b"


def test_a_name_of_rocketmqs_is_remembered_as_such() -> None:
    layers = Layers()
    layers.put_any("diskMaxUsedSpaceRatio", "60", "here")
    assert layers.translated == {"retention.disk_expire_percent"}
    layers.put_any("retention.disk_expire_percent", "61", "here")
    assert layers.translated == set()


def test_a_value_that_cannot_be_translated_is_told_by_its_own_name() -> None:
    layers = Layers()
    layers.put_any("diskSpaceWarningLevelRatio", "most", "b.conf:3")
    (problem,) = layers.problems
    assert str(problem).startswith("setting diskSpaceWarningLevelRatio (b.conf:3): 'most' is not")


def test_our_sources_other_than_set_take_our_keys_only() -> None:
    layers = Layers()
    layers.put("flushDiskType", "SYNC_FLUSH", "file")
    assert len(layers.problems) == 1


def test_the_preset_is_a_key_as_well() -> None:
    layers = Layers()
    layers.put_any("preset", "dev", "here")
    assert (layers.preset, layers.preset_origin) == ("dev", "here")
    layers.put("preset", ["dev"], "there")
    assert str(layers.problems[0]).startswith("setting preset (there): ['dev'] is not one of")


def test_the_nearest_name_is_offered_whatever_the_case() -> None:
    known = ["store.flush", "flushDiskType"]
    assert "did you mean flushDiskType?" in unknown("flushdisktype", known, origin="").why
    assert "did you mean" not in unknown("zzzzzzzz", known, origin="").why
