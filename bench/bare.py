"""A bare FastAPI route on the same server: what HTTP itself costs on this machine."""

import sys

import uvicorn
from fastapi import FastAPI
from starlette.responses import JSONResponse

app = FastAPI()
ROWS = [{"id": number, "name": f"job-{number}", "state": "idle", "labels": ["a", "b"]} for number in range(20)]


@app.get("/rows")
def rows() -> JSONResponse:
    """Answer twenty rows."""
    return JSONResponse(ROWS)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), http="h11", access_log=False, log_level="error")
