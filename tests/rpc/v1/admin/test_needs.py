"""What a process tells and does where nobody said more."""

from broker.rpc.v1.admin.needs import Process, SettingRow


def test_a_process_nobody_described_has_no_settings_and_no_end() -> None:
    process = Process()
    assert list(process.read_settings()) == []
    assert process.drain is None


def test_a_row_is_a_triple() -> None:
    assert SettingRow("store.flush", "sync", "default") == ("store.flush", "sync", "default")
