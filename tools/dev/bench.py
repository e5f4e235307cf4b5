#!/usr/bin/env python3
"""Runs the benchmark programs of an area and prints a table, or with --json their lines as they come. Format: docs/benchmarks.md.

Not a benchmark itself: it measures nothing, and judges only what the programs report. Exit 0 goals met, 1 some not, 2 a program failed."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINE = "machine"


def programs(build):
    """Area -> commands, from what is built and what lies in tests/bench: bench_AREA, bench_AREA_part, AREA.py, AREA_part.py."""
    found = {}
    for path in sorted((build / "bin").glob("bench_*")):
        if os.access(path, os.X_OK):
            found.setdefault(path.name.split("_")[1], []).append([str(path)])
    for path in sorted((ROOT / "tests/bench").glob("*.py")):
        if not path.name.startswith("_") and os.access(path, os.X_OK):
            found.setdefault(path.stem.split("_")[0], []).append([sys.executable, str(path)])
    return found


def run(command, build):
    """Yields the records a program prints, as it prints them. A line that is no record is passed on to stderr."""
    env = {**os.environ, "JAL_BUILD_DIR": str(build), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT) as process:
        for line in process.stdout:
            try:
                record = json.loads(line)
                if not isinstance(record, dict) or "bench" not in record:
                    raise ValueError
            except ValueError:
                print(line.rstrip(), file=sys.stderr)
                continue
            yield record
    if process.returncode:
        raise RuntimeError(f"{pathlib.Path(command[-1]).name} ended with status {process.returncode}")


def number(value):
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def table_line(record):
    if record["bench"] == MACHINE:
        return "machine: " + "  ".join(f"{k} {number(v) if isinstance(v, float) else v}" for k, v in record.items() if k != "bench")
    if "skipped" in record:
        return f"{record['bench']:<9} {record.get('case', ''):<34} SKIPPED: {record['skipped']}"
    reference, goal = record.get("reference") or {}, record.get("goal") or {}
    shown_goal = f"{goal.get('op', '')} {number(goal.get('value'))}" if goal else ""
    verdict = {True: "met", False: "NOT MET"}.get(record.get("met"), "")
    return (f"{record['bench']:<9} {record.get('case', ''):<34} {number(record.get('value')):>10} {record.get('unit', ''):<8} "
            f"{record.get('kind', ''):<9} ratio {number(record.get('ratio')):>7}  goal {shown_goal:<10} {verdict:<8} "
            f"{record.get('placement', ''):<5} {reference.get('name', '')} {number(reference.get('value')) if reference else ''}").rstrip()


def main():
    parser = argparse.ArgumentParser(prog="./x bench", description=__doc__)
    parser.add_argument("area", nargs="?", help="one of those in docs/benchmarks.md; without it, all")
    parser.add_argument("--json", action="store_true", help="one JSON object per line instead of a table")
    parser.add_argument("--build", default="build/release", help="build tree whose programs are run")
    args = parser.parse_args()
    build = ROOT / args.build
    found = programs(build)
    areas = [args.area] if args.area else sorted(set(found) - {MACHINE})
    unknown = [a for a in areas if a not in found]
    if unknown:
        print(f"bench: no area '{unknown[0]}'; there are: {', '.join(sorted(set(found) - {MACHINE})) or 'none'}", file=sys.stderr)
        return 2
    missed, broken = [], []
    # The machine's own figures come last, so that they are of the same run and the last line is always theirs.
    for area in [a for a in areas if a != MACHINE] + ([MACHINE] if MACHINE in found else []):
        for command in found[area]:
            try:
                for record in run(command, build):
                    print(json.dumps(record) if args.json else table_line(record), flush=True)
                    if record.get("met") is False:
                        missed.append(f"{record['bench']}/{record.get('case')}")
            except RuntimeError as error:
                broken.append(str(error))
                print(f"bench: {error}", file=sys.stderr)
    if missed:
        print(f"bench: goals not met: {', '.join(missed)}", file=sys.stderr)
    return 2 if broken else 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
