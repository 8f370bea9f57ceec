"""Why the service does not take a request as it comes in, whoever sent it.

RefusalError
├── MalformedBodyError      400: the body is not what its content type says
├── BrokenStreamError       400: a stream of items broke off before its end
├── BodyTimeoutError        408: the body did not arrive in time
├── UnreadAnswerError       408: the client sends on and on, and does not read what it is answered
├── BodyTooLargeError       413: the body has more bytes than the service takes
├── EncodedBodyError        415: the body is compressed, or encoded in another way
├── MediaTypeError          415: the body is not sent as JSON
├── MisdirectedError        421: it was meant for another host, or a page of another host sent it
└── OverloadedError         503: more requests are being answered than the service takes
"""

from __future__ import annotations

from retrieval.surfaces.http.refusals import RefusalError


class MalformedBodyError(RefusalError):
    """The body is not what its content type says."""

    status = 400


class BodyTimeoutError(RefusalError):
    """The body did not arrive in time."""

    status = 408

    def __init__(self) -> None:
        super().__init__("the body did not arrive in time; send it faster, or in smaller parts")


class UnreadAnswerError(RefusalError):
    """The client does not read what it is answered."""

    status = 408

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"more than {limit:,} bytes of the answer were not read; read it while you send, or send less at once, and "
            "send again what has no line"
        )


class BrokenStreamError(RefusalError):
    """The stream broke off before its end, or became larger than the service takes."""

    status = 400

    def __init__(self) -> None:
        super().__init__("the stream broke off, or is larger than the service takes; send again what has no answer")


class BodyTooLargeError(RefusalError):
    """The body has more bytes than the service takes."""

    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the body has more than {limit:,} bytes, the most for this request; send items in several requests or as "
            "a stream, and search with fewer words and values"
        )


class EncodedBodyError(RefusalError):
    """The body is compressed, or encoded in another way."""

    status = 415

    def __init__(self) -> None:
        super().__init__(
            "bodies are taken as they are; send it without Content-Encoding", headers={"Accept-Encoding": "identity"}
        )


class MediaTypeError(RefusalError):
    """The body's content type is not that of JSON."""

    status = 415

    def __init__(self, content_type: str) -> None:
        came = f"as {content_type!r:.80}" if content_type else "without a type"
        super().__init__(f"send the body with Content-Type: application/json; it came {came}")


class MisdirectedError(RefusalError):
    """The request was meant for another host, or a page of another host sent it."""

    status = 421


class OverloadedError(RefusalError):
    """More requests are being answered than the service takes."""

    status = 503
    retry_after = 1

    def __init__(self, message: str = "too many requests are being answered; try again in a moment") -> None:
        super().__init__(message, headers={"Retry-After": str(self.retry_after)})
