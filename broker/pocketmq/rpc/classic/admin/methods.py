"""The requests of operators."""

from pocketmq.rpc.classic.admin.change_groups import ChangeGroups
from pocketmq.rpc.classic.admin.change_topics import ChangeTopics
from pocketmq.rpc.classic.admin.clients import AdminClients
from pocketmq.rpc.classic.admin.groups import AdminGroups
from pocketmq.rpc.classic.admin.rates import ClassicRates
from pocketmq.rpc.classic.admin.runtime import AdminRuntime, ReadSettings
from pocketmq.rpc.classic.admin.topics import AdminTopics
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.services import Services


class ClassicAdmin:
    """The handlers of operators' request codes.

    read_settings   returns (key, value, origin) of every setting
    """

    __slots__ = (
        "changed_groups", "changed_topics", "clients", "groups", "rates", "runtime", "topics",
    )  # fmt: skip

    def __init__(self, backing: Services, rules: ClassicRules, read_settings: ReadSettings) -> None:
        self.rates = ClassicRates(backing, rules.cluster)
        self.topics = AdminTopics(backing, rules, self.rates)
        self.groups = AdminGroups(backing, rules.broker, self.rates)
        self.changed_topics = ChangeTopics(backing.store)
        self.changed_groups = ChangeGroups(backing.store)
        self.clients = AdminClients(backing, rules.broker)
        self.runtime = AdminRuntime(backing, rules, self.rates, read_settings)
