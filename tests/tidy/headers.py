"""Headers that others compile against stand alone: as C11 and C++20 where the contract says so, else as C++20.

The answer is cached by the content of everything they could include, so an unchanged tree costs milliseconds."""

import concurrent.futures
import hashlib
import os
import subprocess

import layers

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
# Folder, and the languages its headers must compile in alone.
BOTH = ("libjal/include/", "firmware/abi/")
CXX_ONLY = ("firmware/hal/", "firmware/kernel/")


def languages(path):
    if path.endswith(".h") and path.startswith(BOTH):
        return ["c", "c++"]
    if path.endswith((".h", ".hpp")) and path.startswith(BOTH + CXX_ONLY):
        return ["c++"]
    return []


def compile_alone(tree, path, language):
    compiler, standard = (os.environ.get("CC", "gcc"), "c11") if language == "c" else (os.environ.get("CXX", "g++"), "c++20")
    command = [compiler, f"-std={standard}", "-x", language, *WARNINGS, f"-I{tree.root}",
               *(f"-I{tree.root}/{base}" for base in layers.PUBLIC_ROOTS), "-include", str(tree.root / path), "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return None
    first = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr.strip()[:200])
    return f"does not compile alone as {standard}: {first.replace(str(tree.root) + '/', '')}"


def check(tree):
    wanted = [(f, language) for f in tree.files for language in languages(f)]
    digest = hashlib.sha256()
    for path in tree.files:
        if path.endswith((".h", ".hpp", ".inc")) and path.startswith(BOTH + CXX_ONLY):
            digest.update(path.encode() + b"\0" + tree.text(path).encode() + b"\0")
    key = digest.hexdigest()
    if tree.cache.get("headers") == key:
        return
    good = True
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, _), wrong in zip(wanted, pool.map(lambda w: compile_alone(tree, *w), wanted)):
            if wrong:
                good = False
                yield path, wrong
    if good:
        tree.cache["headers"] = key
