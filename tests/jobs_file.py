"""The jobs file of document 000: a data format that rota must read as it is written there."""

DOCUMENT = """\
# .octopoid/jobs.yaml
jobs:
  check_finished_agents:
    interval: 10
    type: script
    run: orchestrator.jobs:check_finished_agents
    group: local          # needs no poll data

  register_orchestrator:
    interval: 300
    type: script
    run: orchestrator.jobs:register_orchestrator
    group: remote         # needs poll data

  requeue_expired_leases:
    interval: 60
    type: script
    run: orchestrator.jobs:requeue_expired_leases
    group: remote

  process_hooks:
    interval: 60
    type: script
    run: orchestrator.jobs:process_hooks
    group: remote

  check_project_completion:
    interval: 60
    type: script
    run: orchestrator.jobs:check_project_completion
    group: remote

  queue_health:
    interval: 1800
    type: script
    run: orchestrator.jobs:check_queue_health
    group: remote

  agent_evaluation:
    interval: 60
    type: script
    run: orchestrator.jobs:evaluate_agents
    group: remote

  sweep_stale_worktrees:
    interval: 3600
    type: script
    run: orchestrator.jobs:sweep_stale_worktrees
    group: local
    conditions:
      - no_agents_running

  cleanup_merged_branches:
    interval: 3600
    type: script
    run: orchestrator.jobs:cleanup_merged_branches
    group: local

  review_stale_prs:
    interval: 7200
    type: agent
    prompt: |
      Look at every pull request that has been open for two days:
      what does it wait for?
    model: haiku
    max_turns: 10
    conditions:
      - has_open_prs
"""
"""The file of document 000, every key and value as they stand there but the words of the prompt."""
