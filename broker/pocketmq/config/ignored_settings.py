"""RocketMQ's settings that have no counterpart here, by subject.

Names that operators are known to set are listed in rocketmq.py one by one. The several hundred
others of RocketMQ's releases go by the words in them.
"""

import re
from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, str]] = {
    "TLS is answered without being asked for; rpc.tls, rpc.tls_cert and rpc.tls_key are all": r"""
        useTLS ^tls""",
    "users and grants are the store's: pocketmq user, pocketmq acl; import plain_acl.yml": r"""
        ^auth ^acl [Aa]uthorization [Aa]uthentication ^userCache AuthFromV1""",
    "queues, index and tables lie in files; there is no RocksDB": r"""
        [Rr]ocks [Rr]ocksdb ^storeType$ ^combine CompressionTypeForConsumeQueue ^memTable
        ^configManagerVersion$""",
    "one process is one broker; start one for each file brokerConfigPaths names": r"""
        [Cc]ontainer brokerConfigPaths""",
    "this broker stands alone, without replicas": r"""
        ^ha[A-Z] [Ss]lave [Rr]eplica SyncState ^dLeger ^dledger [Cc]ontroller [Ll]earner Epoch
        InSync ^preferredLeader BrokerMember BrokerMetadata MasterFlush ^skipPreOnline
        ^forwardTimeout ^storePathBrokerIdentity SkipLongAwaitingAck syncFromLastFile""",
    "clients come to this broker without a name server": r"""
        [Nn]ame[Ss](erver|rv) [Rr]egist(er|ration) ^clusterName$ ^localHostName$ SplitMetadata
        splitMetadata CleanOfflineBroker cleanOfflineBroker""",
    "one event loop serves all calls; there are no thread pools to size": r"""
        [Tt]hread QueueCapacity ^waitTimeMills Executor [Ss]emaphore MaxAsyncPut maxAsyncPut
        ^spinLock ^useABSLock ^lockInStrict ^batchDispatch ^dispatch AsyncReput Concurrently$
        [Aa]syncSend concurrently""",
    "connections are gRPC's own matter here": r"""
        ^(client|server|channel|socks|connect|write[BO]|shared|maxReconnect) [Nn]etty [Ss]ocket
        Epoll ^bindAddress GoAway EventProcess highSpeedMode FlowControlEnable maxClientEvent
        NetWorkFlow""",
    "there is no timer wheel in this broker": r"""^timer [Dd]elayOffset ^schedule Schedule""",
    "consuming by pop is not part of this broker": r"""
        ^pop Pop [Rr]evive appendAck appendCk [Cc]kMax CKRe ^ack RetryTopicV[12]
        MessageRequestMode SeparateRetryQueue retryTopic""",
    "light queues are not made by this broker": r"""
        ^lite Lite [Ll]mq MultiDispatch StoreReply storeReply""",
    "topics are not compacted here": r"""[Cc]ompaction OffsetMap""",
    "transactions are not part of this broker": r"""^trans [Tt]ransaction""",
    "everything lies below store.directory, in one place": r"""^readOnlyCommitLog ^storePath""",
    "the store sees to it by itself": r"""
        [Cc]old [Ss]wap readAhead ReadAhead HotRatio Mmap ^correctLogic ^logicQueue ^commitLog
        ^logicalDisk AcceleratedRecovery OnRecover RunningFlags ^wake ConsumeQueueScan BatchDelete
        readOnlyCommitLog ^indexFile ^iteratorWhen ChecksumRange searchBcq""",
    "metrics are shown on the HTTP port": r"""
        [Mm]etric [Ss]tat[is] ^stat [Cc]ommercial [Aa]ccount Log$ ^log printChannel ^sample
        estimateAcc AutoDeleteUnused""",
    "offsets are durable when a commit is answered": r"""[Oo]ffset""",
}
_FAMILIES: Final = tuple(
    (re.compile("|".join(words.split())), why) for why, words in _WORDS.items()
)


def why_left_out(name: str) -> str:
    """Returns why a name that looks like one of RocketMQ's has no meaning here; "" for none.

    Of several reasons it is the first.
    """
    return next((why for pattern, why in _FAMILIES if pattern.search(name)), "")
