"""Users of a store that no broker has open; the first one comes before the store itself."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pocketmq.model.access import User
from pocketmq.model.errors import NotAStore, StoreLocked, UserExists
from pocketmq.tools.users import changed_roster, read_roster
from tests.tools.test_store_access import HOLD_LOCK

ADMIN = User("admin", "secret", is_admin=True)


def test_the_first_user_is_made_before_there_is_a_store(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with changed_roster(place) as roster:
        roster.add(ADMIN)
    assert read_roster(place).users == {"admin": ADMIN}
    assert stat.S_IMODE((place / "pocketmq" / "access.json").stat().st_mode) == 0o600


def test_nothing_is_written_where_nothing_changed_or_it_failed(tmp_path: Path) -> None:
    with changed_roster(tmp_path):
        pass
    assert not (tmp_path / "pocketmq").exists()
    with changed_roster(tmp_path) as roster:
        roster.add(ADMIN)
    with pytest.raises(UserExists), changed_roster(tmp_path) as roster:
        roster.remove("admin")
        roster.add(ADMIN)
        roster.add(ADMIN)
    assert read_roster(tmp_path).users == {"admin": ADMIN}


def test_a_store_that_a_broker_has_open_is_only_read(tmp_path: Path) -> None:
    with changed_roster(tmp_path) as roster:
        roster.add(ADMIN)
    command = [sys.executable, "-c", HOLD_LOCK, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked), changed_roster(tmp_path):
            pass
        assert read_roster(tmp_path).users == {"admin": ADMIN}
        holder.communicate()


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(NotAStore), changed_roster(tmp_path):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
