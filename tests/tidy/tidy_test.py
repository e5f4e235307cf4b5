#!/usr/bin/env python3
"""Shows every tidy rule failing on a small tree that breaks it, and silent on the same tree mended."""

import pathlib
import subprocess
import tempfile
import unittest
import unittest.mock

import binaries
import documents
import headers
import layers
import statuses
import text_rules
from tree import Tree

GOOD_STATUS = 'X(BUSY, JAL_CANON_UNAVAILABLE, JAL_STATUS_UNIT_SESSION, 6, "held", "wait")\n'


class TidyTest(unittest.TestCase):
    def tree(self, files, build=None):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        for path, text in files.items():
            full = pathlib.Path(holder.name) / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text)
        return Tree(holder.name, build)

    def findings(self, rule, files):
        return [f"{where}: {what}" for where, what in rule(self.tree(files))]

    def breaks(self, rule, bad, good, expect):
        found = self.findings(rule, bad)
        self.assertEqual(len(found), 1, found)
        self.assertIn(expect, found[0])
        self.assertEqual(self.findings(rule, good), [])

    def test_layers_include_pointing_upward_is_found(self):
        files = {"runtime/a.hpp": "", "driver/a.hpp": ""}
        self.breaks(layers.check, {**files, "driver/b.cpp": '#include "runtime/a.hpp"\n'},
                    {**files, "runtime/b.cpp": '#include "driver/a.hpp"\n'}, "driver may not include runtime")

    def test_layers_emulator_sees_only_the_base_of_the_driver(self):
        files = {"driver/q.hpp": "", "driver/base/s.hpp": ""}
        self.breaks(layers.check, {**files, "emulator/a.cpp": '#include "driver/q.hpp"\n'},
                    {**files, "emulator/a.cpp": '#include "driver/base/s.hpp"\n'}, "emulator may not include driver")

    def test_layers_contract_includes_nothing(self):
        self.breaks(layers.check, {"firmware/abi/a.h": "#include <stdio.h>\n"}, {"firmware/abi/a.h": "#include <stdint.h>\n"}, "stdio.h")

    def test_layers_control_is_freestanding(self):
        self.breaks(layers.check, {"firmware/control/a.cpp": "#include <vector>\n"}, {"firmware/control/a.cpp": "#include <span>\n"},
                    "not freestanding")

    def test_layers_public_header_asks_for_no_package(self):
        self.breaks(layers.check, {"libjal/include/jal/a.hpp": "#include <spdlog/spdlog.h>\n"},
                    {"libjal/include/jal/a.hpp": "#include <span>\n"}, "may not ask")

    def test_layers_relative_and_missing_includes_are_found(self):
        files = {"driver/q.hpp": ""}
        self.breaks(layers.check, {**files, "driver/a.cpp": '#include "q.hpp"\n'}, {**files, "driver/a.cpp": '#include "driver/q.hpp"\n'},
                    "from the root")
        self.breaks(layers.check, {"driver/a.cpp": '#include "driver/gone.hpp"\n'}, {}, "does not exist")

    def test_sizes_long_file_needs_a_reason_and_stale_reason_is_found(self):
        long_text = "\n" * (text_rules.MAX_LINES + 1)
        listing = "tests/tidy/large_files.txt"
        self.breaks(text_rules.check_sizes, {"driver/a.cpp": long_text},
                    {"driver/a.cpp": long_text, listing: "driver/a.cpp: one table of packet layouts\n"}, "601 lines")
        self.breaks(text_rules.check_sizes, {"driver/a.cpp": "", listing: "driver/a.cpp: one table of layouts\n"}, {}, "remove its entry")

    def test_names_that_say_nothing_are_found(self):
        self.breaks(text_rules.check_names, {"driver/string_utils.hpp": ""}, {"driver/string_join.hpp": ""}, "says nothing")
        self.breaks(text_rules.check_names, {"driver/a.hpp": "class QueueManager {\n"}, {"driver/a.hpp": "class QueueSet {\n"}, "QueueManager")

    def test_text_open_points_paths_hosts_and_spaces_are_found(self):
        for bad in ("// TO" "DO: later\n", "x /ho" "me/me/x\n", "https://py" "pi.org/simple\n", "int a; \n"):
            self.breaks(text_rules.check_text, {"driver/a.cpp": bad}, {"driver/a.cpp": "// TO" "DO(#7): later\n"}, "driver/a.cpp:1")

    def test_folders_unknown_top_and_missing_readme_are_found(self):
        readme = "".join(f"## {s}\n" for s in text_rules.README_SECTIONS)
        self.breaks(text_rules.check_folders, {"extras/a.txt": ""}, {"docs/a.md": ""}, "top level is fixed")
        self.breaks(text_rules.check_folders, {"driver/a.cpp": ""}, {"driver/a.cpp": "", "driver/README.md": readme}, "no README.md")

    def test_settings_unread_and_undocumented_are_found(self):
        read, row = {"driver/a.cpp": 'auto v = std::getenv("JAL_LOG");\n'}, {documents.SETTINGS: "| `JAL_LOG` | level |\n"}
        self.breaks(documents.check_settings, read, {**read, **row}, "does not describe")
        self.breaks(documents.check_settings, row, {**read, **row}, "nothing reads")

    def test_links_to_nowhere_are_found(self):
        self.breaks(documents.check_links, {"README.md": "[a](docs/a.md)\n"}, {"README.md": "[a](docs/a.md#x)\n", "docs/a.md": ""}, "does not exist")

    def test_statuses_duplicates_and_stale_document_are_found(self):
        tree = self.tree({statuses.LIST: GOOD_STATUS})
        self.breaks(statuses.check, {statuses.LIST: GOOD_STATUS}, {statuses.LIST: GOOD_STATUS, statuses.DOCUMENT: statuses.document(tree)},
                    "--write")
        twice = GOOD_STATUS + GOOD_STATUS.replace("BUSY", "TAKEN").replace('"held"', '"taken"')
        found = self.findings(statuses.check, {statuses.LIST: twice, statuses.DOCUMENT: ""})
        self.assertTrue(any("share their unit and detail" in f for f in found), found)

    def test_headers_that_need_another_are_found(self):
        found = self.findings(headers.check, {"firmware/abi/a.h": "uint32_t f(void);\n"})
        self.assertEqual(len(found), 2, found)  # as C and as C++
        self.assertEqual(self.findings(headers.check, {"firmware/abi/a.h": "#include <stdint.h>\nuint32_t f(void);\n"}), [])

    def test_headers_are_compiled_once_for_one_content(self):
        tree = self.tree({"firmware/abi/a.h": "uint32_t f(void);\n"})
        self.assertEqual(len(list(headers.check(tree))), 2)
        self.assertNotIn("headers", tree.cache)  # only a good answer is kept
        good = self.tree({"firmware/abi/a.h": "int f(void);\n"})
        self.assertEqual(list(headers.check(good)), [])
        known = Tree(good.root, cache=dict(good.cache))
        with unittest.mock.patch.object(headers, "compile_alone", side_effect=AssertionError("compiled again")):
            self.assertEqual(list(headers.check(known)), [])

    def test_binaries_slow_library_at_start_is_found(self):
        tree = self.tree({"lib/libjal.so": ""})
        tree.build = tree.root
        self.assertEqual(len(list(binaries.check(tree, lambda _: ["libc.so.6", "libfabric.so.1"]))), 1)
        self.assertEqual(list(binaries.check(tree, lambda _: ["libc.so.6"])), [])
        self.assertIn("bin/jal-smi", binaries.ABSENT)

    def test_binaries_reader_names_what_a_program_needs(self):
        self.assertTrue(any(n.startswith("libc.so") for n in binaries.needed("/bin/ls")))

    def test_changelog_older_than_a_public_header_is_found(self):
        tree = self.tree({"CHANGELOG.md": "a\n", "firmware/abi/a.h": "int f(void);\n"})

        def git(*args):
            subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *args], cwd=tree.root, check=True, capture_output=True)

        git("init", "-q")
        git("add", ".")
        git("commit", "-q", "-m", "a")
        self.assertEqual(list(documents.check_changelog(Tree(tree.root))), [])
        (tree.root / "firmware/abi/a.h").write_text("int g(void);\n")
        self.assertEqual(len(list(documents.check_changelog(Tree(tree.root)))), 1)
        git("commit", "-q", "-a", "-m", "b")
        self.assertEqual(len(list(documents.check_changelog(Tree(tree.root)))), 1)
        (tree.root / "CHANGELOG.md").write_text("a\nb\n")
        self.assertEqual(list(documents.check_changelog(Tree(tree.root))), [])
        git("commit", "-q", "-a", "-m", "c")
        self.assertEqual(list(documents.check_changelog(Tree(tree.root))), [])


if __name__ == "__main__":
    unittest.main()
