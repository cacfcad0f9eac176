"""Run ladder-eval from a checkout without installing it: `python cli.py run`."""

from ladder_eval.__main__ import app

if __name__ == "__main__":
    app()
