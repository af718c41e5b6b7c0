"""rota: the resident scheduler for AI agents and scripts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rota import testing as testing
    from rota.declare.registry import default as _registry
    from rota.library.scheduler import Scheduler as Scheduler
    from rota.library.timing import is_due as is_due
    from rota.library.timing import next_trigger as next_trigger
    from rota.model.agents import AgentResult as AgentResult
    from rota.model.agents import AgentTask as AgentTask
    from rota.model.errors import BudgetExceeded as BudgetExceeded
    from rota.model.errors import IntervalParseError as IntervalParseError
    from rota.model.errors import RotaError as RotaError
    from rota.model.errors import SchedulerError as SchedulerError
    from rota.model.errors import SchedulerShutdownError as SchedulerShutdownError
    from rota.model.errors import ScheduleTriggerError as ScheduleTriggerError
    from rota.model.records import Run as Run
    from rota.operations.embedding import SchedulerStatus as SchedulerStatus
    from rota.operations.embedding import ScheduleStatus as ScheduleStatus
    from rota.operations.embedding import TriggerResult as TriggerResult
    from rota.rules.coming import next_fires as next_fires
    from rota.rules.prompts import build_prompt as build_prompt
    from rota.rules.triggers import parse_interval as parse_interval
    from rota.runners.context import JobContext as JobContext

    agent = _registry.agent
    job = _registry.job
    condition = _registry.condition

__all__ = [
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
    "TriggerResult",
    "agent",
    "build_prompt",
    "condition",
    "is_due",
    "job",
    "next_fires",
    "next_trigger",
    "parse_interval",
    "testing",
]

_PLACES = {
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
    "TriggerResult": "rota.operations.embedding",
    "build_prompt": "rota.rules.prompts",
    "is_due": "rota.library.timing",
    "next_fires": "rota.rules.coming",
    "next_trigger": "rota.library.timing",
    "parse_interval": "rota.rules.triggers",
}
_DECORATORS = ("agent", "condition", "job")
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
