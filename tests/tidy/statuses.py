"""docs/status.md is the list of firmware/abi's status.h, written out; `tidy.py --write` rewrites it.

The list itself must be sane: no name, code or meaning twice, and every status says what to do about it."""

import re

LIST = "firmware/abi/include/jal/abi/status.h"
DOCUMENT = "docs/status.md"
ROW = re.compile(r'^\s*X\((\w+),\s*JAL_CANON_(\w+),\s*JAL_STATUS_UNIT_(\w+),\s*(\d+),\s*"([^"]*)",\s*"([^"]*)"\)')
HEAD = """# Statuses

Every call of the SDK, on the host and in the firmware, returns one `jal_status_t`: 0, or canonical code << 16 | unit << 8 | detail.
The canonical code says whether a retry can help, the unit which part refused. `jal_last_error_message()` has the values of the
failing call; `jal explain NAME` prints a row of this table. A failed call changes nothing unless its documentation says so.

This file is made from `firmware/abi/include/jal/abi/status.h` by `tests/tidy/tidy.py --write`; the list only grows.

| status | canonical code | unit | detail | what it means | what to do |
|---|---|---|---|---|---|
"""


def rows(tree):
    return [match.groups() for _, line in tree.lines(LIST) if (match := ROW.match(line))] if LIST in tree.known else []


def document(tree):
    return HEAD + "".join("| `" + "` | ".join((name, "")) + f"{canon.lower()} | {unit.lower()} | {detail} | {means} | {remedy} |\n"
                          for name, canon, unit, detail, means, remedy in rows(tree))


def check(tree):
    listed = rows(tree)
    if LIST in tree.known and len(listed) != len(re.findall(r"^\s*X\(\w+,", tree.text(LIST), re.M)):
        yield LIST, "some rows of the status list do not have the form X(NAME, JAL_CANON_x, JAL_STATUS_UNIT_x, n, \"..\", \"..\")"
    seen = {}
    for name, _, unit, detail, means, remedy in listed:
        for key in (("name", name), ("unit and detail", (unit, detail)), ("meaning", means)):
            if key in seen:
                yield LIST, f"{name} and {seen[key]} share their {key[0]}"
            seen[key] = name
        if not means or not remedy:
            yield LIST, f"{name} does not say what it means and what to do"
    if listed and (DOCUMENT not in tree.known or tree.text(DOCUMENT) != document(tree)):
        yield DOCUMENT, "is not what the status list says; run tests/tidy/tidy.py --write"
