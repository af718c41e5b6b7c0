"""A client of an app in this process: a loop on a thread beside answers each request in one go.

Starlette's own client hops between the threads eight times for each request, which takes longer than most
answers do.
"""

from typing import Any

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal


class Client(httpx2.Client):
    """Asks an app; through `portal` where there is one, else each request has a loop of its own."""

    def __init__(self, app: Any, *, base_url: str, raises: bool = True, follow_redirects: bool = True) -> None:
        self.portal: BlockingPortal | None = None
        headers = {"user-agent": "testclient"}
        transport = _Transport(app, self, raises=raises)
        super().__init__(base_url=base_url, headers=headers, follow_redirects=follow_redirects, transport=transport)


class _Transport(httpx2.BaseTransport):
    def __init__(self, app: Any, client: Client, *, raises: bool) -> None:
        self._answering = httpx2.ASGITransport(app, raise_app_exceptions=raises, client=("testclient", 50000))
        self._client = client

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._client.portal is not None:
            return self._client.portal.call(self._answer, request)
        with start_blocking_portal() as portal:
            return portal.call(self._answer, request)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        found = await self._answering.handle_async_request(request)
        assert isinstance(found.stream, httpx2.AsyncByteStream)
        content = b"".join([part async for part in found.stream])
        return httpx2.Response(found.status_code, headers=found.headers, stream=httpx2.ByteStream(content))
