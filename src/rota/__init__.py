"""rota: the resident scheduler for AI agents and scripts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota import testing as testing
    from rota.declare.registry import default as _registry
    from rota.library.scheduler import Scheduler as Scheduler
    from rota.library.timing import is_due as is_due
    from rota.library.timing import next_trigger as next_trigger
    from rota.library.tools import tools as tools
    from rota.model.agents import AgentProblem as AgentProblem
    from rota.model.agents import AgentResult as AgentResult
    from rota.model.agents import AgentTask as AgentTask
    from rota.model.errors import BudgetExceeded as BudgetExceeded
    from rota.model.errors import IntervalParseError as IntervalParseError
    from rota.model.errors import RotaError as RotaError
    from rota.model.errors import SchedulerError as SchedulerError
    from rota.model.errors import SchedulerShutdownError as SchedulerShutdownError
    from rota.model.errors import ScheduleTriggerError as ScheduleTriggerError
    from rota.model.errors import SourceError as SourceError
    from rota.model.errors import UnknownJob as UnknownJob
    from rota.model.records import Run as Run
    from rota.model.work import WorkAhead as WorkAhead
    from rota.model.work import WorkItem as WorkItem
    from rota.model.work import WorkReport as WorkReport
    from rota.model.work import WorkRequest as WorkRequest
    from rota.operations.embedding import SchedulerStatus as SchedulerStatus
    from rota.operations.embedding import ScheduleStatus as ScheduleStatus
    from rota.operations.embedding import TriggerResult as TriggerResult
    from rota.operations.tools.catalog import Tool as Tool
    from rota.rules.coming import next_fires as next_fires
    from rota.rules.prompts import build_prompt as build_prompt
    from rota.rules.triggers import parse_interval as parse_interval
    from rota.runners.context import JobContext as JobContext

    agent = _registry.agent
    job = _registry.job
    condition = _registry.condition
    source = _registry.source

__all__ = [
    "AgentProblem",
    "AgentResult",
    "AgentTask",
    "BudgetExceeded",
    "IntervalParseError",
    "JobContext",
    "RotaError",
    "Run",
    "ScheduleStatus",
    "ScheduleTriggerError",
    "Scheduler",
    "SchedulerError",
    "SchedulerShutdownError",
    "SchedulerStatus",
    "SourceError",
    "Tool",
    "TriggerResult",
    "UnknownJob",
    "WorkAhead",
    "WorkItem",
    "WorkReport",
    "WorkRequest",
    "agent",
    "build_prompt",
    "condition",
    "is_due",
    "job",
    "next_fires",
    "next_trigger",
    "parse_interval",
    "source",
    "testing",
    "tools",
]

_PLACES = {
    "AgentProblem": "rota.model.agents",
    "AgentResult": "rota.model.agents",
    "AgentTask": "rota.model.agents",
    "BudgetExceeded": "rota.model.errors",
    "IntervalParseError": "rota.model.errors",
    "JobContext": "rota.runners.context",
    "RotaError": "rota.model.errors",
    "Run": "rota.model.records",
    "ScheduleStatus": "rota.operations.embedding",
    "ScheduleTriggerError": "rota.model.errors",
    "Scheduler": "rota.library.scheduler",
    "SchedulerError": "rota.model.errors",
    "SchedulerShutdownError": "rota.model.errors",
    "SchedulerStatus": "rota.operations.embedding",
    "SourceError": "rota.model.errors",
    "Tool": "rota.operations.tools.catalog",
    "TriggerResult": "rota.operations.embedding",
    "UnknownJob": "rota.model.errors",
    "WorkAhead": "rota.model.work",
    "WorkItem": "rota.model.work",
    "WorkReport": "rota.model.work",
    "WorkRequest": "rota.model.work",
    "build_prompt": "rota.rules.prompts",
    "is_due": "rota.library.timing",
    "next_fires": "rota.rules.coming",
    "next_trigger": "rota.library.timing",
    "parse_interval": "rota.rules.triggers",
    "tools": "rota.library.tools",
}
_DECORATORS = ("agent", "condition", "job", "source")
_MODULES = ("testing",)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used (PEP 562), so that `import rota` stays cheap."""
    if name in _DECORATORS:
        return getattr(import_module("rota.declare.registry").default, name)
    if name in _MODULES:
        return import_module(f"rota.{name}")
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'rota' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, whether or not they are loaded yet."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
