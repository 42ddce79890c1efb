"""Compares PocketMQ with many RocketMQ versions on the same stores.

For each version and each shape of a store, a RocketMQ broker receives a mixed load and reads all
messages by the network. Then PocketMQ opens a copy, and the same RocketMQ opens the copy again
(STEPS). Shapes can be joined by a plus: `--shapes crc+ipv6,pending`. Settings that a version's
classes do not have are reported as not offered. Requires a JDK 17, and Maven or the jars.
"""

import json
import shutil
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from time import monotonic
from typing import Any, Final

from harness.budget import Budget
from torture.judged import (
    OURS,
    TOPIC,
    Ours,
    Truth,
    copied,
    left_as_it_was,
    reading,
    sending,
    taken_back,
)
from torture.real_broker import Plan, Real, RealFailed, real, run_real

VERSIONS: Final = ("4.7.0", "4.9.4", "5.0.0", "5.1.4", "5.2.0", "5.3.3", "5.5.0")
STEPS: Final = {
    "opened": "opened",
    "served": "all served",
    "keys": "keys found",
    "left": "left as it was",
    "verify": "verify silent",
    "rebuilt": "rebuilt identical",
    "continued": "continued by us",
    "back": "taken back",
}
SIZES: Final = {
    "mappedFileSizeCommitLog": "262144", "mappedFileSizeConsumeQueue": "12000",
    "maxHashSlotNum": "101", "maxIndexNum": "500",
}  # fmt: skip
SAME_HERE: Final = ("enableConsumeQueueExt",)
"""Settings that PocketMQ also receives."""
OFFERED: Final = "not offered"
ITSELF: Final = "the real broker itself fails"
NOT_RUN: Final = "not run"
MIXED: Final = (("mixed",),)


@dataclass(frozen=True)
class Shape:
    """A kind of store: settings, the messages of each run of the broker, and how the run ends."""

    settings: Mapping[str, str] = field(default_factory=dict)
    runs: Sequence[Sequence[str]] = MIXED
    hidden: Sequence[str] = ()
    is_killed: bool = False
    has_index: bool = True

    def __add__(self, other: "Shape") -> "Shape":
        longer, shorter = sorted((self.runs, other.runs), key=len, reverse=True)
        runs = [
            tuple(dict.fromkeys([*parts, *(shorter[n] if n < len(shorter) else ())]))
            for n, parts in enumerate(longer)
        ]
        return Shape(
            {**self.settings, **other.settings}, runs, [*self.hidden, *other.hidden],
            self.is_killed or other.is_killed,
            self.has_index and other.has_index,
        )  # fmt: skip


SHAPES: Final = {
    "plain": Shape(),
    "restarts": Shape(runs=(("mixed",), ("few",), ("few", "retry"))),
    "killed": Shape(is_killed=True),
    "pending": Shape(runs=(("mixed", "delays", "transactions", "retry"),)),
    "timers": Shape({"timerWheelEnable": "true"}, (("mixed", "timers"),)),
    "ipv6": Shape({"brokerIP1": "[::1]"}),
    "crc": Shape({"enabledAppendPropCRC": "true"}),
    "extension": Shape({"enableConsumeQueueExt": "true", "enableCalcFilterBitMap": "true"}),
    "pool": Shape({"transientStorePoolEnable": "true", "transientStorePoolSize": "3"}),
    "queues": Shape(runs=(("mixed", "queues"),)),
    "retention": Shape(
        {"fileReservedTime": "0", "deleteCommitLogFilesInterval": "1", "deleteWhen": "25"},
        (("mixed", "large"), ("few",)),
    ),
    "noindex": Shape({"messageIndexEnable": "false"}, has_index=False),
    "deleted": Shape(runs=(("mixed", "deleted"),)),
    "lmq": Shape(
        {"enableLmq": "true", "enableMultiDispatch": "true"}, (("mixed", "lmq"),),
        ("%LMQ%all", "%LMQ%a", "%LMQ%b"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A version and a shape; the shape may be joined from several."""

    one: Real
    shape: str
    seed: int
    place: Path
    keep: Path | None
    until: float
    """Monotonic time after which the cell is not started."""

    @property
    def name(self) -> str:
        """The name of the cell, also of its directory."""
        return f"{self.one.version}-{self.shape}"


def shape_of(name: str) -> Shape:
    """Returns a shape, or several joined by a plus.

    Errors   ValueError: there is no such shape
    """
    unknown = [part for part in name.split("+") if part not in SHAPES]
    if unknown:
        raise ValueError(f"no shape {unknown[0]!r}; there are {', '.join(SHAPES)}")
    return reduce(Shape.__add__, (SHAPES[part] for part in name.split("+")))


def offered(name: str, settings: frozenset[str]) -> str:
    """Returns the part of a shape that a version with these settings offers."""
    parts = [part for part in name.split("+") if SHAPES[part].settings.keys() <= settings]
    return "+".join(parts)


def judged(cell: Cell) -> dict[str, Any]:
    """Makes a store, runs PocketMQ and then RocketMQ on it; returns each step's outcome."""
    begun, place = monotonic(), cell.place / cell.name
    row: dict[str, Any] = {"version": cell.one.version, "shape": cell.shape, "steps": {}}
    name = offered(cell.shape, cell.one.settings)
    if not name:
        return {**row, "why": f"{OFFERED}: a setting it needs is unknown to this version"}
    shape = shape_of(name)
    row["offered"] = name
    if begun > cell.until:
        return {**row, "why": f"{NOT_RUN}: the time was over"}
    place.mkdir(parents=True)
    try:
        for step, outcome in _steps(cell, shape, place, row):
            row["steps"][step] = outcome
    except RealFailed as error:
        row["why"] = f"{ITSELF}: {error}"
    except Exception as error:  # noqa: BLE001 – the other cells still run
        row["why"] = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    row["seconds"] = round(monotonic() - begun, 1)
    is_wrong = "why" in row or any(row["steps"].values())
    if is_wrong and cell.keep is not None:
        cell.keep.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(cell.keep / cell.name, ignore_errors=True)
        shutil.move(place, cell.keep / cell.name)
    shutil.rmtree(place, ignore_errors=True)
    return row


def _steps(cell: Cell, shape: Shape, place: Path, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    store, settings = place / "real", {**SIZES, **shape.settings}
    truth = Truth()
    for number, parts in enumerate(shape.runs):
        is_last = number == len(shape.runs) - 1
        plan = Plan(
            f"run{number}", parts, settings, cell.seed, truth.keys, shape.hidden,
            is_killed=shape.is_killed and is_last,
        )  # fmt: skip
        truth.add(run_real(cell.one, place / f"run{number}", store, plan))
    row["messages"] = truth.message_count
    row["queues"] = len(truth.queues)
    row["answers"] = len(truth.answers)
    ours_too = {name: settings[name] for name in SAME_HERE if name in settings}
    sizes = [f"{name}={value}" for name, value in {**SIZES, **ours_too}.items()]
    own = Ours(copied(store, place / "verified"), sizes)
    yield "verify", own.verified()
    yield "rebuilt", own.rebuilt(place / "views", has_index=shape.has_index)
    ours = Ours(copied(store, place / "ours"), sizes)
    try:
        yield from ours.served(reading(truth, has_index=shape.has_index)).items()
    except AssertionError as error:
        yield "opened", str(error)
        yield "left", left_as_it_was(store, ours.directory, has_index=shape.has_index)
        return
    if not shape.is_killed:
        yield "left", left_as_it_was(store, ours.directory, has_index=shape.has_index)
    outcome, sent = ours.served(sending(truth))
    yield "continued", outcome
    after = Truth()
    asked = [*truth.keys, *((TOPIC, f"ours-{number}") for number in range(0, OURS, 4))]
    plan = Plan("back", ("few",), settings, cell.seed, asked, shape.hidden)
    try:
        after.add(run_real(cell.one, place / "back", ours.directory, plan))
        yield "back", taken_back(truth, sent, after, has_index=shape.has_index)
    except RealFailed as error:
        yield "back", str(error)


def torture(place: Path, budget: Budget) -> dict[str, Any]:
    """Judges every requested version and shape; prints the tables, returns the figures.

    Errors   NotHere: no JDK, no Maven and no jars; ValueError: an unknown shape; AssertionError: a
             step differs from RocketMQ's answers. A different rebuild is only reported, as expired
             and deleted messages cannot be rebuilt.
    """
    versions, shapes = budget.versions or VERSIONS, budget.shapes or tuple(SHAPES)
    for shape in shapes:
        shape_of(shape)
    known = [real(version) for version in versions]
    until = monotonic() + budget.seconds - budget.spent
    cells = [
        Cell(one, shape, budget.seed, place, budget.keep, until)
        for shape in shapes
        for one in known
    ]
    rows = []
    with ProcessPoolExecutor(budget.workers) as pool:
        waiting = [pool.submit(judged, cell) for cell in cells]
        for done in as_completed(waiting):
            rows.append(done.result())
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    print(f"\n{tables(rows, versions, shapes)}\n", flush=True)
    figures = counts(rows)
    assert not figures["differences"], f"{figures}; the notes above say what differs"
    return figures


def counts(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Returns the figures of a run."""
    steps = [named for row in rows for named in row["steps"].items()]
    why = [row.get("why", "") for row in rows]
    told = (OFFERED, NOT_RUN, ITSELF)
    broken = [text for text in why if text and not text.startswith(told)]
    return {
        "stores": sum(bool(row["steps"]) for row in rows),
        "messages compared": sum(row.get("messages", 0) for row in rows),
        "steps": len(steps),
        "steps as the real broker said": sum(not outcome for _, outcome in steps),
        "differences": len(broken) + sum(bool(o) and step != "rebuilt" for step, o in steps),
        **{name: sum(text.startswith(name) for text in why) for name in told},
    }


# --- tables ---------------------------------------------------------------------------------------


def tables(rows: Sequence[dict[str, Any]], versions: Sequence[str], shapes: Sequence[str]) -> str:
    """Returns the tables of a run: versions by step, shapes by version, and the differences."""
    known = {(row["version"], row["shape"]): row for row in rows}
    lines = _row("", *STEPS.values()) + _row(*["---"] * (len(STEPS) + 1))
    for version in versions:
        own = [row for row in rows if row["version"] == version]
        lines += _row(version, *(_share(own, step) for step in STEPS))
    lines += ["", *_row("", *versions), *_row(*["---"] * (len(versions) + 1))]
    notes: list[str] = []
    for shape in shapes:
        shown = [_shown(known[version, shape], notes) for version in versions]
        lines += _row(shape, *shown)
    return "\n".join([*lines, "", *(f"{n}. {note}" for n, note in enumerate(notes, 1))])


def _row(*cells: str) -> list[str]:
    return [f"| {' | '.join(cells)} |"]


def _share(rows: Sequence[dict[str, Any]], step: str) -> str:
    outcomes = [row["steps"][step] for row in rows if step in row["steps"]]
    return f"{outcomes.count('')}/{len(outcomes)}" if outcomes else "–"


def _shown(row: dict[str, Any], notes: list[str]) -> str:
    """Returns a cell: ok, the different steps with the numbers of their notes, or a reason."""
    why = row.get("why", "")
    if why.startswith(OFFERED):
        return "–"
    told = [f"{STEPS[step]}: {outcome}" for step, outcome in row["steps"].items() if outcome]
    told += [why] if why else []
    numbers = []
    for note in told:
        if note not in notes:
            notes.append(note)
        numbers.append(str(notes.index(note) + 1))
    return "ok" if not told else f"note {', '.join(numbers)}"
