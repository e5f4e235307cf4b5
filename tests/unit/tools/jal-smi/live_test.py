"""jal-smi beside a program that uses a chip: the same figures in every form, and words and a status of its own when there is none."""

import csv
import io
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["JAL_BUILD_DIR"])
NO_INSTANCE = 6


class LiveTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="jal-smi-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "run").mkdir(mode=0o700)
        self.environment = {**os.environ, "JAL_RUNTIME_DIR": str(self.folder / "run"), "XDG_CACHE_HOME": str(self.folder)}

    def smi(self, *words):
        done = subprocess.run([BUILD / "bin/jal-smi", *words], env=self.environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def start_chat(self):
        """A program that answered one turn and waits for the next: its chip is alive and idle."""
        model = self.folder / "tiny.gguf"
        subprocess.run([BUILD / "tests/tiny_gguf", "write", model], check=True, capture_output=True)
        process = subprocess.Popen([BUILD / "bin/jal-llm", "--model", model, "--chat", "--max-tokens", "5", "--ignore-eos"], env=self.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

        def stop():
            process.stdin.close()
            process.stdout.read()
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), 0)
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        while process.stdout.read(1) != b"\n":  # the turn's end
            pass
        return process, stop

    def test_a_private_instance_is_seen_in_every_form(self):
        process, stop = self.start_chat()
        try:
            # The last token of the turn is fed after its line was printed.
            deadline = time.monotonic() + 30
            while True:
                code, out, err = self.smi("query", "--json")
                self.assertEqual(code, 0, err)
                document = json.loads(out)
                (instance,) = document["instances"]
                (device,) = instance["devices"]
                tokens = next((p["tokens"] for p in device["phases"] if p["phase"] == "verify_decode"), 0) if "phases" in device else None
                if tokens is None or tokens >= 5 or time.monotonic() > deadline:
                    break
            self.assertEqual((document["schema"], instance["private"], instance["pid"], instance["program"]), ("jal.smi/1", True, process.pid, "jal-llm"))
            self.assertEqual((device["state"], device["model"], device["emulated"]), ("ok", "jal1-a0", True))
            self.assertEqual(device["energy"]["kind"], "modelled")
            self.assertGreater(device["energy"]["j"], 0)

            code, out, err = self.smi("list")
            self.assertEqual((code, len(out.splitlines())), (0, 1), err)
            self.assertIn(device["uuid"], out)

            code, out, err = self.smi("query", "--csv")
            self.assertEqual(code, 0, err)
            (row,) = csv.DictReader(io.StringIO(out))
            self.assertEqual((row["uuid"], row["state"]), (device["uuid"], "ok"))
            self.assertAlmostEqual(float(row["energy_j"]), device["energy"]["j"], places=3)

            code, out, err = self.smi()
            self.assertEqual(code, 0, err)
            for word in ("EMULATED", "modelled", "package scope", "jal-llm", device["uuid"][:8]):
                self.assertIn(word, out)
            self.assertEqual(self.smi("-i", device["uuid"][:8], "list")[0], 0)
            self.assertNotEqual(self.smi("-i", "ffffffff", "list")[0], 0)
        finally:
            stop()
        self.assertEqual(self.smi()[0], NO_INSTANCE, "the instance went with its program")

    def test_without_an_instance(self):
        code, out, err = self.smi()
        self.assertEqual((code, out), (NO_INSTANCE, ""))
        self.assertIn("no running instance", err)
        self.assertIn(str(self.folder / "run"), err)
        code, out, _ = self.smi("query", "--json")
        self.assertEqual((code, json.loads(out)["instances"]), (NO_INSTANCE, []))

    def test_a_killed_program_is_shown_dead_until_the_next_one_starts(self):
        process, _ = self.start_chat()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        code, out, err = self.smi("list")
        self.assertIn(" dead", out, err)
        _, stop = self.start_chat()
        code, out, err = self.smi("list")
        stop()
        self.assertEqual((code, len(out.splitlines())), (0, 1), out + err)
        self.assertIn(" ok", out)


if __name__ == "__main__":
    unittest.main()
