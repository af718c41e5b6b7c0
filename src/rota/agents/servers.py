"""How an agent is told of rota's MCP server."""

from typing import Any

from rota.model.agents import AgentTask

SERVER = "rota"
PATIENCE = 60
"""So many seconds may the server take to start: a machine may be busy, and the programs' own limits are short."""
FORWARDED = ("ROTA_RUN_ID", "ROTA_RUN", "ROTA_JOB", "ROTA_PROJECT_DIR", "ROTA_SCHEDULER_DIR", "ROTA_STATE_DIR")
"""What the server knows its run by; some agents give their servers no other variable of theirs."""


def mcp_config(task: AgentTask) -> dict[str, Any]:
    """Return the configuration that starts rota's tools for a task, in the shape that most agents read."""
    command, *arguments = task.tools_server
    return {"mcpServers": {SERVER: {"command": command, "args": arguments}}}
