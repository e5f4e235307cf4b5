"""Rules that keep documents and code saying the same: settings, statuses, change log, links."""

import posixpath
import re

SETTINGS = "docs/settings.md"
# Reads of an environment variable in C++, Python and shell. Names that only the build or a test sets are not settings.
READS = (re.compile(r'\w*(?:getenv|Env|env)\w*\s*\(\s*"(JAL_[A-Z0-9_]+)"'),
         re.compile(r'environ(?:\.get\(|\[)\s*["\'](JAL_[A-Z0-9_]+)["\']'),
         re.compile(r'\$\{(JAL_[A-Z0-9_]+)(?::?[-?=+][^}]*)?\}'))
ROW = re.compile(r"^\|\s*`(JAL_[A-Z0-9_]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
PUBLIC = ("libjal/include/", "firmware/abi/")
CHANGELOG = "CHANGELOG.md"


def settings_read(tree):
    found = {}
    for path in tree.files:
        if path.startswith(("tests/", "docs/", "cmake/")) or path.endswith((".md", "CMakeLists.txt", ".cmake")):
            continue
        if not path.endswith((".h", ".hpp", ".c", ".cpp", ".py", ".sh")) and path not in ("x", ".ci/run"):
            continue
        for number, line in tree.lines(path):
            for pattern in READS[:2] if path.endswith((".h", ".hpp", ".c", ".cpp", ".py")) else READS[2:]:
                for name in pattern.findall(line):
                    found.setdefault(name, f"{path}:{number}")
    return found


def check_settings(tree):
    found = settings_read(tree)
    documented = {}
    for number, line in tree.lines(SETTINGS) if SETTINGS in tree.known else ():
        match = ROW.match(line)
        if match:
            documented[match.group(1)] = number
    for name, where in sorted(found.items()):
        if name not in documented:
            yield where, f"reads {name}, which {SETTINGS} does not describe"
    for name, number in sorted(documented.items()):
        if name not in found:
            yield f"{SETTINGS}:{number}", f"describes {name}, which nothing reads"


def check_links(tree):
    folders = {posixpath.dirname(f) for f in tree.files}
    folders |= {posixpath.dirname(f) for f in folders}
    for path in tree.files:
        if not path.endswith(".md"):
            continue
        for number, line in tree.lines(path):
            for target in LINK.findall(line):
                if "://" in target or target.startswith("mailto:"):
                    continue
                full = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
                if full not in tree.known and full.rstrip("/") not in folders:
                    yield f"{path}:{number}", f"links to {target}, which does not exist"


def check_changelog(tree):
    """A public header never changes later than the change log: neither in the work tree nor in history."""
    if not tree.is_git:
        return
    try:
        tree.git("rev-parse", "--verify", "-q", "HEAD")
    except Exception:  # no commit yet: nothing to compare with
        return
    changed = set(tree.git("diff", "--name-only", "HEAD").split("\n"))
    headers = [f for f in tree.files if f.startswith(PUBLIC) and f.endswith((".h", ".hpp"))]
    if CHANGELOG not in tree.known:
        yield CHANGELOG, "does not exist"
        return
    if CHANGELOG in changed:
        return
    for path in headers:
        if path in changed:
            yield path, f"a public header changed; say in {CHANGELOG} what its users notice"
    last = tree.git("log", "-1", "--format=%H", "--", CHANGELOG).strip()
    if not last:
        yield CHANGELOG, "is not committed"
        return
    later = {f for f in tree.git("log", "--format=", "--name-only", f"{last}..HEAD", "--", *PUBLIC).split("\n") if f in headers}
    for path in sorted(later):
        yield path, f"a public header changed after the last entry in {CHANGELOG}; say there what its users notice"
