"""Rules about names, sizes and what must not stand in a file."""

import posixpath
import re

MAX_LINES = 600
BANNED_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "impl"}
# A folder or a type says what it holds; these words say only that nobody decided.
BANNED_TYPE = re.compile(r"^\s*(?:class|struct|enum\s+class|enum|union|namespace)\s+(\w*(?:Manager|Impl|Helper|Helpers|Util|Utils)|"
                         r"(?:utils?|helpers?|common|misc|impl))\b")
TODO = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(#\d+\))")
# Written in pieces so that the rule does not find itself.
ABSOLUTE = re.compile(r"(?<![\w.$}])/(?:wo" r"rk|ho" r"me|ro" r"ot|Use" r"rs)/\w")
HOSTS = re.compile("|".join(("py" r"pi\.org", "python" r"hosted\.org", "deb\\." r"debian\.org", "registry\\." r"npmjs", "crates" r"\.io/",
                             "proxy\\." r"golang", "hugging" r"face\.co")))
HOST_EXEMPT = ("LICENSE",)
TEXT = (".h", ".hpp", ".c", ".cpp", ".inc", ".S", ".ld", ".py", ".sh", ".cmake", ".txt", ".md", ".toml", ".json", ".in", ".map")
TOP_FOLDERS = ("firmware", "driver", "runtime", "libjal", "emulator", "tools", "tests", "samples")
README_SECTIONS = ("Where to start", "Who may include it", "How to test it", "Decisions")
TOP_ALLOWED = set(TOP_FOLDERS) | {"docs", "cmake", ".ci", "x", "CMakeLists.txt", "CMakePresets.json", "README.md", "CHANGELOG.md",
                                  "CONTRIBUTING.md", "LICENSE", ".clang-format", ".clang-tidy", ".clangd", ".gitignore",
                                  ".gitattributes"}


def check_sizes(tree):
    reasons = {}
    listing = "tests/tidy/large_files.txt"
    for number, line in tree.lines(listing) if listing in tree.known else ():
        if line.strip() and not line.startswith("#"):
            path, _, reason = line.partition(":")
            if len(reason.split()) < 3:
                yield f"{listing}:{number}", "give a reason after the colon"
            reasons[path.strip()] = number
    for path in tree.files:
        if path.endswith((".h", ".hpp", ".c", ".cpp", ".inc", ".S", ".py", ".sh", ".cmake")):
            count = tree.text(path).count("\n")
            if count > MAX_LINES and path not in reasons:
                yield path, f"{count} lines; split it at {MAX_LINES}, or give a reason in {listing}"
            if count <= MAX_LINES and path in reasons:
                yield f"{listing}:{reasons[path]}", f"{path} has {count} lines now; remove its entry"
    for path, number in reasons.items():
        if path not in tree.known:
            yield f"{listing}:{number}", f"{path} does not exist; remove its entry"


def check_names(tree):
    for path in tree.files:
        for part in path.split("/"):
            words = set(re.split(r"[_\-.]", part.lower()))
            if words & BANNED_WORDS:
                yield path, f"the name says nothing ({', '.join(words & BANNED_WORDS)}); name what is in it"
        stem = posixpath.basename(path)
        if path.endswith((".hpp", ".cpp", ".h", ".c")) and stem != stem.lower():
            yield path, "file names are snake_case"
    for path in tree.code():
        for number, line in tree.lines(path):
            match = BANNED_TYPE.match(line)
            if match and "namespace jal::" not in line:
                yield f"{path}:{number}", f"the name {match.group(1)} says nothing; name what it does"


def check_text(tree):
    for path in tree.files:
        if not path.endswith(TEXT) and path not in ("x", ".ci/run") or path.startswith("tests/tidy/"):
            continue
        for number, line in tree.lines(path):
            where = f"{path}:{number}"
            if TODO.search(line) and not path.endswith(".md"):
                yield where, "an open point names its issue, as in TODO" + "(#12), or does not stand here"
            if ABSOLUTE.search(line):
                yield where, "a path of somebody's machine; make it relative to the repository or a setting"
            if HOSTS.search(line) and path not in HOST_EXEMPT:
                yield where, "packages are named by name; no registry host stands in a file"
            if line.rstrip("\n") != line.rstrip() and not path.endswith(".md") and not path.startswith("tests/data/"):
                yield where, "white space at the end of the line"


def check_folders(tree):
    for top in sorted({f.split("/")[0] for f in tree.files}):
        if top not in TOP_ALLOWED:
            yield top, "the top level is fixed (README.md, Tree); put it into one of its folders"
    for folder in TOP_FOLDERS:
        if not any(f.startswith(folder + "/") for f in tree.files):
            continue
        readme = f"{folder}/README.md"
        if readme not in tree.known:
            yield folder, "has no README.md"
            continue
        for section in README_SECTIONS:
            if f"## {section}" not in tree.text(readme):
                yield readme, f"has no section '{section}'"
