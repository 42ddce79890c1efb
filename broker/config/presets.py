"""Sets of defaults for a kind of machine; what an operator sets goes over them.

preset   commit-log files   index file                 flush
dev      64 MiB             0.2 M slots, 1 M entries   async   losing the last messages is no loss
edge     64 MiB             0.2 M slots, 1 M entries   sync    one small machine that may lose power
server   1 GiB              5 M slots, 20 M entries    async   RocketMQ's own defaults

Edge is what every setting's own default says. A store that exists keeps its sizes under any preset.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from broker.config.knob import Value
from broker.config.units import GIB
from broker.store.settings import FLUSH_ASYNC

DEV: Final = "dev"
EDGE: Final = "edge"
SERVER: Final = "server"

PRESETS: Final[Mapping[str, Mapping[str, Value]]] = MappingProxyType(
    {
        DEV: {"store.flush": FLUSH_ASYNC},
        EDGE: {},
        SERVER: {
            "store.flush": FLUSH_ASYNC,
            "store.commit_log_file_size_bytes": GIB,
            "store.index_slot_count": 5_000_000,
            "store.index_entry_count_max": 20_000_000,
        },
    }
)
