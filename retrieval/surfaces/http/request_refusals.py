"""Why the service does not take a request as it comes in, whoever sent it.

RefusalError
├── MalformedBodyError      400: the body is not what its content type says
├── BrokenStreamError       400: a stream of items broke off before its end
├── BodyTimeoutError        408: the body did not arrive in time
├── BodyTooLargeError       413: the body has more bytes than the service takes
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


class BrokenStreamError(RefusalError):
    """The stream broke off before its end, or became larger than the service takes."""

    status = 400

    def __init__(self) -> None:
        super().__init__("the stream broke off, or is larger than the service takes; send again what has no answer")


class BodyTooLargeError(RefusalError):
    """The body has more bytes than the service takes."""

    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body has more than {limit:,} bytes; send it in smaller parts, items by /items/bulk")


class MisdirectedError(RefusalError):
    """The request was meant for another host, or a page of another host sent it."""

    status = 421


class OverloadedError(RefusalError):
    """More requests are being answered than the service takes."""

    status = 503
    retry_after = 1

    def __init__(self, message: str = "too many requests are being answered; try again in a moment") -> None:
        super().__init__(message, headers={"Retry-After": str(self.retry_after)})
