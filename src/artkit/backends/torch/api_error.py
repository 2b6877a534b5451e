"""A refusal, in the shape in which OpenAI's API refuses."""

from __future__ import annotations

from typing import Any

import httpx
import openai

__all__ = ["ApiError"]

_EXCEPTIONS: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    404: openai.NotFoundError,
}


class ApiError(Exception):
    """What the server answers instead of a completion.

    Args:
        status: The HTTP status.
        message: What was wrong, and what would work.
        param: The field of the request that was wrong.
        code: OpenAI's word for the kind of error.
    """

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(status, message, param, code)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def as_openai_error(self) -> openai.APIStatusError:
        """The exception that OpenAI's client raises for this answer."""
        request = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
        response = httpx.Response(self.status, json=self.body, request=request)
        exception = _EXCEPTIONS.get(self.status, openai.InternalServerError)
        return exception(f"Error code: {self.status} - {self.body}", response=response, body=self.body["error"])
