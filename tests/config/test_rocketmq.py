"""RocketMQ's names lead to our settings, or are known to lead nowhere."""

from broker.config import rocketmq
from broker.config.load import load


def set_by(name: str, text: str) -> dict[str, object]:
    config = load(assignments=[f"{name}={text}"])
    values: dict[str, object] = {}
    for key in config.origins:
        section, _, field = key.partition(".")
        values[key] = getattr(getattr(config, section), field)
    return values


def test_sizes_and_counts_keep_their_numbers() -> None:
    assert set_by("mappedFileSizeCommitLog", "131072") == {
        "store.commit_log_file_size_bytes": 131_072
    }
    assert set_by("mappedFileSizeConsumeQueue", "2000") == {
        "store.consume_queue_file_size_bytes": 2_000
    }
    assert set_by("maxHashSlotNum", "500") == {"store.index_slot_count": 500}
    assert set_by("maxIndexNum", "2000") == {"store.index_entry_count_max": 2_000}
    assert set_by("maxMessageSize", "32768") == {"limits.max_message_size_bytes": 32_768}


def test_the_flush_type_is_translated() -> None:
    assert set_by("flushDiskType", "ASYNC_FLUSH") == {"store.flush": "async"}
    assert set_by("flushDiskType", "SYNC_FLUSH") == {"store.flush": "sync"}
    assert set_by("flushDiskType", "async") == {"store.flush": "async"}


def test_the_broker_is_named_as_in_broker_conf() -> None:
    assert set_by("brokerName", "b1") == {"broker.name": "b1"}
    assert set_by("brokerClusterName", "c1") == {"broker.cluster": "c1"}
    assert set_by("brokerIP1", "10.0.0.7") == {"broker.advertised_host": "10.0.0.7"}


def test_the_listen_port_is_listened_on_and_told_to_clients() -> None:
    assert set_by("listenPort", "10911") == {
        "rpc.listen": "127.0.0.1:10911",
        "broker.advertised_port": 10_911,
    }


def test_a_name_either_means_something_or_does_not() -> None:
    assert [name for name in rocketmq.MEANINGLESS if rocketmq.knobs_of(name)] == []


def test_every_word_to_translate_belongs_to_a_name_that_means_something() -> None:
    assert all(rocketmq.knobs_of(name) for name in rocketmq.VALUE_WORDS)
