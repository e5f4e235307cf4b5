"""Tries to bring the real model, so that the tests after it can use it. Skipped (77) when it cannot be had: no network, no room."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    result = subprocess.run([sys.executable, ROOT / "tools/dev/fetch_model.py"], stdout=subprocess.PIPE, text=True)
    print(f"model: {result.stdout.strip()}" if result.returncode == 0 else "skipped: the real model cannot be had, see the lines above")
    sys.exit(0 if result.returncode == 0 and pathlib.Path(result.stdout.strip()).is_file() else 77)
