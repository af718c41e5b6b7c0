"""For tests: `scheduler` for programs that embed rota; a clock, scripted processes and a scene for rota itself."""

from rota.testing.played import PlayedScheduler, Told, scheduler
from rota.testing.scene import (
    BOOT,
    COMPLETED,
    CountingStore,
    FakeClock,
    Scene,
    Script,
    ScriptedProcess,
    ScriptedProcesses,
)

__all__ = [
    "BOOT",
    "COMPLETED",
    "CountingStore",
    "FakeClock",
    "PlayedScheduler",
    "Scene",
    "Script",
    "ScriptedProcess",
    "ScriptedProcesses",
    "Told",
    "scheduler",
]
