"""Which Chromium shows the dashboard, and how it is started: quiet, and the same everywhere."""

import os
import shutil

CHROMIUM = os.environ.get("ROTA_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
