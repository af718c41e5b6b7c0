"""For tests: `scheduler` for programs that embed rota; a clock, scripted processes and a scene for rota itself."""

from rota.testing.clock import FakeClock
from rota.testing.counting import CountingStore
from rota.testing.played import PlayedScheduler, Told, scheduler
from rota.testing.scene import Scene
from rota.testing.scripted import BOOT, COMPLETED, Script, ScriptedProcess, ScriptedProcesses

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
