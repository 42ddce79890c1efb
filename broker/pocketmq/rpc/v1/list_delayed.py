"""ListDelayed: lists messages that wait for a delay level or a time, for operators."""

from pocketmq.model.administration import Page
from pocketmq.rpc.call import Call
from pocketmq.rpc.pb import admin_pb2 as pb
from pocketmq.rpc.permissions import GET, LIST, topic_need
from pocketmq.services.admin.delayed import Delayed, not_waiting
from pocketmq.store.message_store import MessageStore


class ListDelayed:
    """The method."""

    __slots__ = ("_delayed",)

    def __init__(self, store: MessageStore) -> None:
        self._delayed = Delayed(store)

    async def __call__(self, request: pb.ListDelayedRequest, call: Call) -> pb.ListDelayedResponse:
        """Returns a page of them, or those of one id.

        Errors   those of `Delayed.page` and `Delayed.of_id`
        """
        if request.message_id:
            found = await self._delayed.of_id(request.message_id)
            page = Page([one for one in found if request.topic in ("", one.topic)], "")
        else:
            page = await self._delayed.page(
                request.topic, page_size=request.page_size, page_token=request.page_token
            )
        shown = [one for one in page.items if call.may(topic_need(one.topic, (*GET, *LIST)))]
        if request.message_id and not shown:
            raise not_waiting(request.message_id)
        rows = [pb.DelayedMessage(**one._asdict()) for one in shown]
        return pb.ListDelayedResponse(messages=rows, next_page_token=page.next_page_token)
