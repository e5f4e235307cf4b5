"""samples/00_hello prints what its expected output says, in C and in C++, on chips of 64 and of 48 cores; and what it shows on the
way (the kernel's own line, a trace, a mistake's message) is there."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["JAL_BUILD_DIR"])
SAMPLE = pathlib.Path(__file__).resolve().parents[3] / "samples/00_hello"
KERNEL = BUILD / "share/jal/samples/axpy.jko"


class HelloTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def hello(self, program, kernel=KERNEL, **environment):
        done = subprocess.run([BUILD / "bin" / program, kernel], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "JAL_RUNTIME_DIR": self.folder.name, **environment})
        return done.returncode, re.sub(r"\d+\.\d{3} us", "#.### us", done.stdout), done.stderr

    def test_both_programs_print_the_expected_output(self):
        expected = (SAMPLE / "expected_output.txt").read_text()
        for program in ("hello_c", "hello_cpp"):
            code, output, words = self.hello(program, JAL_MODEL="jal1-a0")
            self.assertEqual((code, output), (0, expected), program)
            self.assertEqual(words, "device 0 core 0: axpy on 64 cores, 16 elements here\n")

    def test_a_chip_of_48_cores_gives_the_same_numbers(self):
        code, output, words = self.hello("hello_c", JAL_MODEL="jal1-48")
        self.assertEqual(code, 0)
        self.assertIn("jal1-48: 48 cores", output)
        self.assertIn("y[1] = 3, y[999] = 2997, 0 wrong", output)
        self.assertIn("axpy on 48 cores, 21 elements here", words)

    def test_modelled_time_does_not_depend_on_threads_or_sanitizer(self):
        times = {subprocess.run([BUILD / "bin/hello_c", KERNEL], capture_output=True, text=True, timeout=60,
                                env={**os.environ, "JAL_RUNTIME_DIR": self.folder.name, "JAL_WORKERS": workers,
                                     "JAL_SANITIZE": checks}).stdout
                 for workers in ("1", "2") for checks in ("memory", "memory,init,race")}
        self.assertEqual(len(times), 1, times)
        self.assertIn("0 wrong", times.pop())

    def test_a_missing_or_damaged_kernel_file_is_named(self):
        for program in ("hello_c", "hello_cpp"):
            code, _, words = self.hello(program, kernel="/nonexistent.jko")
            self.assertEqual(code, 1)
            self.assertIn("FILE_NOT_FOUND", words)
            self.assertIn("/nonexistent.jko", words)
            damaged = pathlib.Path(self.folder.name) / "damaged.jko"
            content = bytearray(KERNEL.read_bytes())
            content[len(content) // 2] ^= 1
            damaged.write_bytes(content)
            code, _, words = self.hello(program, kernel=damaged)
            self.assertEqual(code, 1)
            self.assertIn("BAD_MODULE", words)
            self.assertIn("damaged", words)

    def test_a_trace_has_the_kernel_on_every_core_and_the_copies(self):
        try:
            from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
        except ImportError:
            self.skipTest("the Python package perfetto is not installed (./x setup)")
        path = pathlib.Path(self.folder.name) / "trace"
        self.assertEqual(self.hello("hello_cpp", JAL_TRACE=str(path), JAL_MODEL="jal1-a0")[0], 0)
        trace = Trace.FromString(path.read_bytes())
        tracks = {p.track_descriptor.uuid: p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
        begins = [p for p in trace.packet if p.HasField("track_event") and p.track_event.categories]
        kernels = {tracks[p.track_event.track_uuid] for p in begins if p.track_event.name == "axpy"}
        self.assertEqual(kernels, {f"core {n}" for n in range(64)})
        self.assertIn("copies", {tracks[p.track_event.track_uuid] for p in begins})
        self.assertIn("device 0 (virtual)", tracks.values())


if __name__ == "__main__":
    sys.exit(unittest.main())
