"""rota: the resident scheduler for AI agents and scripts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota import testing as testing
    from rota.declare.registry import default as _registry
    from rota.library.scheduler import Scheduler as Scheduler
    from rota.library.scheduler import is_due, next_trigger, tools
    from rota.model.agents import AgentProblem as AgentProblem
    from rota.model.agents import AgentResult as AgentResult
    from rota.model.agents import AgentTask as AgentTask
    from rota.model.agents import SubscriptionWindow as SubscriptionWindow
    from rota.model.agents import WorkAhead, WorkItem, WorkReport, WorkRequest
    from rota.model.errors import BudgetExceeded as BudgetExceeded
    from rota.model.errors import IntervalParseError as IntervalParseError
    from rota.model.errors import RotaError as RotaError
    from rota.model.errors import SchedulerError as SchedulerError
    from rota.model.errors import SchedulerShutdownError as SchedulerShutdownError
    from rota.model.errors import ScheduleTriggerError as ScheduleTriggerError
    from rota.model.errors import SourceError as SourceError
    from rota.model.errors import UnknownJob as UnknownJob
    from rota.model.records import Run as Run
    from rota.operations.project.declarations import SchedulerStatus, ScheduleStatus, TriggerResult
    from rota.operations.tools.catalog import Tool as Tool
    from rota.rules.prompts import build_prompt as build_prompt
    from rota.rules.schedule.cursor import parse_interval
    from rota.rules.schedule.preview import next_fires
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
    "SubscriptionWindow",
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
    "ScheduleStatus": "rota.operations.project.declarations",
    "ScheduleTriggerError": "rota.model.errors",
    "Scheduler": "rota.library.scheduler",
    "SchedulerError": "rota.model.errors",
    "SchedulerShutdownError": "rota.model.errors",
    "SchedulerStatus": "rota.operations.project.declarations",
    "SourceError": "rota.model.errors",
    "SubscriptionWindow": "rota.model.agents",
    "Tool": "rota.operations.tools.catalog",
    "TriggerResult": "rota.operations.project.declarations",
    "UnknownJob": "rota.model.errors",
    "WorkAhead": "rota.model.agents",
    "WorkItem": "rota.model.agents",
    "WorkReport": "rota.model.agents",
    "WorkRequest": "rota.model.agents",
    "build_prompt": "rota.rules.prompts",
    "is_due": "rota.library.scheduler",
    "next_fires": "rota.rules.schedule.preview",
    "next_trigger": "rota.library.scheduler",
    "parse_interval": "rota.rules.schedule.cursor",
    "tools": "rota.library.scheduler",
}
_DECORATORS = ("agent", "condition", "job", "source")
_MODULES = ("testing",)


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562), so that `import rota` stays cheap."""
    if name in _DECORATORS:
        return getattr(import_module("rota.declare.registry").default, name)
    if name in _MODULES:
        return import_module(f"rota.{name}")
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'rota' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
