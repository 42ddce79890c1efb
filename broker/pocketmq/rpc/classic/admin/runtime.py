"""Operators' requests about the broker itself.

    26  GET_BROKER_CONFIG            319  GET_NAMESRV_CONFIG
    28  GET_BROKER_RUNTIME_INFO      907  GET_BROKER_HA_STATUS
    25  UPDATE_BROKER_CONFIG

A setting is listed by PocketMQ's name. If RocketMQ has it, it is also listed by RocketMQ's name, in
RocketMQ's unit.
Source: AdminBrokerProcessor.prepareRuntimeInfo, HARuntimeInfo.
"""

from typing import Final

from pocketmq.model.errors import IllegalConfig, UnsupportedFeature
from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.admin.rates import AdminRates
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.classic.status import OK
from pocketmq.rpc.service import MalformedRequest
from pocketmq.rpc.services import Services
from pocketmq.services.admin.rates import Rates
from pocketmq.store.read.cold_read import value_of
from pocketmq.wire.remoting import VERSION, Command

_POOLS: Final = ("send", "pull", "litePull", "query", "ack")
_GIB: Final = 1 << 30
IN_SYNC_BYTES: Final = 256 << 20
"""Lag below which a slave counts as in sync (haMaxGapNotInSync)."""


class AdminRuntime:
    """The requests about the broker as a whole."""

    __slots__ = (
        "_change_settings", "_rates", "_read_rocketmq", "_read_settings", "_replicas", "_rules",
        "_started_ms", "_started_size", "_store", "rates",
    )  # fmt: skip

    def __init__(
        self,
        backing: Services,
        rules: ClassicRules,
        rates: Rates,
        controls: Controls,
    ) -> None:
        self._store = backing.store
        self._rules = rules
        self._rates = rates
        self.rates = AdminRates(rates)
        self._read_settings = controls.read_settings
        self._read_rocketmq = controls.read_rocketmq
        self._change_settings = controls.change_settings
        self._replicas = controls.replicas
        self._started_ms = self._store.clock.wall_ms()
        self._started_size = self._store.appended

    def config(self, request: Command, call: ClassicCall) -> Command:
        """Returns the settings as lines of a properties file."""
        rows = {key: value for key, value, _ in self._read_settings()}
        rows |= dict(self._read_rocketmq()) | self._rules.fixed_settings()
        text = "".join(f"{key}={_line(value)}\n" for key, value in sorted(rows.items()))
        return Command(0, body=text.encode())

    def change_config(self, request: Command, call: ClassicCall) -> Command:
        """Changes all given settings or none; the change lasts until the broker ends.

        Errors   UnsupportedFeature: a setting cannot be changed by request, or
                 `Controls.change_settings` is None; MalformedRequest: an illegal value;
                 TooManyElements
        """
        if self._change_settings is None:
            feature = (
                "request code 25 (UPDATE_BROKER_CONFIG) without signatures; sign as an admin, or "
                "start it with --insecure, or use the settings file and SIGHUP"
            )
            raise UnsupportedFeature(feature=feature)
        try:
            self._change_settings(request.body.decode())
        except UnicodeDecodeError as error:
            raise MalformedRequest(why="its body is not UTF-8") from error
        except IllegalConfig as error:
            raise MalformedRequest(why=str(error)) from error
        return OK

    def name_server_config(self, request: Command, call: ClassicCall) -> Command:
        """Returns the settings of this broker as name server."""
        return Command(0, body=b"orderMessageEnable=true\nreturnOrderTopicConfigToBroker=true\n")

    def ha_status(self, request: Command, call: ClassicCall) -> Command:
        """Returns the state of replication: this broker as master, and its connected slaves."""
        client = {
            "lastReadTimestamp": 0, "lastWriteTimestamp": 0, "masterFlushOffset": 0,
            "maxOffset": 0, "transferredByteInSecond": 0,
        }  # fmt: skip
        rows = [
            {
                "addr": row.peer, "diff": row.lag_bytes, "inSync": row.lag_bytes < IN_SYNC_BYTES,
                "slaveAckOffset": row.acknowledged, "transferFromWhere": row.sent,
                "transferredByteInSecond": 0,
            }
            for row in self._replicas()
            if row.is_connected
        ]  # fmt: skip
        return json_answer(
            {
                "haClientRuntimeInfo": client, "haConnectionInfo": rows,
                "inSyncSlaveNums": sum(row["inSync"] is True for row in rows),
                "master": True, "masterCommitLogMaxOffset": self._store.appended,
            }
        )  # fmt: skip

    async def _earliest_ms(self) -> int:
        """Returns the store time of the log's first message, -1 without one.

        mqadmin clusterList computes from this time how many hours of messages the broker keeps.
        """
        found = await value_of(self._store.reading.message_at(self._store.min_offset))
        return -1 if found is None else found.store_timestamp_ms

    async def info(self, request: Command, call: ClassicCall) -> Command:
        """Returns statistics of the store and its traffic as texts; rates are messages a second.

        Errors   StorageError, DiskSlow
        Cost     a read of the log
        """
        store, totals = self._store, self._rates.totals()
        (put, put_tps), (got, got_tps) = totals["BROKER_PUT_NUMS"], totals["BROKER_GET_NUMS"]
        _, used, free = store.disk_space()
        disk = f"{used / max(used + free, 1):.2f}"
        put_size = store.appended - self._started_size
        age_s = max(store.clock.wall_ms() - self._started_ms, 0) // 1_000
        table = {
            "brokerActive": "true",
            "brokerVersion": str(VERSION),  # RocketMQ 5.5 lacks it, but its exporter needs it.
            "brokerVersionDesc": "V5_5_0",
            "bootTimestamp": str(self._started_ms),
            "earliestMessageTimeStamp": str(await self._earliest_ms()),
            "runtime": _age(age_s),
            "msgPutTotalTodayNow": str(put),
            "msgGetTotalTodayNow": str(got),
            "putTps": _triplet(put_tps),
            "getFoundTps": _triplet(got_tps),
            "getTransferredTps": _triplet(got_tps),
            "getTotalTps": _triplet(got_tps),
            "getMissTps": _triplet(0.0),
            "putMessageDistributeTime": "null",  # As RocketMQ shows it in its first minute.
            "putMessageTimesTotal": str(put),
            "putMessageSizeTotal": str(put_size),
            "putMessageAverageSize": str(put_size / put if put else 0.0),
            "commitLogMinOffset": str(store.min_offset),
            "commitLogMaxOffset": str(store.appended),
            "commitLogDiskRatio": disk,
            "consumeQueueDiskRatio": disk,
            "commitLogDirCapacity": f"Total : {(used + free) / _GIB:.1f} GiB, "
            f"Free : {free / _GIB:.1f} GiB.",
            "dispatchBehindBytes": str(max(store.appended - store.dispatched, 0)),
            "remainHowManyDataToFlush": f"{max(store.appended - store.flushed, 0)} B",
            "remainTransientStoreBufferNumbs": "2147483647",
            **dict.fromkeys(("EndTransactionThreadPoolQueueCapacity", "dispatchMaxBuffer"), "0"),
            **dict.fromkeys(_ZEROS, "0"),
            **dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0.0"),
        }
        for pool in _POOLS:
            for name in ("QueueSize", "QueueCapacity", "QueueHeadWaitTimeMills"):
                table[f"{pool}ThreadPool{name}"] = "0"
        return json_answer({"table": table})


_ZEROS: Final = (
    "EndTransactionQueueSize", "getMessageEntireTimeMax", "msgGetTotalTodayMorning",
    "msgGetTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills", "putMessageEntireTimeMax", "putMessageFailedTimes",
    "startAcceptSendRequestTimeStamp", "timerCongestNum", "timerOffsetBehind", "timerReadBehind",
)  # fmt: skip


def _triplet(tps: float) -> str:
    """Returns a rate three times, where RocketMQ reports rates of 10 s, 1 min and 10 min."""
    return f"{tps} {tps} {tps}"


def _age(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    return f"[ {days} days, {hours} hours, {rest // 60} minutes, {rest % 60} seconds ]"


def _line(value: str) -> str:
    """Returns a value on one line of a properties file."""
    return value.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
