"""The records that a follower names to its leader."""

import zlib
from pathlib import Path

import pytest

from pocketmq.store.read.log_proofs import PROOFS_MAX, STEP, last_proof, many_proofs, proofs_between
from tests.kit.store_language import store_at

SIZE = 1 << 16


@pytest.mark.parametrize("known", ["right", "wrong", "zero"])
async def test_the_last_record_is_found_whatever_is_known_of_it(tmp_path: Path, known: str) -> None:
    async with store_at(tmp_path / "s") as store:
        log = store.store.log
        assert last_proof(log, 0, 0) == ()
        for number in range(30):
            begin = store.store.appended
            await store.send("orders", "x" * (number * 37 % 500))
        end = store.store.appended
        begin = end - (log.record_size_at(begin) or 0) if log.record_size_at(begin) else SIZE
        begin = log.files.files[-2].base if begin == SIZE else begin
        offset = {"right": begin, "wrong": begin + 1, "zero": 0}[known]
        (proof,) = last_proof(log, offset, end)
        assert (proof.begin, proof.end) == (begin, end)
        assert proof.crc == zlib.crc32(log.read(begin, end - begin))


async def test_more_records_are_named_at_growing_distances(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", commit_log_file_size_bytes=SIZE) as store:
        log = store.store.log
        while store.store.appended < 20 * SIZE:
            await store.send("orders", "x" * 900)
        end = store.store.appended
        proofs = many_proofs(log, last_proof(log, 0, end)[0])
        begins = [proof.begin for proof in proofs]
        assert proofs[0].end == end
        assert begins == sorted(begins, reverse=True)
        assert len(set(begins)) == len(begins) <= PROOFS_MAX
        assert {base * SIZE for base in range(5, 20)} <= set(begins)
        inside = [begin for begin in begins if begin > 20 * SIZE]
        assert all(end - at <= 2 * STEP + 2_000 for at in inside[:2])
        for proof in proofs:
            assert log.record_size_at(proof.begin) == proof.end - proof.begin


async def test_records_between_two_are_named_though_the_first_file_has_expired(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path / "s", commit_log_file_size_bytes=SIZE) as store:
        log, ends = store.store.log, list[int]()
        while store.store.appended < 4 * SIZE:
            await store.send("orders", "x" * 900)
            ends.append(store.store.appended)
        log.files.drop_first().remove()
        common, *between, other = ends[-9:]
        proofs = proofs_between(log, common, other - 1)
        assert [proof.end for proof in proofs] == [other, *reversed(between), common]
        assert proofs_between(log, common, common) == ()
