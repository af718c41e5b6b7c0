"""A bare FastAPI route on the same server: what HTTP itself costs on this machine."""

import sys

import uvicorn
from fastapi import FastAPI
from starlette.responses import HTMLResponse, JSONResponse

app = FastAPI()
ROWS = [{"id": number, "name": f"job-{number}", "state": "idle", "labels": ["a", "b"]} for number in range(20)]
LINES = "".join(f"<tr><td>{number}</td><td>a line of a table that is made already</td></tr>" for number in range(300))
PAGE = f"<!doctype html><title>bare</title><h1>Bare</h1><table>{LINES}</table>"


@app.get("/rows")
def rows() -> JSONResponse:
    """Answer twenty rows."""
    return JSONResponse(ROWS)


@app.get("/page")
def page() -> HTMLResponse:
    """Answer a page that is made already, of about 20 KB."""
    return HTMLResponse(PAGE)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", access_log=False, log_level="error")
