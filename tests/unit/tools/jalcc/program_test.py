"""jalcc from the outside: what it accepts, what it refuses and in which words, and that a failure leaves the old module alone."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

JALCC = pathlib.Path(os.environ["JAL_BUILD_DIR"]) / "bin/jalcc"
KERNEL = """#include <jal/kernel/core.hpp>
using namespace jal::kernel;
JAL_KERNEL({name}, Core& core, Address x, uint32_t n) {{
  const auto tile = core.alloc<float>(n);
  core.wait(core.load(tile, core.local(x.value)));
  {body}
}}
"""


class JalccTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="jalcc-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def source(self, name, body="", kernel="probe", text=None):
        path = self.folder / name
        path.write_text(KERNEL.format(name=kernel, body=body) if text is None else text)
        return path

    def jalcc(self, *words, program=JALCC, **environment):
        done = subprocess.run([program, *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr

    def compiles(self, *words, **how):
        code, out, err = self.jalcc(*words, **how)
        self.assertEqual(code, 0, err)
        return out

    def refused(self, expected_code, parts, *words, **how):
        code, out, err = self.jalcc(*words, **how)
        self.assertEqual(code, expected_code, err)
        for part in parts:
            self.assertIn(part, out + err)

    def test_a_module_lists_its_kernels_with_their_signatures(self):
        self.compiles("-o", "two.jko", self.source("a.cpp", kernel="first"), self.source("b.cpp", kernel="second"))
        out = self.compiles("--list", "two.jko")
        self.assertIn("kernel first(address, u32) 16 argument bytes", out)
        self.assertIn("kernel second(address, u32)", out)
        self.assertRegex(out, r"build id [0-9a-f]{64}")
        self.compiles("--verify", "two.jko")

    def test_the_default_name_is_the_first_sources(self):
        self.compiles(self.source("named.cpp"))
        self.assertTrue((self.folder / "named.jko").exists())

    def test_equal_sources_give_equal_modules(self):
        path = self.source("same.cpp")
        self.compiles("-o", "one.jko", path)
        self.compiles("-o", "other.jko", path)
        self.assertEqual((self.folder / "one.jko").read_bytes(), (self.folder / "other.jko").read_bytes())

    def test_macros_and_folders_reach_the_compiler(self):
        (self.folder / "inc").mkdir()
        (self.folder / "inc/extra.hpp").write_text("#pragma once\ninline float extra() { return WORTH; }\n")
        path = self.source("uses.cpp", text='#include "extra.hpp"\n' + KERNEL.format(name="uses", body="if (extra() > 2) core.write_view(tile)[0] = extra();"))
        self.compiles("-I", self.folder / "inc", "-D", "WORTH=3", "-o", "uses.jko", "--depfile", "uses.d", path)
        rule = (self.folder / "uses.d").read_text()
        self.assertIn("uses.jko:", rule)
        self.assertIn("inc/extra.hpp", rule)
        self.assertIn("jal/kernel/core.hpp", rule)

    def test_the_rule_names_the_headers_of_every_source(self):
        for name in ("first", "second"):
            (self.folder / f"{name}.hpp").write_text("#pragma once\n")
            self.source(f"{name}.cpp", text=f'#include "{name}.hpp"\n' + KERNEL.format(name=name, body=""))
        self.compiles("-o", "both.jko", "--depfile", "both.d", "first.cpp", "second.cpp")
        rule = (self.folder / "both.d").read_text()
        for part in ("first.cpp", "first.hpp", "second.cpp", "second.hpp"):
            self.assertIn(part, rule)

    def test_an_undefined_symbol_is_refused_by_name(self):
        path = self.source("missing.cpp", text='extern "C" int not_here(int);\n' + KERNEL.format(name="missing", body="(void)not_here(1);"))
        self.refused(1, ["not_here"], "-o", "missing.jko", path)
        self.assertFalse((self.folder / "missing.jko").exists())

    def test_what_is_no_kernel_library_is_refused(self):
        self.refused(1, ["kernel"], "-o", "none.jko", self.source("none.cpp", text="int x;\n"))
        self.refused(1, ["twice"], "-o", "twice.jko", self.source("c.cpp", kernel="twice"), self.source("d.cpp", kernel="twice"))
        self.assertFalse((self.folder / "twice.jko").exists())

    def test_a_compile_error_keeps_the_old_module(self):
        self.compiles("-o", "kept.jko", self.source("good.cpp"))
        before = (self.folder / "kept.jko").read_bytes()
        self.refused(1, ["bad.cpp", "nonsense"], "-o", "kept.jko", self.source("bad.cpp", body="nonsense;"))
        self.assertEqual((self.folder / "kept.jko").read_bytes(), before)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["bad.cpp", "good.cpp", "kept.jko"], "nothing half made is left")

    def test_refused_kernels_leave_the_old_rule_of_headers(self):
        undefined = self.source("undefined.cpp", text='extern "C" int not_here(int);\n' + KERNEL.format(name="undefined", body="(void)not_here(1);"))
        self.refused(1, ["not_here"], "-o", "kept.jko", "--depfile", "kept.d", undefined)
        self.assertFalse((self.folder / "kept.d").exists())
        (self.folder / "kept.d").write_text("as before\n")
        for path in (undefined, self.source("bad.cpp", body="nonsense;")):
            self.refused(1, [], "-o", "kept.jko", "--depfile", "kept.d", path)
            self.assertEqual((self.folder / "kept.d").read_text(), "as before\n")

    def test_what_cannot_be_written_is_named_with_the_reason(self):
        path = self.source("good.cpp")
        (self.folder / "taken.jko").mkdir()
        self.refused(1, ["taken.jko", "Is a directory"], "-o", "taken.jko", path)
        self.refused(1, ["absent/x.jko", "No such file or directory"], "-o", "absent/x.jko", path)
        self.refused(1, ["absent/x.d", "No such file or directory"], "-o", "x.jko", "--depfile", "absent/x.d", path)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["good.cpp", "taken.jko"])

    def test_the_compiler_may_have_words_before_it(self):
        path = self.source("good.cpp")
        self.compiles("-o", "x.jko", path, CXX="env WORD=1 g++")
        self.compiles("-o", "x.jko", path, CXX="")
        self.refused(1, ["no-such-compiler: No such file", "set CXX"], "-o", "x.jko", path, CXX="no-such-compiler -m64")

    def test_headers_that_are_not_beside_it_are_taken_from_a_folder_named(self):
        alone = self.folder / "alone/bin/jalcc"
        alone.parent.mkdir(parents=True)
        shutil.copy2(JALCC, alone)
        path = self.source("good.cpp")
        self.refused(1, ["alone/include", "-I"], "-o", "x.jko", path, program=alone)
        self.compiles("-I", JALCC.parent.parent / "include", "-o", "x.jko", path, program=alone)

    def test_damaged_modules_do_not_verify(self):
        self.compiles("-o", "whole.jko", self.source("whole.cpp"))
        content = (self.folder / "whole.jko").read_bytes()
        damaged = self.folder / "damaged.jko"
        for size in (0, 1, 63, 255, 256, 700, len(content) // 2, len(content) - 1):
            damaged.write_bytes(content[:size])
            self.refused(1, ["damaged.jko"], "--verify", damaged)
        for at in [*range(0, 256, 16), *range(256, len(content), len(content) // 16)]:
            changed = bytearray(content)
            changed[at] ^= 0x40
            damaged.write_bytes(changed)
            self.refused(1, ["damaged.jko"], "--verify", damaged)

    def test_wrong_usage(self):
        self.refused(2, [], "--nonsense")
        self.refused(2, [])
        self.refused(1, ["absent.cpp"], "-o", "x.jko", "absent.cpp")
        self.refused(1, ["absent.jko"], "--list", "absent.jko")


if __name__ == "__main__":
    unittest.main()
