#!/usr/bin/env python3
"""The project's own rules as a test: reads the tree, prints one line per finding, exits 1 if there is any.

Each rule is a function(tree) that yields (where, what); tidy_test.py shows each of them failing."""

import argparse
import json
import os
import pathlib
import sys
import time

import binaries
import documents
import headers
import layers
import statuses
import text_rules
from tree import Tree

RULES = {
    "layers": layers.check,
    "sizes": text_rules.check_sizes,
    "names": text_rules.check_names,
    "text": text_rules.check_text,
    "folders": text_rules.check_folders,
    "settings": documents.check_settings,
    "links": documents.check_links,
    "changelog": documents.check_changelog,
    "statuses": statuses.check,
    "headers": headers.check,
    "binaries": binaries.check,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.environ.get("JAL_BUILD_DIR"), help="build tree: cache, and programs to look at")
    parser.add_argument("--only", action="append", choices=sorted(RULES), help="run this rule only (may be repeated)")
    parser.add_argument("--write", action="store_true", help="rewrite what is generated (docs/status.md), then check")
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    if args.write:
        (root / statuses.DOCUMENT).write_text(statuses.document(Tree(root)))
    cache_file = pathlib.Path(args.build or ".") / "tidy_cache.json"
    cache = {}
    if args.build and cache_file.exists():
        cache = json.loads(cache_file.read_text())
    tree = Tree(root, args.build, cache)
    found = 0
    for name, rule in RULES.items():
        if args.only and name not in args.only:
            continue
        start = time.monotonic()
        count = 0
        for where, what in rule(tree):
            print(f"{where}: [{name}] {what}")
            count += 1
        found += count
        print(f"  {name}: {count} findings, {(time.monotonic() - start) * 1e3:.0f} ms")
    if binaries.ABSENT:
        print(f"  binaries: not built here, not looked at: {' '.join(binaries.ABSENT)}")
    if args.build and pathlib.Path(args.build).is_dir():
        cache_file.write_text(json.dumps(cache))
    print(f"tidy: {len(tree.files)} files, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
