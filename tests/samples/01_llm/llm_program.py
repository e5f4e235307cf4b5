"""Runs jal-llm in a folder of its own: caches, runtime directory and files of a test leave nothing behind."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["JAL_BUILD_DIR"])
PROGRAM = BUILD / "bin/jal-llm"


class LlmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="jal-llm-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)

    def start(self, model, *words, **environment):
        environment = {**os.environ, "JAL_RUNTIME_DIR": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache"), **environment}
        return subprocess.Popen([PROGRAM, "--model", model, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.PIPE, env=environment)

    def llm(self, model, *words, stdin="", **environment):
        """Exit code, stdout and stderr as text."""
        process = self.start(model, *words, **environment)
        out, err = process.communicate(stdin.encode(), timeout=300)
        return process.returncode, out.decode(), err.decode()

    def document(self, model, *words, **environment):
        code, out, err = self.llm(model, "--json", *words, **environment)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def logits(self, model, ids, vocabulary, *words, **environment):
        """FP32 [ids][vocabulary] as bytes."""
        path = self.folder / "logits.f32"
        code, out, err = self.llm(model, "--logits-out", path, "--ids", ",".join(map(str, ids)), *words, **environment)
        self.assertEqual((code, out), (0, ""), err)
        content = path.read_bytes()
        path.unlink()
        self.assertEqual(len(content), len(ids) * vocabulary * 4)
        return content


def figures(document):
    return {figure["name"]: figure for figure in document["figures"]}
