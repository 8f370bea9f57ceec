"""The frame of the console: signing in, the signed-in caller, and the page around each view.

A browser signs in with an API key, which is kept in an HttpOnly, SameSite cookie and checked with each request. A view
returns nodes of ``htpy``, which escapes every text.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import htpy as h
from starlette.applications import Starlette
from starlette.datastructures import FormData, Headers, MutableHeaders, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as RequestScope

from retrieval.collection import Collection
from retrieval.domain.api_key import Caller, Scope
from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.platform import Platform
from retrieval.surfaces.http.admission import Access
from retrieval.surfaces.http.caller import caller_of, platform_of, service_of
from retrieval.surfaces.http.connection import HEAD_BYTES
from retrieval.surfaces.http.openapi import CONSOLE, CONSOLE_FILES, SIGN_IN, Page, file_page
from retrieval.surfaces.http.problems import MEDIA_TYPE, AuthenticationError, MisdirectedError

COOKIE = "retrieval_key"
_FIRST_PAGE, _SIGN_OUT = f"{CONSOLE}/search", f"{CONSOLE}/sign-out"

_NAME = b"x-api-key"
_SAFE = frozenset({"GET", "HEAD"})

SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""The headers of each page: scripts only from our own files, no other host, no frames, no caching."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a signed-in caller."""

    request: Request
    caller: Caller
    platform: Platform
    form: FormData = field(default_factory=FormData)
    """The fields of a posted form."""

    def may(self, scope: Scope) -> bool:
        """Whether the key has the scope; the console hides actions that the key does not allow."""
        return self.caller.may(scope)

    @property
    def is_part(self) -> bool:
        """Whether a script requests a part of the page."""
        return "hx-request" in self.request.headers

    def text(self, name: str, default: str = "") -> str:
        """The value of a form's field or of a parameter."""
        text = self.form.get(name)
        if isinstance(text, str):
            return text
        return self.request.query_params.get(name, default)

    def texts(self, name: str) -> list[str]:
        """All values of a form's field or of a parameter, without empty ones."""
        values = (*self.form.getlist(name), *self.request.query_params.getlist(name))
        return [value for value in values if isinstance(value, str) and value]

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number within its range. Raises ``InvalidRequestError`` for anything else."""
        text = self.text(name).strip()
        try:
            number = float(text) if text else default
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise InvalidRequestError(f"{name} is {written(text, 40)}; it must be a number from {least:g} to {most:g}")
        return number

    def file(self, name: str) -> list[UploadFile]:
        """The uploaded files of that name."""
        return [upload for upload in self.form.getlist(name) if isinstance(upload, UploadFile) and upload.filename]

    def url(self, path: str = "", **parameters: object) -> str:
        """The address of a page of the console."""
        present = {name: value for name, value in parameters.items() if value not in ("", None)}
        query = f"?{urlencode(present, doseq=True)}" if present else ""
        return f"{CONSOLE}{path}{query}"

    async def collection(self) -> Collection:
        """The chosen collection. Raises ``UnknownCollectionError``."""
        name = self.text("collection")
        if not name:
            raise UnknownCollectionError("choose a collection")
        return await service_of(self.request).collection(self.platform, name)


View = Callable[[Visit], Awaitable[h.Node | Response]]


def view(path: str, show: View, *, needs: Scope, method: str = "GET") -> Route:
    """The route of a view; without the scope ``needs`` it raises ``ForbiddenError``."""

    async def answer(request: Request) -> Response:
        caller, platform = caller_of(request), await platform_of(request, needs)
        if method == "GET":
            return _response(await show(Visit(request, caller, platform)))
        async with request.form(max_files=2000, max_fields=2000) as form:
            return _response(await show(Visit(request, caller, platform, form)))

    return Page(CONSOLE + path, answer, methods=[method])


def _response(content: h.Node | Response) -> Response:
    return content if isinstance(content, Response) else HTMLResponse(str(h.fragment[content]))


MENU = {
    "/search": "⌕ Search",
    "/profiles": "⚖ Profiles",
    "/learning": "↗ Learning",
    "/data": "▤ Data",
    "/operations": "⚙ Operations",
    "/applications": "❖ Applications",
}
"""The pages in the menu, by path: an icon and a name."""


async def page(visit: Visit, title: str, content: h.Node, *, chooses: bool = True) -> h.Node:
    """A whole page with navigation; ``chooses``: whether it has the chooser of collections."""
    chooser = (
        _chooser(visit, [collection.name for collection in await visit.platform.collections()]) if chooses else None
    )
    return _document(title, content, menu=_navigation(visit), chooser=chooser)


def _navigation(visit: Visit) -> h.Node:
    here = visit.request.url.path
    chosen = visit.text("collection")
    return [
        h.nav(aria_label="Main")[
            h.ul[
                (
                    h.li[
                        h.a(
                            href=visit.url(path, collection=chosen),
                            aria_current="page" if f"{here}/".startswith(f"{visit.url(path)}/") else None,
                        )[h.span(aria_hidden="true")[text[0]], text[2:]]
                    ]
                    for path, text in MENU.items()
                )
            ]
        ],
        _sign_out("Sign out") if visit.caller.key is not None else None,
    ]


def _sign_out(label: str) -> h.Element:
    return h.form(method="post", action=_SIGN_OUT)[h.button(".quiet", type="submit")[label]]


def _chooser(visit: Visit, names: Sequence[str]) -> h.Node:
    chosen = visit.text("collection")
    return h.form(".chooser", method="get", action=visit.request.url.path)[
        h.label(for_="collection-chosen")["Collection"],
        h.select("#collection-chosen", name="collection")[
            h.option(value="", disabled=True, selected=not chosen)["choose …"] if chosen not in names else None,
            (h.option(value=name, selected=name == chosen)[name] for name in names),
        ],
        h.button(".quiet", type="submit")["Go"],
    ]


_CONFIG = json.dumps(
    {
        "includeIndicatorStyles": False,
        "allowEval": False,
        "selfRequestsOnly": True,
        # Back and forward load the page as its address does: with the way to sign in, and with what went wrong.
        "historyCacheSize": 0,
        "refreshOnHistoryMiss": True,
        "timeout": 60_000,
        "responseHandling": [{"code": "204", "swap": False}, {"code": "...", "swap": True}],
    }
)


def _document(title: str, content: h.Node, *, menu: h.Node = None, chooser: h.Node = None) -> h.Element:
    return h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="htmx-config", content=_CONFIG),
            h.title[f"{title} · Retrieval"],
            h.link(rel="icon", href="data:,"),
            h.link(rel="stylesheet", href=f"{CONSOLE}/static/console.css"),
            h.script(src=f"{CONSOLE}/static/console.js"),
            h.script(src=f"{CONSOLE}/static/htmx.min.js", defer=True),
        ],
        h.body[
            h.a(".skip", href="#main")["Skip to the content"],
            h.header(".top")[
                h.a(".brand", href=CONSOLE)["Retrieval"],
                menu,
                chooser,
                h.button("#theme.quiet", type="button", data_theme="")["Dark"],
            ],
            h.main("#main", tabindex="-1")[h.h1[title], h.div("#notice", role="status", aria_live="polite"), content],
            h.div("#working", aria_hidden="true")["Working …"],
        ],
    ]


def problem_box(title: str, detail: str) -> h.Element:
    """An error message, for every view."""
    return h.div(".problem", role="alert")[h.strong[title], h.p[detail]]


def notice(text: str, *more: h.Node) -> h.Element:
    """A short message after an action."""
    return h.p(".done", role="status")[text, *more]


def empty(text: str, *more: h.Node) -> h.Element:
    """The text of an empty view, with the next step."""
    return h.div(".empty")[h.p[text], *more]


def text_field(name: str, label: str, value: str, *, kind: str = "text", **more: str) -> h.Element:
    """An input of one line with its label."""
    key = f"field-{name.replace('.', '-')}"
    return h.div[h.label(for_=key)[label], h.input(f"#{key}", type=kind, name=name, value=value, **more)]


def text_area(name: str, label: str, content: str, **more: str) -> h.Element:
    """An input of several lines with its label; a browser drops a line break at the beginning of the content."""
    key = f"field-{name}"
    return h.div[h.label(for_=key)[label], h.textarea(f"#{key}", name=name, **more)[f"\n{content}"]]


def table(
    columns: Iterable[str], rows: Iterable[Iterable[h.Node]], *, caption: str, numbers: Iterable[str] = ()
) -> h.Element:
    """A table that scrolls by itself on a narrow screen; the columns of ``numbers`` are right-aligned."""
    names, right = list(columns), frozenset(numbers)
    return h.div(".scrolls", tabindex="0", role="region", aria_label=caption)[
        h.table[
            h.caption[caption],
            h.thead[h.tr[(h.th(scope="col", class_={"number": name in right})[name] for name in names)]],
            h.tbody[
                (
                    h.tr[(h.td(class_={"number": name in right})[cell] for name, cell in zip(names, row, strict=True))]
                    for row in rows
                )
            ],
        ]
    ]


def shown_value(value: object) -> str:
    """A value of a table as text: times to the second, numbers with four digits, empty values as a dash."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())[:19].replace("T", " ")
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)


class ConsoleDoor:
    """ASGI middleware that converts the cookie to the header with the key, and problem documents to pages.

    Requests for paths outside of the console pass unchanged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or not (path == CONSOLE or path.startswith(CONSOLE + "/")):
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def show(problem: Mapping[str, Any], others: Headers) -> None:
            page = _problem_page(request, problem)
            page.headers.update({**others, **page.headers, **SECURITY})
            await page(scope, receive, send)

        headers = request.headers
        if request.method not in _SAFE and not _is_own(headers):
            refusal = MisdirectedError("this form was sent by a page of another site; open the console again")
            await show({"status": refusal.status, "title": "Refused", "detail": str(refusal)}, Headers())
            return
        key = request.cookies.get(COOKIE)
        if key and "authorization" not in headers and "x-api-key" not in headers:
            scope = {**scope, "headers": [*scope["headers"], (_NAME, key.encode("latin-1", "replace"))]}
        await self._app(scope, receive, _page_sender(send, show))


def _page_sender(send: Send, show: Callable[[Mapping[str, Any], Headers], Awaitable[None]]) -> Send:
    """Sends a response with the headers of a page; ``show`` sends the page of a problem document."""
    headers, is_problem, body = MutableHeaders(), False, b""

    async def send_page(message: Message) -> None:
        nonlocal headers, is_problem, body
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", ())))
            is_problem = headers.get("content-type", "").startswith(MEDIA_TYPE)
            for name, value in SECURITY.items():
                headers.setdefault(name, value)
            message = {**message, "headers": headers.raw}
        if not is_problem:
            await send(message)
            return
        body += message.get("body", b"")
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            await show(json.loads(body), headers)

    return send_page


def _is_own(headers: Headers) -> bool:
    """Whether a page of this service sent the request, by the browser's headers; other programs need no cookie."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] == headers.get("host")


def _problem_page(request: Request, problem: Mapping[str, Any]) -> Response:
    """The page of a problem; without a valid key the way to sign in; for a script only the message."""
    status: int = problem["status"]
    is_part = "hx-request" in request.headers
    if status == HTTPStatus.UNAUTHORIZED:
        sign_in = f"{SIGN_IN}?{urlencode({'then': _shown_page(request)})}"
        if is_part:
            return Response(headers={"HX-Redirect": sign_in})
        if request.method in _SAFE:
            return RedirectResponse(sign_in, 303)
        # The browser still has what was typed, and sends it again if this page is reloaded.
        tab = h.a(href=sign_in, target="_blank")["Sign in in another tab"]
        ended = [problem_box("Not signed in", _ENDED), h.p[tab, ", then reload this page to send the form again."]]
        return HTMLResponse(str(_document("That did not work", ended)), status)
    box = problem_box(problem.get("title", ""), problem.get("detail", ""))
    if is_part:
        retargeting = {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML", "HX-Reselect": ".problem"}
        return HTMLResponse(str(box), status, retargeting)
    request_id = problem.get("request_id")
    content = [
        box,
        h.p(".hint")["request_id: ", h.code[request_id]] if request_id else None,
        _way_on(request),
        h.p[h.a(href=CONSOLE)["To the console's first page"]],
        [h.p[_SCOPES], _sign_out("Sign in with another key")] if status == HTTPStatus.FORBIDDEN else None,
    ]
    return HTMLResponse(str(_document("That did not work", content)), status)


_ENDED = "The key is no longer valid, or the browser was closed since; nothing was changed."
_SCOPES = "Each page of the console needs a key that may read, in addition to its other scopes."


def _way_on(request: Request) -> h.Node:
    """A link to the same page; after a refused form, to the page with the form."""
    return h.p[h.a(href=_shown_page(request))["Try again" if request.method in _SAFE else "Back to the form"]]


def _shown_page(request: Request) -> str:
    """The path of the page that the browser shows, with its parameters: for a form or a script, that of its page."""
    if request.method in _SAFE and "hx-request" not in request.headers:
        return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
    return _target(request.headers.get("referer", "").partition(f"//{request.headers.get('host', '')}")[2])


_ROOT = Path(__file__).parent / "static"


def add_console(app: Starlette, access: Access, routes: Iterable[Route]) -> None:
    """Add the routes under ``/console``, which are not in the OpenAPI description."""

    async def sign_in(request: Request) -> Response:
        if access.is_open:
            return RedirectResponse(_FIRST_PAGE, 303)
        if request.method in _SAFE:
            return HTMLResponse(str(_sign_in_page(request.query_params.get("then", ""))))
        # Anybody can send this form, and reading a form blocks other requests: it has two short fields and no file.
        async with request.form(max_files=0, max_fields=2, max_part_size=HEAD_BYTES) as form:
            key, then = str(form.get("key", "")).strip(), str(form.get("then", ""))
        try:
            await access.check(Headers({"x-api-key": key} if key.isascii() and key.isprintable() else {}))
        except AuthenticationError:
            refusal = "The key is not valid: it is mistyped, expired or revoked."
            return HTMLResponse(str(_sign_in_page(then, refusal)), HTTPStatus.UNAUTHORIZED)
        answer = RedirectResponse(_target(then), 303)
        is_secure = request.url.scheme == "https"
        # A session cookie: a key on disk would outlive the session.
        answer.set_cookie(COOKIE, key, path=CONSOLE, httponly=True, samesite="lax", secure=is_secure)
        return answer

    async def sign_out(_request: Request) -> Response:
        answer = RedirectResponse(SIGN_IN, 303)
        answer.delete_cookie(COOKIE, path=CONSOLE)
        return answer

    async def first_page(_request: Request) -> Response:
        return RedirectResponse(_FIRST_PAGE, 303)

    app.router.routes.extend(
        [
            *(Page(path, first_page) for path in (CONSOLE, f"{CONSOLE}/")),
            Page(SIGN_IN, sign_in, methods=["GET", "POST"]),
            Page(_SIGN_OUT, sign_out, methods=["POST"]),
            *(file_page(path, _ROOT / path.rpartition("/")[2]) for path in sorted(CONSOLE_FILES)),
            *routes,
        ]
    )


def _target(then: str) -> str:
    """The page to open, always a page of the console."""
    return then if then.startswith(f"{CONSOLE}/") else _FIRST_PAGE


def _sign_in_page(then: str, refusal: str = "") -> h.Element:
    return _document(
        "Sign in",
        h.form(".card.narrow", method="post", action=SIGN_IN)[
            problem_box("Not signed in", refusal) if refusal else None,
            h.input(type="hidden", name="then", value=then),
            h.label(for_="key")["API key"],
            h.input("#key", type="password", name="key", required=True, autocomplete="current-password",
                    autofocus=True, placeholder="rtv_…"),
            h.p(".hint")["The service's operator creates one with: ", h.code["retrieval keys create NAME"]],
            h.button(type="submit")["Sign in"],
        ],
    )  # fmt: skip
