"""Handlers of operators' requests."""

from pocketmq.rpc.classic.admin.change_groups import ChangeGroups
from pocketmq.rpc.classic.admin.change_topics import ChangeTopics
from pocketmq.rpc.classic.admin.clients import AdminClients
from pocketmq.rpc.classic.admin.consumption import AdminConsumption
from pocketmq.rpc.classic.admin.controls import Controls
from pocketmq.rpc.classic.admin.groups import AdminGroups
from pocketmq.rpc.classic.admin.runtime import AdminRuntime
from pocketmq.rpc.classic.admin.topics import AdminTopics
from pocketmq.rpc.classic.admin.upkeep import AdminUpkeep
from pocketmq.rpc.classic.admin.users import AdminUsers
from pocketmq.rpc.classic.routes import ClassicRules
from pocketmq.rpc.services import Services


class ClassicAdmin:
    """The handlers of operators' request codes."""

    __slots__ = (
        "changed_groups", "changed_topics", "clients", "consumption", "groups",
        "runtime", "topics", "upkeep", "users",
    )  # fmt: skip

    def __init__(self, backing: Services, rules: ClassicRules, controls: Controls) -> None:
        rates = backing.rates
        self.topics = AdminTopics(backing, rules, rates)
        self.groups = AdminGroups(backing, rules.broker, rules.auto_create_groups, rates)
        self.changed_topics = ChangeTopics(backing.store)
        self.changed_groups = ChangeGroups(backing.store)
        self.clients = AdminClients(backing, rules.broker)
        self.consumption = AdminConsumption(backing, rules, rates)
        self.runtime = AdminRuntime(backing, rules, rates, controls)
        self.upkeep = AdminUpkeep(backing, controls)
        self.users = AdminUsers(controls.access)
