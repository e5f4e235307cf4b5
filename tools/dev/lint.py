#!/usr/bin/env python3
"""Layout (clang-format), bugs (clang-tidy with the allow-list in .clang-tidy) and the tidy rules, on what changed or on all.

Without --all, clang-tidy reads the sources that differ from the upstream branch or, on main itself, from the last commit but one; of an
unchanged tree it reads a rotating sample, so that the whole tree is seen over time. Progress goes to stderr. Exit 1 on findings."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = (".h", ".hpp", ".c", ".cpp", ".inc")
SAMPLE = 8
LIMIT = 40  # at about 4 s a source on two cores, under three minutes
DATABASE = ROOT / "build/dev/compile_commands.json"
# GCC's flags that clang 14 does not know; everything else is passed as it is.
GCC_ONLY = re.compile(r"^-(fno-var-tracking|fstack-usage|Wno-maybe-uninitialized|Wno-stringop|fconcepts|fno-tree-loop-distribute-patterns|mno-avx512fp16)")


def say(text):
    print(f"lint: {text}", file=sys.stderr, flush=True)


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")


def tracked():
    return sorted({f for f in git("ls-files", "--cached", "--others", "--exclude-standard") if f and (ROOT / f).is_file()})


def changed():
    files = set(git("diff", "--name-only", "HEAD")) | set(git("ls-files", "--others", "--exclude-standard"))
    base = git("rev-parse", "--verify", "-q", "@{upstream}")[0] or git("rev-parse", "--verify", "-q", "HEAD~1")[0]
    return files | set(git("diff", "--name-only", f"{base}..HEAD")) if base else files


def check_format(files):
    files = [f for f in files if f.endswith(CODE)]
    bad = []
    for start in range(0, len(files), 50):
        result = subprocess.run(["clang-format", "--dry-run", "-Werror", *files[start:start + 50]], cwd=ROOT, capture_output=True, text=True)
        bad += re.findall(r"^(\S+?):\d+:\d+: error: code should be clang-formatted", result.stderr, re.M)
    for path in sorted(set(bad)):
        print(f"{path}: not formatted; run clang-format -i {path}")
    say(f"clang-format: {len(files)} files, {len(set(bad))} to format")
    return not bad


def clang_database():
    """The compile database as clang understands it, in a folder of its own."""
    entries = json.loads(DATABASE.read_text())
    for entry in entries:
        words = [w for w in entry["command"].split(" ") if not GCC_ONLY.match(w) and not w.endswith("/ccache")]
        # The tests' precompiled header is g++'s; the sources include what they use.
        for at in [i for i, w in enumerate(words) if w == "-include"][::-1]:
            del words[at:at + 2]
        entry["command"] = " ".join(words) + " -Wno-unknown-warning-option -Wno-unknown-attributes"
    folder = ROOT / "build/dev/lint"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder, {os.path.relpath(e["file"], ROOT) for e in entries}


def check_tidy(wanted, everything):
    if not DATABASE.exists():
        say("clang-tidy: no build/dev/compile_commands.json; run ./x build")
        return False
    folder, known = clang_database()
    sources = sorted(known & {f for f in wanted if f.endswith((".cpp", ".c"))} if not everything else known)
    if not sources and known:
        ordered = sorted(known)
        first = int(time.time()) // 86400 * SAMPLE % len(ordered)
        sources = [ordered[(first + i) % len(ordered)] for i in range(min(SAMPLE, len(ordered)))]
        say("clang-tidy: no source changed; reading today's sample")
    if len(sources) > LIMIT and not everything:
        say(f"clang-tidy: {len(sources)} sources changed; reading every {-(-len(sources) // LIMIT)}th (--all reads all)")
        sources = sources[::-(-len(sources) // LIMIT)]
    good = True

    def run(path):
        return path, subprocess.run(["clang-tidy", "--quiet", "-p", str(folder), path], cwd=ROOT, capture_output=True, text=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (path, result) in enumerate(pool.map(run, sources), 1):
            say(f"clang-tidy [{done}/{len(sources)}] {path}")
            if result.returncode:
                good = False
                print((result.stdout or result.stderr).replace(f"{ROOT}/", "").strip())
    return good


def main():
    parser = argparse.ArgumentParser(prog="./x lint", description=__doc__)
    parser.add_argument("--all", action="store_true", help="clang-tidy on every source (many minutes)")
    args = parser.parse_args()
    results = {"clang-format": check_format(tracked()), "clang-tidy": check_tidy(changed(), args.all)}
    tidy = [sys.executable, str(ROOT / "tests/tidy/tidy.py"), "--build", str(ROOT / "build/dev")]
    results["tidy"] = subprocess.run(tidy, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}).returncode == 0
    failed = [name for name, good in results.items() if not good]
    say(f"failed: {', '.join(failed)}" if failed else "nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
