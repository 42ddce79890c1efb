"""The requests of operators."""

from pocketmq.rpc.classic.admin.change_groups import ChangeGroups
from pocketmq.rpc.classic.admin.change_topics import ChangeTopics
from pocketmq.rpc.classic.admin.clients import AdminClients
from pocketmq.rpc.classic.admin.groups import AdminGroups
from pocketmq.rpc.classic.admin.rates import AdminRates
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
        rates = backing.rates
        self.rates = AdminRates(rates)
        self.topics = AdminTopics(backing, rules, rates)
        self.groups = AdminGroups(backing, rules.broker, rates)
        self.changed_topics = ChangeTopics(backing.store)
        self.changed_groups = ChangeGroups(backing.store)
        self.clients = AdminClients(backing, rules.broker)
        self.runtime = AdminRuntime(backing, rules, rates, read_settings)
