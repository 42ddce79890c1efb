"""The request for statistics of the last minute, hour and day.

    315  VIEW_BROKER_STATS_DATA: statsMinute, statsHour, statsDay, each {sum, tps, avgpt}

Source: AdminBrokerProcessor.viewBrokerStatsData.
"""

from typing import Any, Final

from pocketmq.rpc.channel import ClassicCall
from pocketmq.rpc.classic.fields import text_field
from pocketmq.rpc.classic.json_body import json_answer
from pocketmq.rpc.classic.status import SYSTEM_ERROR
from pocketmq.services.admin.rates import WINDOWS, Rates
from pocketmq.wire.remoting import Command

_AVERAGED: Final = {"TOPIC_PUT_SIZE": "TOPIC_PUT_NUMS", "GROUP_GET_SIZE": "GROUP_GET_NUMS"}


class AdminRates:
    """The request for statistics."""

    __slots__ = ("_rates",)

    def __init__(self, rates: Rates) -> None:
        self._rates = rates

    def view(self, request: Command, call: ClassicCall) -> Command:
        """Returns sum, rate and average of one statistic over the last minute, hour and day.

        Errors   MalformedRequest
        """
        name, key = text_field(request, "statsName"), text_field(request, "statsKey")
        if not self._rates.knows((name, key)):
            return Command(SYSTEM_ERROR, remark=f"The stats <{name}> <{key}> not exist")
        shown = {window: self._shown(window, name, key) for window in sorted(WINDOWS)}
        return json_answer(shown)

    def _shown(self, window: str, name: str, key: str) -> dict[str, Any]:
        total, tps = self._rates.since(window, (name, key))
        count = self._rates.since(window, (_AVERAGED.get(name, name), key))[0]
        return {"avgpt": total / count if count else 0.0, "sum": total, "tps": tps}
