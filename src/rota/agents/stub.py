"""A stub of the APIs of models on this machine, for `rota agents certify`. It does what the prompt says after `stub:`.

`{"say": "text"}` answers; `{"tool": "Bash", "input": {…}}` asks for a tool first, `"again": true` at every turn;
`{"status": 429, "message": "…", "headers": {…}}` refuses, with `"at": "/v1/messages"` only there; `{"hang": true}`
never answers. `"then": {…}` is the order once the tool has answered.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from msgspec import Struct

Json = dict[str, Any]
TOKENS_IN, TOKENS_CACHED, TOKENS_OUT = 1200, 100, 34
_numbers = count(1)


class EventStream(list[Any]):
    """An answer that comes as a stream."""


Answer = Json | EventStream


class Dialect(Struct, frozen=True):
    """How one API is read and answered."""

    texts: Callable[[Json], list[str]]
    has_result: Callable[[Json], bool]
    refuse: Callable[[int, str], Json]
    answer: Callable[..., Answer]


def dialect_of(path: str) -> Dialect | None:
    """Return the dialect of an address, None when no model answers there."""
    return next((dialect for ending, dialect in DIALECTS.items() if path.endswith(ending)), None)


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


# Anthropic: /v1/messages


def _anthropic_texts(body: Json) -> list[str]:
    return [
        block["text"]
        for message in body["messages"]
        if message["role"] == "user"
        for block in _blocks(message["content"])
        if block["type"] == "text"
    ]


def _anthropic_result(body: Json) -> bool:
    return any(block["type"] == "tool_result" for block in _blocks(body["messages"][-1]["content"]))


def _anthropic_refuse(status: int, message: str) -> Json:
    kind = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_stub"}


def _anthropic_answer(body: Json, *, tool: Json | None, text: str) -> Answer:
    usage = {"input_tokens": TOKENS_IN, "cache_creation_input_tokens": 0, "cache_read_input_tokens": TOKENS_CACHED}
    if tool:
        block: Json = {"type": "tool_use", "id": f"toolu_{next(_numbers)}", "name": tool["tool"], "input": {}}
        delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(tool["input"])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": text}
    stop = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    message = {"id": f"msg_{next(_numbers)}", "type": "message", "role": "assistant", "model": body["model"]}
    if not body.get("stream"):
        whole = {**block, "input": tool["input"]} if tool else {**block, "text": text}
        return {**message, **stop, "content": [whole], "usage": {**usage, "output_tokens": TOKENS_OUT}}
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    return EventStream(
        [
            {"type": "message_start", "message": {**start, "usage": {**usage, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": TOKENS_OUT}},
            {"type": "message_stop"},
        ]
    )


# OpenAI: /responses


def _responses_texts(body: Json) -> list[str]:
    items = [item for item in body["input"] if item.get("role") == "user"]
    return [block["text"] for item in items for block in _blocks(item["content"]) if "text" in block]


def _responses_result(body: Json) -> bool:
    return str(body["input"][-1].get("type", "")).endswith("_output")


def _openai_refuse(status: int, message: str) -> Json:
    kind = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "code": kind, "param": None}}


def _responses_answer(body: Json, *, tool: Json | None, text: str) -> Answer:
    number = next(_numbers)
    item: Json
    if tool:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
        item |= {"name": tool["tool"], "arguments": json.dumps(tool["input"])}
        item |= {"namespace": tool["namespace"]} if "namespace" in tool else {}
    else:
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
        item |= {"content": [{"type": "output_text", "text": text, "annotations": []}]}
    usage = {
        "input_tokens": TOKENS_IN,
        "input_tokens_details": {"cached_tokens": TOKENS_CACHED},
        "output_tokens": TOKENS_OUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": TOKENS_IN + TOKENS_OUT,
    }
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"]}
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    return EventStream(
        [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        ]
    )


# OpenAI: /chat/completions


def _chat_texts(body: Json) -> list[str]:
    asked = [message for message in body["messages"] if message["role"] == "user"]
    return [block["text"] for message in asked for block in _blocks(message["content"]) if "text" in block]


def _chat_result(body: Json) -> bool:
    return bool(body["messages"][-1]["role"] == "tool")


def _chat_answer(body: Json, *, tool: Json | None, text: str) -> Answer:
    usage = {
        "prompt_tokens": TOKENS_IN,
        "prompt_tokens_details": {"cached_tokens": TOKENS_CACHED},
        "completion_tokens": TOKENS_OUT,
        "total_tokens": TOKENS_IN + TOKENS_OUT,
    }
    delta: Json = {"role": "assistant", "content": text}
    if tool:
        function = {"name": tool["tool"], "arguments": json.dumps(tool["input"])}
        call = {"index": 0, "id": f"call_{next(_numbers)}", "type": "function", "function": function}
        delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    chunk = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    reason = "tool_calls" if tool else "stop"
    return EventStream(
        [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**chunk, "choices": [], "usage": usage},
            "[DONE]",
        ]
    )


# Gemini: :generateContent and :streamGenerateContent


def _gemini_texts(body: Json) -> list[str]:
    asked = [message for message in body["contents"] if message.get("role") == "user"]
    return [part["text"] for message in asked for part in message["parts"] if "text" in part]


def _gemini_result(body: Json) -> bool:
    return any("functionResponse" in part for part in body["contents"][-1]["parts"])


def _gemini_refuse(status: int, message: str) -> Json:
    kind = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}.get(status, "INTERNAL")
    return {"error": {"code": status, "message": message, "status": kind}}


def _gemini_answer(body: Json, *, tool: Json | None, text: str) -> Answer:
    if "json" in body.get("generationConfig", {}).get("responseMimeType", ""):
        text = json.dumps({"complexity_reasoning": "none", "complexity_score": 1})  # it asks which model to take
    part = {"functionCall": {"name": tool["tool"], "args": tool["input"]}} if tool else {"text": text}
    usage = {
        "promptTokenCount": TOKENS_IN,
        "cachedContentTokenCount": TOKENS_CACHED,
        "candidatesTokenCount": TOKENS_OUT,
        "totalTokenCount": TOKENS_IN + TOKENS_OUT,
    }
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}


def _gemini_stream(body: Json, *, tool: Json | None, text: str) -> Answer:
    return EventStream([_gemini_answer(body, tool=tool, text=text)])


# Ollama: /api/chat


def _ollama_refuse(_status: int, message: str) -> Json:
    return {"error": message}


def _ollama_answer(body: Json, *, tool: Json | None, text: str) -> Answer:  # noqa: ARG001 -- it has no tools
    return {
        "model": body["model"],
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": TOKENS_IN,
        "eval_count": TOKENS_OUT,
    }


DIALECTS = {
    "/v1/messages": Dialect(_anthropic_texts, _anthropic_result, _anthropic_refuse, _anthropic_answer),
    "/responses": Dialect(_responses_texts, _responses_result, _openai_refuse, _responses_answer),
    "/chat/completions": Dialect(_chat_texts, _chat_result, _openai_refuse, _chat_answer),
    ":generateContent": Dialect(_gemini_texts, _gemini_result, _gemini_refuse, _gemini_answer),
    ":streamGenerateContent": Dialect(_gemini_texts, _gemini_result, _gemini_refuse, _gemini_stream),
    "/api/chat": Dialect(_chat_texts, lambda _: False, _ollama_refuse, _ollama_answer),
}


ORDER = re.compile(r"stub:\s*(\{.*)")


class StubRequest(Struct, frozen=True):
    """One request: its path, its headers, its body."""

    path: str
    headers: dict[str, str]
    body: Json


class Stub(ThreadingHTTPServer):
    """The server; `asked` holds every request for an answer of a model, `reached` the path of every GET."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[StubRequest] = []
        self.reached: list[str] = []
        self.closing = threading.Event()
        self.waiting = threading.Event()
        """Set when a request hangs."""
        self.calm = False
        """Whether orders to refuse are answered."""

    def handle_error(self, *_: object) -> None:
        """Be silent: an agent that is killed leaves broken connections behind."""


@contextmanager
def serving() -> Iterator[Stub]:
    """Serve for as long as the block lasts."""
    stub = Stub()
    threading.Thread(target=stub.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield stub
    finally:
        stub.closing.set()
        stub.shutdown()
        stub.server_close()


def order_in(texts: list[str]) -> Json:
    """Return the last order among the texts of a conversation."""
    found = [match for text in texts for match in ORDER.findall(text)]
    return dict(json.JSONDecoder().raw_decode(found[-1])[0]) if found else {}


class Handler(BaseHTTPRequestHandler):
    """Answers as the order in the prompt says."""

    protocol_version = "HTTP/1.1"
    server: Stub

    def log_message(self, *_: object) -> None:
        """Be silent."""

    def do_HEAD(self) -> None:
        """Answer nothing."""
        self._json(200, {})

    def do_GET(self) -> None:
        """Answer a list without entries."""
        self.server.reached.append(self.path)
        self._json(200, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        """Answer as a model, if one has this address."""
        body = json.loads(self._body() or b"{}")
        dialect = dialect_of(self.path.partition("?")[0])
        if dialect is None:
            self._json(200, {"totalTokens": 5, "input_tokens": 5})
            return
        self.server.asked.append(StubRequest(self.path, dict(self.headers), body))
        order = order_in(dialect.texts(body))
        order = order.get("then", order) if dialect.has_result(body) else order
        if order.get("hang"):
            self.server.waiting.set()
            self.server.closing.wait()
        elif "status" in order and not self.server.calm and order.get("at", "") in self.path:
            refusal = dialect.refuse(order["status"], order.get("message", "no"))
            if "code" in order:
                refusal["error"]["code"] = order["code"]
            self._json(order["status"], refusal, order.get("headers"))
        else:
            self._answer(dialect, body, order)

    def _answer(self, dialect: Dialect, body: Json, order: Json) -> None:
        again = order.get("again") or not dialect.has_result(body)
        tool = order if "tool" in order and body.get("tools") and again else None
        answer = dialect.answer(body, tool=tool, text=order.get("say", "stub answer"))
        if isinstance(answer, EventStream):
            self._stream(answer)
        else:
            self._json(200, answer)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, events: EventStream) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            data = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{name}data: {data}\n\n".encode())
