"""The console as an ASGI application: routes, login, and pages for errors of the broker."""

import logging
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from typing import Final

from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Router
from starlette.routing import Route as Path
from starlette.types import ASGIApp

from pocketmq.client import AsyncClient, ClientError, Unreachable, errors
from pocketmq.console.asset_files import asset
from pocketmq.console.listing import kept
from pocketmq.console.offers import Offers
from pocketmq.console.protection import PRIVATE, Guarded, is_own_origin, is_sure_host
from pocketmq.console.web import Console, FormTooLarge, Route, Visit

logger = logging.getLogger(__name__)

COOKIE: Final = "pocketmq_console"
LOGIN: Final = "/login"
GRANTS_S: Final = 5.0
"""Time for which a visitor's grants are cached."""
STATUSES: Final = {
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "PERMISSION_DENIED": HTTPStatus.FORBIDDEN,
    "UNIMPLEMENTED": HTTPStatus.NOT_IMPLEMENTED,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
    "DEADLINE_EXCEEDED": HTTPStatus.GATEWAY_TIMEOUT,
}
"""gRPC status of a failed call -> HTTP status of the page."""


def application(console: Console, *, is_private: bool = True, token: str = "") -> ASGIApp:
    """Returns the console's application; see `Guarded`."""
    served = _Served(console)
    paths = [served.path(route) for route in console.routes]
    if console.directory:
        paths.append(Path("/enter", served.enter, methods=["GET"]))
    else:
        paths += [
            Path(LOGIN, served.show_login, methods=["GET"]),
            Path(LOGIN, served.log_in, methods=["POST"]),
            Path("/logout", served.log_out, methods=["POST"]),
        ]
    paths += [
        Path("/assets/{name}", asset, methods=["GET"]),
        Path("/{rest:path}", served.missing),
    ]
    # The class Starlette also loads pages for debugging, with half a MiB of names of characters.
    routed = Router(routes=[Mount(console.base or "/", routes=paths)])
    app = ExceptionMiddleware(routed, handlers={Exception: _report_defect})
    return Guarded(app, is_private=is_private, token=token)


async def _report_defect(request: Request, error: Exception) -> Response:
    logger.error("console.failed", extra={"path": request.url.path}, exc_info=error)
    return PlainTextResponse("Internal Server Error", HTTPStatus.INTERNAL_SERVER_ERROR)


class _Served:
    def __init__(self, console: Console) -> None:
        self._console = console

    def path(self, route: Route) -> Path:
        """Returns Starlette's route for a page."""

        async def endpoint(request: Request) -> Response:
            return await self._answer(request, route)

        methods = ["POST"] if route.is_action else ["GET"]
        return Path(route.path, endpoint, methods=methods)

    async def _answer(self, request: Request, route: Route) -> Response:
        page = self._page(request)
        if self._console.directory and not page.visitor.access_key:
            return PlainTextResponse(GIVE_ADDRESS, HTTPStatus.FORBIDDEN)
        if not page.visitor.access_key and not is_sure_host(request.headers.get("host", "")):
            return self._keep(page, self._login(page, HTTPStatus.FORBIDDEN, UNSURE_HOST))
        try:
            response = await _refusal(page) if route.is_action else None
            page.offers = await _offers(page) if response is None else page.offers
            if response is None and route.is_action and page.offers.is_read_only:
                response = page.render("refused.html", HTTPStatus.FORBIDDEN, why="read-only")
            response = response or await route.handler(page)
        except ClientError as error:
            response = self._failed(page, error)
        await self._close_ended()
        return self._keep(page, response)

    async def missing(self, request: Request) -> Response:
        """Answers a request for a page that does not exist."""
        page = self._page(request)
        return page.render("missing.html", HTTPStatus.NOT_FOUND)

    async def enter(self, request: Request) -> Response:
        """Begins a session of a console for a directory, if the URL has the printed token."""
        page = self._page(request)
        if not compare_digest(page.text("token").encode(), self._console.entrance.encode()):
            return PlainTextResponse(GIVE_ADDRESS, HTTPStatus.FORBIDDEN)
        page.visitor = self._console.visitors.enter(READER, self._console.visitors.source("", ""))
        return self._keep(page, page.redirect("/"))

    # --- login ------------------------------------------------------------------------------------

    async def show_login(self, request: Request) -> Response:
        """Shows the form for access key and secret."""
        page = self._page(request)
        is_checked = await _checks_users(page.client)
        return self._keep(page, self._login(page, is_checked=is_checked))

    async def log_in(self, request: Request) -> Response:
        """Begins a session if the broker accepts a call with the user's signature."""
        page = self._page(request)
        if refusal := await _refusal(page):
            return self._keep(page, refusal)
        if not page.request.scope[PRIVATE]:
            return self._keep(page, self._login(page, HTTPStatus.FORBIDDEN))
        access_key, secret = page.text("access_key"), page.text("secret")
        source = self._console.visitors.source(access_key, secret)
        try:
            # These errors are replies to a known user, who may not call this method.
            with suppress(errors.AccessDenied, errors.AdminsOnly):
                await source.admin.store_status()
            is_known = not self._console.needs_login or await _is_checked(source)
        except ClientError as error:
            await source.close()
            status = STATUSES.get(error.status, HTTPStatus.UNAUTHORIZED)
            return self._keep(page, self._login(page, status, error.message))
        if not is_known:
            await source.close()
            answer = self._login(page, HTTPStatus.FORBIDDEN, NOT_CHECKED, is_checked=False)
            return self._keep(page, answer)
        visitor = self._console.visitors.enter(access_key, source)
        target = page.text("next")
        is_own = target.startswith("/") and not target.startswith(("//", "/\\"))
        page.visitor = visitor
        return self._keep(page, page.redirect(target if is_own else "/"))

    async def log_out(self, request: Request) -> Response:
        """Ends the session."""
        page = self._page(request)
        if refusal := await _refusal(page):
            return refusal
        self._console.visitors.leave(page.visitor.number)
        await self._close_ended()
        return page.redirect(LOGIN)

    def _login(
        self, page: Visit, status: int = HTTPStatus.OK, failure: str = "", *,
        is_checked: bool = True,
    ) -> Response:  # fmt: skip
        target = page.text("next", "/")
        is_private = page.request.scope[PRIVATE]
        return page.render(
            "login.html", status, next=target, failure=failure, is_private=is_private,
            is_checked=is_checked,
        )  # fmt: skip

    # --- the visitor ------------------------------------------------------------------------------

    def _page(self, request: Request) -> Visit:
        visitor = self._console.visitors.visitor(request.cookies.get(_cookie_name(request), ""))
        return Visit(request, self._console, visitor)

    def _keep(self, page: Visit, response: Response) -> Response:
        name, number = _cookie_name(page.request), page.visitor.number
        if page.request.cookies.get(name) != number:
            response.set_cookie(
                name, number, path=self._console.base or "/", httponly=True, samesite="strict",
                secure=page.request.url.scheme == "https",
            )  # fmt: skip
        return response

    def _failed(self, page: Visit, error: ClientError) -> Response:
        """Returns the page of an error, or a redirect to the login if the broker requires one."""
        if isinstance(error, errors.Unauthenticated):
            query = page.request.url.query
            path = page.request.url.path.removeprefix(self._console.base)
            is_page = page.request.method == "GET" and "hx-request" not in page.request.headers
            target = f"{path}?{query}" if query else path
            if "hx-request" in page.request.headers:
                answer = PlainTextResponse("", HTTPStatus.OK)
                answer.headers["hx-redirect"] = page.url(LOGIN)
                return answer
            return page.redirect(LOGIN, next=target if is_page else "/")
        status = STATUSES.get(error.status, HTTPStatus.BAD_REQUEST)
        template = "part_error.html" if "hx-request" in page.request.headers else "error.html"
        if template == "part_error.html":
            status = HTTPStatus.OK  # htmx shows no other answer
        return page.render(
            template, status, error=error, is_unreachable=isinstance(error, Unreachable)
        )

    async def _close_ended(self) -> None:
        ended = self._console.visitors.ended
        while ended:
            await ended.pop().close()


READER: Final = "read-only"
"""Shown in place of a user's name if the console shows a directory."""
NOT_CHECKED: Final = "the broker checks no users, so it cannot verify a login"
GIVE_ADDRESS: Final = "open the address that `pocketmq console` printed; it has a token\n"
UNSURE_HOST: Final = (
    "this name could have been made to point here by another site: open the console by its IP "
    "address or as localhost, or log in"
)


async def _offers(page: Visit) -> Offers:
    """Returns what pages offer the visitor.

    Errors   ClientError: the broker refuses the visitor, or does not answer
    """
    if page.console.directory:
        return Offers()
    is_read_only = page.console.needs_login and not page.visitor.access_key
    try:
        own = await kept(page, "own", page.client.admin.access.own_grants, GRANTS_S)
    except ClientError as error:
        if error.status != "UNIMPLEMENTED":
            raise
        own = None  # An older broker; it refuses what the user may not do.
    return Offers(own, is_read_only=is_read_only)


async def _refusal(page: Visit) -> Response | None:
    """Reads the form of an action; returns an error page if it is too large or foreign."""
    try:
        await page.read_form()
    except FormTooLarge:
        return page.render("refused.html", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why="too large")
    is_own = compare_digest(page.text("token").encode(), page.visitor.token.encode())
    if not is_own or not is_own_origin(page.request.headers):
        return page.render("refused.html", HTTPStatus.FORBIDDEN, why="not of this console")
    return None


async def _checks_users(source: AsyncClient) -> bool:
    """Returns whether a broker checks users; True if it does not report that."""
    try:
        return (await source.admin.access.list_users())[1]
    except ClientError:
        return True


async def _is_checked(source: AsyncClient) -> bool:
    """Returns whether the broker checks the signatures of a client."""
    try:
        return (await source.admin.access.own_grants()).user is not None
    except ClientError as error:
        if error.status != "UNIMPLEMENTED":
            raise
        return False


def _cookie_name(request: Request) -> str:
    # Cookies of one host are shared by all its ports.
    return f"{COOKIE}_{request.url.port or 0}"
