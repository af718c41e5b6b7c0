"""Adapters: one small module per agent. Each turns a task into a process or a call, and its output into a result."""
