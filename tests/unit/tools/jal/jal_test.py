"""The program jal: explain by name and number, mistakes, fidelity, model."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["JAL_BUILD_DIR"])
ROOT = pathlib.Path(__file__).resolve().parents[4]


def jal(*words, **environment):
    with tempfile.TemporaryDirectory() as runtime:
        done = subprocess.run([BUILD / "bin/jal", *words], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "JAL_RUNTIME_DIR": runtime, **environment})
    return done.returncode, done.stdout, done.stderr


class JalTest(unittest.TestCase):
    def test_explain_by_name_and_by_number_say_the_same(self):
        code, text, _ = jal("explain", "OUT_OF_DEVICE_MEMORY")
        self.assertEqual(code, 0)
        self.assertIn("What to do: ", text)
        number, hexadecimal = re.match(r"OUT_OF_DEVICE_MEMORY \((\d+), (0x[0-9a-f]+)\)", text).groups()
        for spelling in (number, hexadecimal, "out_of_device_memory", "JAL_ERROR_OUT_OF_DEVICE_MEMORY"):
            self.assertEqual(jal("explain", spelling), (0, text, ""), spelling)

    def test_explain_knows_every_status_of_the_contract(self):
        text = (ROOT / "firmware/abi/include/jal/abi/status.h").read_text()
        names = re.findall(r"^\s*X\((\w+),", text, flags=re.M)
        self.assertGreater(len(names), 40)
        code, listed, _ = jal("explain")
        self.assertEqual(code, 0)
        self.assertEqual([line.split()[0] for line in listed.splitlines()], ["OK", *names])

    def test_explain_of_success(self):
        self.assertEqual(jal("explain", "0")[0], 0)

    def test_explain_of_nothing_known_helps(self):
        code, text, words = jal("explain", "OUT_OF_DEVICE_MEMROY")
        self.assertEqual((code, text), (3, ""))
        self.assertIn("did you mean OUT_OF_DEVICE_MEMORY?", words)
        self.assertEqual(jal("explain", "123456789")[0], 3)
        self.assertNotIn("did you mean", jal("explain", "something quite different")[2])

    def test_usage_errors_exit_2_and_help_exits_0(self):
        self.assertEqual(jal()[0], 2)
        self.assertEqual(jal("no-such-verb")[0], 2)
        self.assertEqual(jal("model")[0], 2)
        self.assertEqual(jal("--help")[0], 0)
        self.assertRegex(jal("--version")[1], r"^jal \d+\.\d+\.\d+\n$")

    def test_fidelity_has_a_level_in_every_row(self):
        code, text, words = jal("fidelity")
        self.assertEqual((code, words), (0, ""))
        rows = text.splitlines()[1:]
        self.assertGreater(len(rows), 10)
        for row in rows:
            self.assertRegex(row, r" (exact|functional|approximate|not modelled) ")

    def test_model_prints_value_unit_and_source(self):
        code, text, words = jal("model", "rate.hbm_per_slice", JAL_MODEL="jal1-a0")
        self.assertEqual((code, words), (0, ""))
        self.assertRegex(text, r"^rate\.hbm_per_slice = [0-9.e+]+ \S+ \(modelled; source: .+\)\n$")
        code, _, words = jal("model", "no.such.figure")
        self.assertEqual(code, 1)
        self.assertIn("INVALID_ARGUMENT", words)

    def test_a_missing_emulator_is_told_with_where_it_was_looked_for(self):
        code, text, words = jal("fidelity", JAL_EMULATOR="/nonexistent.so")
        self.assertEqual((code, text), (1, ""))
        self.assertIn("NO_INSTANCE", words)
        self.assertIn("/nonexistent.so", words)

    def test_the_manual_page_names_every_verb(self):
        page = (ROOT / "tools/jal/jal.1").read_text()
        for verb in ("explain", "fidelity", "model"):
            self.assertIn(f".B {verb}\n", page)


if __name__ == "__main__":
    sys.exit(unittest.main())
