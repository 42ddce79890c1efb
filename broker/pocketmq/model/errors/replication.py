"""Changes of a broker's role that are not possible now."""

from pocketmq.model.errors.code import Code, RequestError


class WrongRole(RequestError, code=Code.PRECONDITION_FAILED):
    """A change for which the broker has the wrong role."""

    message = "the broker is {role}: {why}"
    role: str
    why: str


class FollowersBehind(RequestError, code=Code.PRECONDITION_FAILED):
    """A leader that may not follow another broker, as no follower has all of its log."""

    message = (
        "no follower has the last {lag_bytes} bytes of the log after {wait_ms}; wait until one "
        "has them (pocketmq replica status), or add --force: then records that only this broker "
        "has are set aside"
    )
    lag_bytes: int
    wait_ms: int


class ReplicaNotFound(RequestError, code=Code.PRECONDITION_FAILED):
    """A follower that the leader does not know."""

    message = "no follower is {replica}; pocketmq replica status lists them"
    replica: str
