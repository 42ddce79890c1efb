"""Replication at a broker's start: finds its role before its store opens, then begins that role.

read ids and terms ──► settings of the store ──► link to the leader ──► begin

The modules of a follower (app/following.py) are imported only by a broker that follows or followed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from pocketmq.app.parts import SWITCH, Parts, Replicated
from pocketmq.app.stage import WORLD, Stage
from pocketmq.config.sections import Config
from pocketmq.rpc.replication.follower_port import FollowerPort
from pocketmq.services.replication.followers import Followers, Greeting
from pocketmq.store.message_store import MessageStore
from pocketmq.store.recovery.cut import cut_if_room, set_aside
from pocketmq.store.settings import StoreSettings
from pocketmq.store.tables.identity import StoreIdentity
from pocketmq.store.tables.terms import TermTable


class Replication(NamedTuple):
    """The role of a broker, with its terms and ids, as read before its store is open.

    leader     endpoint of the broker's leader; "": this broker leads
    port       admits followers
    """

    leader: str
    terms: TermTable
    identity: StoreIdentity
    port: FollowerPort
    stage: Stage

    @staticmethod
    def read(stage: Stage, config: Config, port: FollowerPort) -> "Replication":
        """Reads the files of a store.

        Errors   TableUnreadable
        """
        directory = config.store_settings().directory
        terms, identity = TermTable(stage.disk, directory), StoreIdentity(stage.disk, directory)
        terms.load()
        identity.load()
        return Replication(leader_of(config, terms), terms, identity, port, stage)

    async def settings(self, config: Config, *, accept_damage: bool) -> StoreSettings:
        """Returns the settings of the store.

        Effects  cuts a follower's log first, if the last run ended because its log had diverged
        """
        found = replace(config.store_settings(), accept_damage=accept_damage, leader=self.leader)
        handover = self.stage.handover
        cut_at, handover.cut_at = handover.cut_at, -1
        if not self.leader:
            return found
        found = replace(found, transient_pool=False)
        if cut_at >= 0:
            await asyncio.to_thread(cut_if_room, found, self.stage.disk, cut_at)
        return found

    async def replicated(
        self,
        store: MessageStore,
        config: Config,
        stop: Callable[[str], None],
        reload_users: Callable[[], None],
    ) -> Replicated:
        """Returns the parts of replication that services need; does not connect to the leader yet.

        stop           restarts the broker's services
        reload_users   applies the users of the leader
        Errors   IllegalConfig
        """

        def cut(physical_offset: int) -> None:
            self.stage.handover.cut_at = physical_offset
            stop(SWITCH)

        link = None
        if self.leader:
            from pocketmq.app.following import following_of

            link = following_of(store, config, WORLD, self.identity, self.terms, cut, reload_users)
        directory = store.settings.directory
        aside = await asyncio.to_thread(set_aside, self.stage.disk, directory)
        return Replicated(self.terms, link, aside)

    def begin(self, store: MessageStore, parts: Parts, config: Config) -> None:
        """Admits followers, and starts this broker's role.

        A follower connects to its leader. A promoted broker fences the leader that it followed.
        """
        greeting = Greeting(config.broker.name, config.broker.cluster, parts.address)
        self.port.serve(
            Followers(
                store, parts.leader, self.identity, self.terms, greeting,
                parts.door.check_follower, parts.roles.fence,
            )
        )  # fmt: skip
        if self.terms.fence is not None:
            return
        if parts.following is not None:
            parts.following.start()
            return
        if not self.terms.epoch or not self.terms.leader:
            return
        from pocketmq.app.following import fencer_of

        fencer = fencer_of(config, WORLD, self.identity, self.terms, greeting, parts.roles.fence)
        if fencer is not None:
            self.port.fence(fencer)


def leader_of(config: Config, terms: TermTable) -> str:
    """Returns the endpoint of the broker's leader; "" if the broker leads.

    A role that an operator chose replaces the setting. A fenced broker follows only after an
    operator's command.
    """
    return terms.leader_or(config.replication.leader)
