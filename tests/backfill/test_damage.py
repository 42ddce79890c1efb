"""Damage met by a reader is told in the words of a check."""

from broker.backfill.damage import Damage


def test_damage_says_where_and_why() -> None:
    told = str(Damage("/s/commitlog/0", 7, 1031, "its magic is wrong").error)
    assert told == "/s/commitlog/0 is damaged at byte 7 (physical offset 1031): its magic is wrong"
