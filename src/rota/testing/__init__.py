"""For tests: `scheduler` for programs that embed rota; a clock, scripted processes and a scene for rota itself."""

from rota.testing.doubles import BOOT, COMPLETED, CountingStore, FakeClock, Script, ScriptedProcess, ScriptedProcesses
from rota.testing.scene import PlayedScheduler, Scene, Told, scheduler

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
