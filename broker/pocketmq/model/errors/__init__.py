"""All errors that the broker raises; each has a wire code, and its class shows the next step.

BrokerError
    RequestError        the request is invalid; the client must change it
    Unavailable         the request is valid; a retry may succeed
    StorageError        the operator must act
        StoreFailed     the process ends

ARCHITECTURE.md ("The errors") shows the whole tree. The modules `status` of rpc/v1, rpc/v2 and
rpc/classic turn errors into replies.
"""

from pocketmq.model.errors.access import *
from pocketmq.model.errors.code import *
from pocketmq.model.errors.official import *
from pocketmq.model.errors.replication import *
from pocketmq.model.errors.request import *
from pocketmq.model.errors.storage import *
