"""`python -m rota` is the command `rota`."""

from rota.cli import run

if __name__ == "__main__":
    run()
