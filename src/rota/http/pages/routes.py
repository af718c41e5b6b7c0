"""All pages, in the order in which they are looked for."""

from rota.http.pages import (
    agents,
    door,
    job,
    job_actions,
    jobs,
    new_job,
    overview,
    proposals,
    queue,
    run,
    runs,
    searching,
    static,
    system,
)

PAGES = (
    door.door,
    static.routes,
    door.pages,
    searching.pages,
    overview.pages,
    system.pages,
    jobs.pages,
    job.pages,
    job_actions.pages,
    new_job.pages,
    queue.pages,
    runs.pages,
    run.pages,
    agents.pages,
    proposals.pages,
)
