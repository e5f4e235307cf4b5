"""Every tensor type of the C++ reader against PyPI `gguf`, bit for bit, on a generated model; and the numpy model runs on that file."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import gguf
    import numpy as np

    import llama_numpy
except ImportError as error:
    print(f"skipped: {error}; ./x setup brings the package")
    sys.exit(77)

TOOL = pathlib.Path(os.environ["JAL_BUILD_DIR"]) / "tests/tiny_gguf"


class GgufTypes(unittest.TestCase):
    def test_rows_equal_those_of_the_independent_reader(self):
        seen = set()
        with tempfile.TemporaryDirectory() as folder:
            for seed, kind in enumerate(("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "MXFP4"), 1):
                path = f"{folder}/{kind}.gguf"
                subprocess.run([TOOL, "write", path, kind, str(seed)], check=True)
                for tensor in gguf.GGUFReader(path).tensors:
                    expected = np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
                    found = np.frombuffer(subprocess.run([TOOL, "rows", path, tensor.name], check=True, stdout=subprocess.PIPE).stdout, np.float32)
                    if tensor.tensor_type.name == "MXFP4":
                        # Code 8 is -0 by the OCP specification; PyPI gguf decodes through integers, which have one zero.
                        found = found + np.float32(0)
                    self.assertTrue(found.tobytes() == expected.tobytes(), f"{kind} {tensor.name}, seed {seed}")
                    seen.add(tensor.tensor_type.name)
        self.assertEqual(seen, {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "MXFP4"})

    def test_numpy_model_runs_on_the_tiny_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/tiny.gguf"
            subprocess.run([TOOL, "write", path, "Q4_1", "3"], check=True)
            for weights in ("file", "bf16", "mxfp8", "mxfp4"):
                model = llama_numpy.Llama(path, weights)
                model.start()
                logits = model.forward([1, 70, 80, 299])
                self.assertEqual(logits.shape, (4, 300))
                self.assertTrue(np.isfinite(logits).all())
                self.assertGreater(float(logits.std()), 0.1)


if __name__ == "__main__":
    unittest.main()
