"""Ollama: one HTTP request for an answer, without tools."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from rota.agents.adapter import Adapter, count_at, failed, parse, succeeded, text_at, unknown_options
from rota.agents.windows import header_windows
from rota.model.agents import Access, AgentResult, AgentTask, Capabilities

PORT = 11434
CONNECT = 10.0


def address(host: str | None) -> str:
    """Return the address of a host as OLLAMA_HOST writes it.

    >>> address("box:9000"), address("https://box/"), address(None), address("0.0.0.0")
    ('http://box:9000', 'https://box', 'http://127.0.0.1:11434', 'http://127.0.0.1:11434')
    """
    scheme, _, rest = (host or "").strip().rstrip("/").rpartition("://")
    parts = urlsplit(f"//{rest}")
    # 0.0.0.0 is an address to listen on, not to call
    name = "127.0.0.1" if parts.hostname in (None, "0.0.0.0") else parts.netloc.removesuffix(f":{parts.port}")  # noqa: S104
    port = parts.port or (None if scheme else PORT)
    return f"{scheme or 'http'}://{name}" + (f":{port}" if port else "") + parts.path


async def run(task: AgentTask) -> AgentResult:
    """Request an answer; the timeout of the run is the only limit."""
    import httpx2

    blank = AgentResult(model=task.model)
    if not task.model:
        return failed(blank, "ollama needs a model: set `model`", plain=True)
    url = f"{address(task.options.get('host') or os.environ.get('OLLAMA_HOST'))}/api/chat"
    body = {"model": task.model, "messages": [{"role": "user", "content": task.prompt}], "stream": False}
    try:
        async with httpx2.AsyncClient(timeout=httpx2.Timeout(None, connect=CONNECT), trust_env=False) as client:
            answer = await client.post(url, json=body)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return failed(blank, f"no answer from {url}: {error or type(error).__name__}", plain=True)
    blank = replace(blank, windows=header_windows(answer.headers))
    return read_answer(answer.status_code, answer.text, blank=blank)


def reach(environ: Mapping[str, str], options: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """Return the address of Ollama, its version, and the problem if it does not answer."""
    import httpx2

    url = address(options.get("host") or environ.get("OLLAMA_HOST"))
    try:
        answer = httpx2.get(f"{url}/api/version", timeout=CONNECT, trust_env=False)
        answer.raise_for_status()
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return url, "", f"no answer from {url}: {error or type(error).__name__}"
    return url, text_at(parse(answer.text), "version") or "", None


def read_answer(status: int, text: str, *, blank: AgentResult) -> AgentResult:
    """Return the result of an answer."""
    value: Any = parse(text)
    error = text_at(value, "error")
    if status >= 400 or error or not isinstance(value, dict):
        telling_status = None if status == 500 else status  # Ollama answers 500 to all errors of a model
        return failed(blank, error or f"ollama answered with status {status}", status=telling_status)
    result = replace(
        blank,
        summary=text_at(value, "message.content") or "",
        tokens_in=count_at(value, "prompt_eval_count"),
        tokens_out=count_at(value, "eval_count"),
        turns=1,
    )
    return succeeded(result)


ADAPTER = Adapter(
    name="ollama",
    provider="ollama",
    capabilities=Capabilities(access=frozenset({Access.READ})),
    run=run,
    needs_model=True,
    reach=reach,
    complaints=lambda options: unknown_options(options, ("host",)),
)
