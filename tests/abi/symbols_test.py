"""What the libraries export: libjal exactly the functions its headers declare, which are those of its map; the emulator one symbol.

A function that a header declares and the library lacks fails at the user's link; one that only the library has is a promise
nobody wrote down."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["JAL_BUILD_DIR"])
DECLARATION = re.compile(r"JAL_API\s[^;{]*?\b(jal_\w+)\s*\(")


def declared():
    names = set()
    for header in sorted((ROOT / "libjal/include/jal").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
        names.update(DECLARATION.findall(text))
    return names


def mapped(path):
    """Names by version node of a linker map."""
    nodes = {}
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
    for node, body in re.findall(r"(\w+)\s*\{(.*?)\}", text, flags=re.S):
        exported = body.split("local:")[0].replace("global:", "")
        nodes[node] = set(re.findall(r"[\w*]+", exported))
    return nodes


def exported(library):
    """Name -> version of the library's defined dynamic symbols."""
    out = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        _, kind, name = line.split(maxsplit=2)
        if kind != "A":  # the version nodes themselves
            name, _, version = name.partition("@@")
            found[name] = version
    return found


class SymbolsTest(unittest.TestCase):
    maxDiff = None

    def test_libjal_exports_what_its_headers_declare(self):
        self.assertGreater(len(declared()), 60, "the headers were not understood")
        self.assertEqual(set(exported(BUILD / "lib/libjal.so")), declared())

    def test_the_map_lists_the_same_functions_each_in_one_node(self):
        nodes = mapped(ROOT / "libjal/libjal.map")
        names = [name for node in nodes.values() for name in node]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(set(names), declared())
        for name, version in exported(BUILD / "lib/libjal.so").items():
            self.assertIn(name, nodes[version])

    def test_the_emulator_exports_its_table_and_nothing_else(self):
        library = BUILD / "lib/libjal-emulator.so"
        if not library.exists():
            self.skipTest("libjal-emulator.so is not built")
        self.assertEqual(set(exported(library)), {"jal_instance_get_api"})

    def test_libraries_need_nothing_from_each_other(self):
        for library in ("libjal.so", "libjal-emulator.so"):
            if (BUILD / "lib" / library).exists():
                out = subprocess.run(["readelf", "-d", BUILD / "lib" / library], capture_output=True, text=True, check=True).stdout
                needed = re.findall(r"NEEDED.*\[(.*)\]", out)
                self.assertFalse([n for n in needed if n.startswith("libjal")], library)
                self.assertNotIn("RUNPATH", out, library)


if __name__ == "__main__":
    sys.exit(unittest.main())
