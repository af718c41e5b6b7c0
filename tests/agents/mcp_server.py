"""A small MCP server over standard input and output, with the tools `ping` and `mark`, which makes a file."""

import json
import os
import sys
from pathlib import Path
from typing import Any

TOOL = {
    "name": "ping",
    "description": "Answer.",
    "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}},
}
MARK = {**TOOL, "name": "mark"}


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    given = asked.get("params", {})
    if asked["method"] == "initialize":
        about = {"name": "ping", "version": "1"}
        result: Any = {
            "protocolVersion": given["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": about,
        }
    elif asked["method"] == "tools/list":
        result = {"tools": [TOOL, MARK]}
    elif given.get("name") == "mark":
        Path(given["arguments"]["word"]).touch()
        result = {"content": [{"type": "text", "text": "marked"}]}
    elif asked["method"] == "tools/call":
        text = f"pong {given['arguments']['word']} from {os.environ.get('ROTA_RUN_ID')}"
        result = {"content": [{"type": "text", "text": text}]}
    else:
        return {"error": {"code": -32601, "message": "no such method"}}
    return {"result": result}


def main() -> None:
    """Answer line by line until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked)}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
