"""Every error this broker raises, with its wire code and whether a retry makes sense.

BrokerError
    RequestError        the request is at fault; the client changes it
    Unavailable         the request is sound; a retry may succeed
    StorageError        the operator acts
        StoreFailed     the process ends

ARCHITECTURE.md ("The errors") shows the whole tree. Each class carries typed fields and states what
happened, which limit it met, and what to do next. Only `rpc/v1/status.py` and `rpc/v2/status.py`
turn errors into wire statuses.
"""

from pocketmq.model.errors.access import *
from pocketmq.model.errors.code import *
from pocketmq.model.errors.official import *
from pocketmq.model.errors.request import *
from pocketmq.model.errors.storage import *
