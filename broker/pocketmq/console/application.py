"""The console as an ASGI application: routes, login, and pages for errors of the broker."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hmac import compare_digest
from http import HTTPStatus
from typing import Final

from pocketmq.client import AsyncClient, ClientError, Unreachable, errors
from pocketmq.console.asgi import (
    Application,
    BrowserLeft,
    PageRequest,
    Part,
    Receive,
    Redirect,
    Response,
    Scope,
    Send,
    TextResponse,
)
from pocketmq.console.asset_files import asset
from pocketmq.console.listing import kept
from pocketmq.console.offers import Offers
from pocketmq.console.protection import PRIVATE, Guarded, is_own_origin, is_sure_host
from pocketmq.console.web import Console, FormTooLarge, Route, Visit

Endpoint = Callable[[PageRequest], Awaitable[Response]]

GET: Final = "GET"
POST: Final = "POST"
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


def application(console: Console, *, is_private: bool = True, token: str = "") -> Application:
    """Returns the console's application; see `Guarded`."""
    return Guarded(_Served(console).answer, is_private=is_private, token=token)


class _Served:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._paths: dict[str, dict[str, Endpoint]] = {}
        for route in console.routes:
            self._add(route.path, POST if route.is_action else GET, self._endpoint(route))
        if console.directory:
            self._add("/enter", GET, self.enter)
        else:
            self._add(LOGIN, GET, self.show_login)
            self._add(LOGIN, POST, self.log_in)
            self._add("/logout", POST, self.log_out)

    def _add(self, path: str, method: str, endpoint: Endpoint) -> None:
        self._paths.setdefault(path, {})[method] = endpoint

    def _endpoint(self, route: Route) -> Endpoint:
        async def endpoint(request: PageRequest) -> Response:
            return await self._answer(request, route)

        return endpoint

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request.

        Errors   of a page, after the answer that it failed
        """
        is_begun = False

        async def noting(part: Part) -> None:
            nonlocal is_begun
            is_begun = True
            await send(part)

        request = PageRequest(scope, receive)
        try:
            response = await self._found(request)(request)
            await response(scope, receive, noting)
        except BrowserLeft:
            return
        except Exception:
            if not is_begun:
                failed = TextResponse("Internal Server Error", HTTPStatus.INTERNAL_SERVER_ERROR)
                await failed(scope, receive, send)
            raise

    def _found(self, request: PageRequest) -> Endpoint:
        """Returns the function that answers a request."""
        base, path = self._console.base, request.path
        if base and path == base:
            return self._above
        if not path.startswith(f"{base}/"):
            return _nothing
        path = path.removeprefix(base)
        folder, _, name = path.rpartition("/")
        methods = {GET: asset} if folder == "/assets" and name else self._paths.get(path, {})
        found = methods.get(GET if request.method == "HEAD" else request.method)
        if found is None and request.method in (GET, "HEAD"):
            return self.missing
        return found or _refused(methods or {GET: self.missing})

    async def _above(self, request: PageRequest) -> Response:
        query = f"?{request.query}" if request.query else ""
        return Redirect(f"{self._console.base}/{query}", HTTPStatus.TEMPORARY_REDIRECT)

    async def _answer(self, request: PageRequest, route: Route) -> Response:
        page = self._page(request)
        if self._console.directory and not page.visitor.access_key:
            return TextResponse(GIVE_ADDRESS, HTTPStatus.FORBIDDEN)
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

    async def missing(self, request: PageRequest) -> Response:
        """Answers a request for a page that does not exist."""
        page = self._page(request)
        return page.render("missing.html", HTTPStatus.NOT_FOUND)

    async def enter(self, request: PageRequest) -> Response:
        """Begins a session of a console for a directory, if the URL has the printed token."""
        page = self._page(request)
        if not compare_digest(page.text("token").encode(), self._console.entrance.encode()):
            return TextResponse(GIVE_ADDRESS, HTTPStatus.FORBIDDEN)
        page.visitor = self._console.visitors.enter(READER, self._console.visitors.source("", ""))
        return self._keep(page, page.redirect("/"))

    # --- login ------------------------------------------------------------------------------------

    async def show_login(self, request: PageRequest) -> Response:
        """Shows the form for access key and secret."""
        page = self._page(request)
        is_checked = await _checks_users(page.client)
        return self._keep(page, self._login(page, is_checked=is_checked))

    async def log_in(self, request: PageRequest) -> Response:
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

    async def log_out(self, request: PageRequest) -> Response:
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

    def _page(self, request: PageRequest) -> Visit:
        visitor = self._console.visitors.visitor(request.cookies.get(_cookie_name(request), ""))
        return Visit(request, self._console, visitor)

    def _keep(self, page: Visit, response: Response) -> Response:
        name, number = _cookie_name(page.request), page.visitor.number
        if page.request.cookies.get(name) != number:
            is_secure = page.request.scheme == "https"
            response.set_cookie(name, number, self._console.base or "/", is_secure=is_secure)
        return response

    def _failed(self, page: Visit, error: ClientError) -> Response:
        """Returns the page of an error, or a redirect to the login if the broker requires one."""
        if isinstance(error, errors.Unauthenticated):
            query = page.request.query
            path = page.request.path.removeprefix(self._console.base)
            is_page = page.request.method == "GET" and "hx-request" not in page.request.headers
            target = f"{path}?{query}" if query else path
            if "hx-request" in page.request.headers:
                answer = TextResponse("", HTTPStatus.OK)
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


async def _nothing(request: PageRequest) -> Response:
    return TextResponse("Not Found", HTTPStatus.NOT_FOUND)


def _refused(methods: Mapping[str, Endpoint]) -> Endpoint:
    """Returns the function for a method that a path does not have."""
    allowed = ", ".join(f"{GET}, HEAD" if method == GET else method for method in methods)

    async def refuse(request: PageRequest) -> Response:
        status = HTTPStatus.METHOD_NOT_ALLOWED
        return TextResponse(status.phrase, status, headers={"allow": allowed})

    return refuse


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


def _cookie_name(request: PageRequest) -> str:
    # Cookies of one host are shared by all its ports.
    return f"{COOKIE}_{request.port}"
