"""Errors after which a retry may succeed, and errors of storage: an operator must act."""

from typing import Any

from pocketmq.model.errors.code import BrokerError, Code


class Unavailable(BrokerError):
    """The request is valid, but cannot be served now."""

    retryable = True


class NotAccepting(Unavailable):
    """A send before the configured time of the first send."""

    message = "sends are accepted from {accept_from_ms} on (broker.accept_from_ms)"
    accept_from_ms: int


class BrokerReadOnly(Unavailable, code=Code.FORBIDDEN):
    """The broker's own permission forbids writing."""

    retryable = False
    message = "the broker accepts no messages: {why}"
    why: str


class NotLeader(BrokerReadOnly):
    """A write to a broker that follows another one."""

    plain = BrokerReadOnly.plain | {"leader"}
    message = (
        "the broker accepts neither messages nor changes: {why}; send them to its leader, {leader}"
    )
    leader: str = ""
    why: str = "it follows another broker"


class StoreBusy(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """The put-lock has been held too long."""

    message = "a write has held the store for {held_ms} (limit {limit_ms}); try again"
    held_ms: int
    limit_ms: int


class TransientPoolEmpty(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """Messages arrive faster than they can be written to their files."""

    message = (
        "all {count} buffers of the transient pool wait to be written; try again, or raise "
        "store.transient_pool_file_count"
    )
    count: int


class TooManyRequests(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """More concurrent requests of one class than are admitted."""

    message = "{limit} requests of class {field} are in progress; try again"
    field: str
    limit: int


class ShareTaken(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """A user, connection or address that already has its share of the calls of a class.

    holder   "user alice", "address 10.0.0.7"
    field    class of calls
    """

    message = (
        "{holder} uses {count} of the {limit} places of class {field}, and gets no more while few "
        "are free; wait until some of its calls end, or try again"
    )
    holder: str
    count: int
    field: str
    limit: int


class LimitReached(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """More topics, queues or groups than the limit of a setting allows."""

    message = (
        "there are {count} of {limit} {field}, the broker's own included (ls --system); remove "
        "some, or raise {setting}"
    )
    count: int
    limit: int
    field: str
    setting: str


class CapacityReached(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """More state of clients than the broker keeps in memory."""

    message = "the broker keeps at most {limit} {field}; stop some clients, or try again later"
    limit: int
    field: str


class CreationsUsedUp(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """A user who created as many topics and groups as allowed in an hour."""

    message = (
        "user {user} has created {limit} topics and groups within an hour; continue later, let an "
        "admin create them, or raise limits.user_creations_per_hour"
    )
    user: str
    limit: int


class NotReplicated(Unavailable, code=Code.HA_NOT_AVAILABLE):
    """A change that is durable here, but not on enough followers; a crash now could revert it."""

    message = (
        "the change of {path} is stored here, but {count} of {limit} followers have it; repeat the "
        "call once they follow, or lower replication.in_sync_replicas"
    )
    path: str
    count: int
    limit: int


class Recovering(Unavailable):
    """The broker has started, but its store is not open yet."""

    message = "the broker is recovering its store; try again soon"


class Draining(Unavailable):
    """The broker is stopping."""

    message = "the broker is stopping; try again elsewhere or later"


class FollowersLate(Unavailable):
    """Work that needs the log on enough followers, which they did not report in time."""

    message = (
        "not all of the log is on {count} brokers after {wait_ms}; look at the followers "
        "(pocketmq replica status), then try again"
    )
    count: int
    wait_ms: int


class DiskFull(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """No space for the next file; reads continue, and sends resume once there is space."""

    message = "the disk under {path} is full; free space, sends resume by themselves"
    path: str


class DiskAboveLimit(DiskFull):
    """More of the disk is used than the operator allows; reads continue."""

    message = (
        "the disk under {path} is {used_percent} % used with {free_bytes} free, sends are "
        "refused above {limit_percent} % (retention.disk_refuse_percent); free space, they resume "
        "by themselves"
    )
    used_percent: int
    free_bytes: int
    limit_percent: int


class DiskNearlyFull(DiskFull):
    """The disk has less free space than the broker needs to accept sends; reads continue."""

    message = (
        "the disk under {path} has {free_bytes} free ({used_percent} % used), sends need "
        "{needed_bytes}: a commit-log file, the reserve and retention.disk_margin_bytes; free "
        "space, they resume by themselves"
    )
    used_percent: int
    free_bytes: int
    needed_bytes: int


class DiskSlow(Unavailable, code=Code.TOO_MANY_REQUESTS):
    """Data was evicted from memory as fast as it was read from the disk."""

    message = (
        "the data is not in memory after {tries} reads from disk; request less, or retry later"
    )
    tries: int


class StorageError(BrokerError):
    """A file or directory is not as it must be; an operator must act."""


class Corruption(StorageError):
    """Bytes that differ from the bytes that were written."""

    message = "{path} is damaged at byte {file_position} (physical offset {physical_offset}): {why}"
    path: str
    file_position: int
    physical_offset: int
    why: str


class MessageDamaged(Corruption):
    """A queue's message whose record is damaged; readers can continue after it."""

    plain = Corruption.plain | {"queue_offset", "next_begin_offset"}
    message = (
        "{path} is damaged at byte {file_position} (physical offset {physical_offset}): {why}; "
        "message {queue_offset} of the queue cannot be read, continue at {next_begin_offset}"
    )
    queue_offset: int
    next_begin_offset: int


class ReadFailed(StorageError, OSError):
    """An existing file that cannot be opened or read; it is damaged or has another owner."""

    message = "{path} cannot be read ({why}); check its owner and mode, then the disk"
    path: str
    why: str

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        assert self.why
        self.strerror = self.why


class NotAPlainFile(ReadFailed):
    """A link, FIFO, socket, device or directory in place of a store's file or directory."""

    message = (
        "{path} is not opened: {why}; below a store directory no links are followed and only plain "
        "files are opened, move it away"
    )


class TableUnreadable(StorageError, ValueError):
    """A small table that cannot be parsed, and that has no valid previous version."""

    message = (
        "{path} cannot be read ({why}), and there is no valid .bak of it; repair it with "
        "`pocketmq store repair`, or restore it from a copy"
    )
    path: str
    why: str


class StoreDamaged(BrokerReadOnly):
    """Durable bytes are damaged or missing: valid records are served, sends are refused."""

    message = (
        "the store accepts no messages: {path} is damaged from byte {file_position} on (physical "
        "offsets {begin} to {end}): {why}; stop the broker and repair it with `pocketmq store "
        "repair`, or start it with --accept-damage"
    )
    path: str
    file_position: int
    begin: int
    end: int


class StoreLocked(StorageError):
    """Another process has the store open.

    holder   "process 4711 (java)"; "another process" if its id is unknown
    """

    plain = StorageError.plain | {"holder"}
    message = "{path} is in use by {holder}; stop it or use another directory"
    path: str
    holder: str = "another process"


class NotAStore(StorageError):
    """A directory or target that is not the expected store."""

    message = "{path} is not a store: {why}; name an empty or a store directory"
    path: str
    why: str


class StrayFile(NotAStore):
    """A file with an unknown name in a directory of the log, a queue or the timer."""

    message = "{path} is not a file of the store: {why}; move it out of the directory"


class TableChanged(StorageError):
    """A commit to an Iceberg table that another program changed first."""

    message = "{path} was changed by another program in the meantime; run the command again"
    path: str


class UnsupportedStore(StorageError):
    """A store of a kind that only RocketMQ can write to."""

    plain = StorageError.plain | {"way_out"}
    message = (
        "{path}: {why}; this broker does not write to such a store: continue with RocketMQ, or "
        "{way_out}"
    )
    path: str
    why: str
    way_out: str


class LogMissing(StorageError):
    """Views whose log is missing."""

    plain = StorageError.plain | {"views", "way_out"}
    message = (
        "{path} has no file, but the files in {views} were built from a log: move its files there "
        "(RocketMQ may keep them elsewhere: storePathCommitLog) or restore them from a copy; "
        "without one: {way_out}"
    )
    path: str
    views: str
    way_out: str


class StoreTooNew(StorageError):
    """A store that a later version of PocketMQ wrote."""

    message = (
        "{path} has format version {found}, this broker supports up to {known}; use a later version"
    )
    path: str
    found: int
    known: int


class StoreGap(StorageError):
    """A mapped file queue in which a file is missing."""

    message = (
        "{path} starts at {found}, expected {expected}: a file is missing before it, or has a "
        "wrong name; `pocketmq store verify` shows which, and the messages that would be lost"
    )
    path: str
    expected: int
    found: int


class WrongFileSize(StorageError):
    """A file whose length differs from its queue's file size."""

    message = (
        "{path} has {found_bytes} bytes, expected {expected_bytes}; `pocketmq store verify` shows "
        "whether messages are lost, and the repair; if all files have that length, set {key_names}"
    )
    path: str
    expected_bytes: int
    found_bytes: int
    key_names: str


class UnknownGeometry(StorageError):
    """File sizes that fit several geometries."""

    message = "{path}: {why}; set {key_names}"
    path: str
    why: str
    key_names: str


class IllegalConfig(StorageError):
    """A setting that cannot be used."""

    message = "setting {field}: {why}"
    field: str
    why: str


class SettingsFileUnusable(IllegalConfig):
    """A settings file that cannot be read or parsed."""

    message = "{field}: {why}"


class AddressUnavailable(IllegalConfig):
    """An address that is in use, or does not belong to this machine."""

    message = "setting {field}: {address} cannot be listened on: {why}"
    address: str


class SparkMissing(StorageError):
    """Spark, or the Java runtime that it needs, is not installed."""

    message = "Spark cannot be started: {why}"
    why: str


class ViewFailed(StorageError):
    """A consume queue or index file could not be written after all tries."""

    message = "{path} could not be written after {tries} tries: {why}"
    path: str
    tries: int
    why: str


class PlaceUnusable(StorageError):
    """A directory that a rebuild or backfill cannot write to, or that a worker does not share."""

    message = "{path} cannot be used: {why}"
    path: str
    why: str


class StoreFailed(StorageError):
    """The store stopped working; it acknowledges nothing more, and the process ends."""

    message = "the store has stopped: {why}"
    why: str

    @staticmethod
    def by(error: BaseException) -> "StoreFailed":
        """Returns an error as StoreFailed, with its reason."""
        return error if isinstance(error, StoreFailed) else StoreFailed(why=str(error))


class FsyncFailed(StoreFailed):
    """The disk could not store written bytes; another fsync could succeed and hide the loss."""

    message = "the disk refused to keep written bytes ({why}); the broker ends"


class WriteFailed(StoreFailed):
    """A write or the removal of a name failed, and the disk is not full."""

    message = "the disk could not be written to ({why})"


class AllocationFailed(StoreFailed):
    """A file could not be created, and the disk is not full."""

    message = "a file could not be created ({why}); check the directory's owner and mode"
