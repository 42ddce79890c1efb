"""Signatures of classic clients, which sign each whole request with the user's secret.

    AccessKey   the user's access key      Signature   base64 of HMAC-SHA1
    signed      the values of all fields but Signature, in the order of their names, then the body

Source: AclClientRPCHook, AclUtils.combineRequestContent.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from pocketmq.format.signature import content_signature
from pocketmq.model.rights import Rights
from pocketmq.rpc.channel import ClassicCall
from pocketmq.services.access.access import Access
from pocketmq.wire.remoting import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"


def signed_content(request: Command) -> bytes:
    """Returns the bytes that the signature of a request covers."""
    names = sorted(request.fields.keys() - {SIGNATURE})
    return "".join(map(request.fields.__getitem__, names)).encode() + request.body


def signing_fields(user: str, secret: str, request: Command) -> Mapping[str, str]:
    """Returns the fields with which a client of RocketMQ signs a request."""
    named = request._replace(fields={**request.fields, ACCESS_KEY: user})
    return {ACCESS_KEY: user, SIGNATURE: content_signature(secret, signed_content(named))}


def signed_by_fields(access: Access, call: ClassicCall) -> Rights:
    """Returns the rights of the user who signed a request.

    Errors   Unauthenticated
    """
    request = call.command
    fields = request.fields
    rights = access.signer(
        fields.get(ACCESS_KEY, ""), fields.get(SIGNATURE, ""), signed_content(request)
    )
    call.when_user_gone = partial(access.when_gone, rights)
    return rights
