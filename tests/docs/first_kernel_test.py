"""docs/first_kernel.md: its files are saved, its commands run in order on an installed copy, its output compared. A block's info string
says what it is: file=NAME, sh (file-edit=NAME:SED first makes the change that the text describes), output, stderr."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["JAL_BUILD_DIR"])
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/first_kernel.md"
BLOCK = re.compile(r"^```(\S+)(?: +([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class FirstKernelTest(unittest.TestCase):
    def test_the_page_works_as_it_stands(self):
        with tempfile.TemporaryDirectory(prefix="jal-docs-") as folder:
            prefix, work = pathlib.Path(folder) / "prefix", pathlib.Path(folder) / "work"
            work.mkdir()
            subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
            environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAL_", "LD_"))}
            environment.update(JAL_RUNTIME_DIR=str(work), PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"),
                               LD_LIBRARY_PATH=str(prefix / "lib"), PATH=f"{prefix / 'bin'}:{os.environ['PATH']}")
            seen = {"cpp": 0, "sh": 0, "output": 0, "stderr": 0}
            done = None
            for kind, info, text in BLOCK.findall(PAGE.read_text()):
                seen[kind] += 1
                if kind == "cpp":
                    (work / info.removeprefix("file=")).write_text(text)
                    self.assertLess(len(text.splitlines()), 40, info)
                elif kind == "sh":
                    if info:
                        name, change = info.removeprefix("file-edit=").split(":", 1)
                        before = (work / name).read_text()
                        subprocess.run(["sed", "-i", change, name], check=True, cwd=work)
                        self.assertNotEqual(before, (work / name).read_text(), "the edit found its place")
                    done = subprocess.run(["sh", "-e", "-c", text], cwd=work, env=environment, capture_output=True, text=True, timeout=120)
                    self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}\n{done.stderr}")
                elif kind == "output":
                    self.assertEqual(done.stdout, text)
                else:
                    self.assertIn(text.strip(), done.stderr)
                    self.assertRegex(done.stderr, r"core \d+, .*length\.cpp:19")
            self.assertEqual(seen, {"cpp": 2, "sh": 3, "output": 1, "stderr": 1})


if __name__ == "__main__":
    unittest.main()
