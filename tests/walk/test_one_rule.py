"""Damage is skipped by one rule: every reader of a log sees the same records of it."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pocketmq.backfill.log_walk import DamagedBytes, survey, walk
from pocketmq.cli.output import Exit
from pocketmq.format.names import COMMIT_LOG_DIRECTORY
from pocketmq.log.commit_log import CommitLog
from pocketmq.model.errors import Corruption
from pocketmq.rebuild.log_files import LogFile, records_end, walk_over
from pocketmq.rebuild.parallel import RebuildJob, rebuild_parallel
from pocketmq.rebuild.plan import map_here, whole_files
from pocketmq.rebuild.sequential import rebuild
from pocketmq.store.recovery.log_survey import Known, stretches, survey_log
from pocketmq.tools.difference import MessageComparison, Side
from pocketmq.tools.repair.planning import plan_repair
from pocketmq.tools.repair.repair import missing_part
from pocketmq.tools.selection import LogSearch
from pocketmq.tools.statistics import measure
from pocketmq.tools.verify.verification import VerifyOptions, verify
from pocketmq.walk.log_walk import Hole, LogWalk, holes_and_tail
from pocketmq.walk.reader import Chunk, LogReader
from tests.cli.command_line import run
from tests.kit.generators import result_of
from tests.kit.log_bytes import EVERYTHING, SMALL, TIME_MS, LogBytes
from tests.kit.tool_sizes import known_shape
from tests.sim.quick_disk import QuickDisk

FILE_SIZE = 2_048
CRC = replace(SMALL, check_crc=True)
SIZES = known_shape(FILE_SIZE, 200, SMALL.geometry)
COUNT = 55
WRONG_SIZE, BODY, ZEROS, NOISE = (0, b"\0\0\1\0"), (90, b"\xff"), (0, bytes(109)), (0, b"\1" * 109)
IMAGES: dict[str, dict[int, tuple[int, bytes]]] = {
    "sound": {},
    "a wrong size in ten records": {3: WRONG_SIZE},
    "bodies": {4: BODY, 5: BODY, 30: BODY},
    "the first record": {0: ZEROS},
    "over the end of a file": {16: NOISE, 17: WRONG_SIZE, 18: ZEROS, 19: BODY},
    "a whole file": dict.fromkeys(range(18, 36), ZEROS),
    "the last records": {53: BODY, 54: NOISE},
    "everywhere": {1: ZEROS, 17: NOISE, 18: WRONG_SIZE, 40: BODY, 54: BODY},
}


def an_image(to: Path, damage: dict[int, tuple[int, bytes]], *, old_from: int = COUNT) -> LogBytes:
    """Records of 109 bytes in four files, each a ms later than the one before it."""
    log = LogBytes(to, FILE_SIZE)
    for number in range(COUNT):
        time_ms = TIME_MS + number - (100_000 if number >= old_from else 0)
        log.add(
            queue_offset=number, keys=f"k{number:02}", body=b"body %03d" % number, time_ms=time_ms
        )
    for number, (position, content) in damage.items():
        log.damage(log.places[number] + position, content)
    return log.close()


def walked(files: list[LogFile]) -> tuple[list[int], list[Hole]]:
    """Returns the records and holes that the walk itself finds."""
    found, holes, log_walk = [], [], LogWalk(LogReader(check_crc=True, chunk_size=300))
    for step in walk_over(files, log_walk):
        if isinstance(step, Chunk):
            found += step.heads.physical_offset.tolist()
        else:
            holes.append(step)
    return found, holes_and_tail(holes, log_walk.end)[0]


def started(log: LogBytes) -> tuple[list[int], list[Hole]]:
    """The records that a start finds, and the damage."""
    disk = QuickDisk()
    opened = CommitLog(disk, log.store / COMMIT_LOG_DIRECTORY, FILE_SIZE)
    opened.load(read_only=True)
    try:
        seen = result_of(survey_log(opened, disk, 0, Known(None), crc=True, chunk_size=300))
        spans = stretches(seen.holes, 0, seen.end)
        places = [row[0] for lower, upper in spans for row in opened.scan(lower, upper)]
        assert (seen.last_record, seen.last_time >= TIME_MS) == (places[-1], True)
    finally:
        opened.close()
    return places, seen.holes


def unit_count(out: Path) -> int:
    """How many messages the one queue leads to."""
    units = b"".join(
        path.read_bytes() for path in sorted((out / "consumequeue").rglob("[0-9]" * 20))
    )
    places = [units[at : at + 20] for at in range(0, len(units), 20)]
    return sum(0 < int.from_bytes(unit[8:12]) < 2**31 - 1 for unit in places)


def shown(*arguments: str) -> list[int]:
    """The places of the messages that a command prints."""
    return [row["physical_offset"] for row in run("store", *arguments).rows]


def all_see(tmp_path: Path, log: LogBytes, piece_size: int = 0) -> list[int]:
    """The records everything that reads a log agrees on."""
    files = log.found()
    wanted, holes = walked(files)
    built_end = log.end_of(log.places.index(wanted[-1]))
    assert started(log) == (wanted, [hole for hole in holes if hole.begin < built_end])
    built = rebuild(files, CRC, tmp_path / "one", upto=EVERYTHING, accept_holes=True)
    assert (built.record_count, built.holes) == (len(wanted), holes)
    assert unit_count(tmp_path / "one") == len(wanted)
    job = RebuildJob(
        files, CRC, tmp_path / "many", files[-1].end, workers=2, piece_size=piece_size,
        accept_holes=True,
    )  # fmt: skip
    spread = rebuild_parallel(job, map_here)
    assert (spread.record_count, spread.holes) == (len(wanted), holes)
    assert unit_count(tmp_path / "many") == len(wanted)
    search = LogSearch(files)
    assert [message.physical_offset for message in search.messages()] == wanted
    assert (search.holes, search.end) == (holes, built.end)
    assert measure(LogSearch(files), files).summary["messages"] == len(wanted)
    found = verify(QuickDisk(), log.store, SIZES, VerifyOptions(log_only=True))
    assert (found.records, found.holes, found.log_end) == (len(wanted), holes, built.end)
    compared = MessageComparison(Side(files), Side(files), anywhere=False)
    assert list(compared) == []
    assert compared.damages == holes * 2
    return wanted


@pytest.mark.parametrize("name", IMAGES)
def test_a_damaged_record_is_lost_and_no_other(tmp_path: Path, name: str) -> None:
    log = an_image(tmp_path / "s", IMAGES[name])
    wanted = [place for number, place in enumerate(log.places) if number not in IMAGES[name]]
    assert all_see(tmp_path, log) == wanted
    assert wanted[-1] < records_end(log.found()) <= log.end
    places: list[int] = []
    for stretch in survey(whole_files(log.found(), EVERYTHING)):
        for step in walk(stretch, check_crc=True):
            places += [] if isinstance(step, DamagedBytes) else step.heads.physical_offset.tolist()
    assert places == wanted


@pytest.mark.parametrize("seed", range(12))
def test_all_agree_on_any_damage(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    kinds = [
        WRONG_SIZE,
        BODY,
        ZEROS,
        NOISE,
        (4, b"\0"),
        (28, b"\x40"),
        (84, b"\xff"),
        (60, ZEROS[1]),
    ]
    damage = {chance.randrange(COUNT - 1): chance.choice(kinds) for _ in range(chance.randrange(9))}
    log = an_image(tmp_path / "s", damage)
    assert len(all_see(tmp_path, log)) <= COUNT - len(damage)


@pytest.mark.parametrize("piece_size", [0, 110, 400])
@pytest.mark.parametrize("flipped", [[1], [5], [17], [18], [2, 16, 21, 30], [53]])
def test_a_flipped_time_before_damage_hides_nothing(
    tmp_path: Path, flipped: list[int], piece_size: int
) -> None:
    """Also as the last or first of a file, and where each range is one record."""
    log = an_image(tmp_path / "s", {number + 1: BODY for number in flipped})
    for number in flipped:
        file = log.found()[log.places[number] // FILE_SIZE]
        with Path(file.path).open("r+b") as opened:
            opened.seek(log.places[number] - file.base + 57)
            opened.write(b"\1")
    wanted = [place for number, place in enumerate(log.places) if number - 1 not in flipped]
    assert all_see(tmp_path, log, piece_size) == wanted


def test_behind_damage_a_file_of_older_records_is_no_part_of_the_log(tmp_path: Path) -> None:
    log = an_image(tmp_path / "s", {17: NOISE, 16: NOISE}, old_from=18)
    assert log.places[18] == FILE_SIZE
    assert all_see(tmp_path, log) == log.places[:16]


def test_a_wrong_time_before_damage_does_not_hide_the_rest_of_the_log(tmp_path: Path) -> None:
    """No CRC covers a store time: what it makes too old is damage, never an orderly end."""
    log = an_image(tmp_path / "s", {6: WRONG_SIZE})
    file = tmp_path / "s/commitlog" / f"{0:020}"
    content = bytearray(file.read_bytes())
    at = log.places[5] + 56
    content[at : at + 8] = (TIME_MS + 10 * 86_400_000).to_bytes(8)
    file.write_bytes(content)
    assert all_see(tmp_path, log) == log.places[:6]
    begins = [log.places[6], *(file.base for file in log.found()[1:])]
    assert [hole.begin for hole in walked(log.found())[1]] == begins
    files = log.found()
    with pytest.raises(Corruption, match=f"physical offset {begins[0]}"):
        rebuild(files, CRC, tmp_path / "refused", upto=EVERYTHING)
    job = RebuildJob(files, CRC, tmp_path / "refused too", files[-1].end, workers=2)
    with pytest.raises(Corruption, match=f"physical offset {begins[0]}"):
        rebuild_parallel(job, map_here)
    seen = verify(QuickDisk(), log.store, SIZES, VerifyOptions(log_only=True)).findings
    damage = [(one.file, one.offset, one.repairable) for one in seen if one.kind == "record"]
    names = [f"commitlog/{begin // FILE_SIZE * FILE_SIZE:020}" for begin in begins]
    wanted = [(names[0], begins[0], True), *((name, 0, False) for name in names[1:])]
    assert damage == wanted
    plan = plan_repair(QuickDisk(), log.store, SIZES, now_ms=TIME_MS)
    assert (len(plan.blocked), plan.log) == (3, [])
    assert isinstance(missing_part(QuickDisk(), log.store, SIZES, plan), Corruption)
    assert run("store", "dump", str(log.store), "-o", "jsonl").code == Exit.DAMAGED


def test_without_damage_a_clock_may_be_set_back(tmp_path: Path) -> None:
    log = an_image(tmp_path / "s", {}, old_from=18)
    assert walked(log.found()) == (log.places, [])


def test_what_the_command_line_shows_is_the_same(tmp_path: Path) -> None:
    log = an_image(tmp_path / "s", IMAGES["everywhere"])
    store, wanted = str(log.store), walked(log.found())[0]
    assert shown("dump", store, "-o", "jsonl") == wanted
    assert shown("grep", "body", store, "-o", "jsonl") == wanted
    assert shown("export", store, "--to", "-", "--format", "jsonl") == wanted


@pytest.mark.parametrize("left_bytes", [None, 0, 5, 60, 109, 1000])
@pytest.mark.parametrize("number", [1, 3])
def test_a_file_that_is_missing_or_short_hides_no_other(
    tmp_path: Path, number: int, left_bytes: int | None
) -> None:
    log = an_image(tmp_path / "s", {3: BODY})
    store, path = str(log.store), Path(log.found()[number].path)
    lost = range(number * FILE_SIZE + (left_bytes or 0), (number + 1) * FILE_SIZE)
    wanted = [place for place in log.places if place != log.places[3]]
    wanted = [p for n, p in enumerate(log.places) if p in wanted and log.end_of(n) - 1 not in lost]
    if left_bytes is None:
        path.unlink()
    else:
        with path.open("r+b") as opened:
            opened.truncate(left_bytes)
    for command in (("dump", store), ("grep", "body", store), ("export", store, "--to", "-")):
        form = "--format" if command[0] == "export" else "-o"
        done = run("store", *command, form, "jsonl")
        assert [row["physical_offset"] for row in done.rows] == wanted
        assert done.code == Exit.DAMAGED
        assert (path.name in done.err) == (number < 3 or left_bytes not in (None, 0))
    counted = run("store", "stats", store, "-o", "json")
    assert counted.document["summary"]["messages"] == len(wanted)
    compared = run("store", "diff", store, store, "--messages", "-o", "jsonl")
    assert (compared.code, compared.rows) == (Exit.DAMAGED, [])
