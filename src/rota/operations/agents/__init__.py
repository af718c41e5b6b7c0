"""Agents: configuration and state, certification, sessions, transcripts, worktrees, and the jobs that they propose."""
