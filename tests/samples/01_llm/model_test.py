"""jal-llm with the real model against the numpy reference (tests/reference): logits of BF16, teacher-forced; perplexity of the three weight
formats; the answer. Exit 77 when the model or a package is missing."""

import json
import pathlib
import subprocess
import sys
import unittest

REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "reference"
sys.path.insert(0, str(REFERENCE))
try:
    import numpy as np
    import tokenize_reference
except ImportError as error:
    print(f"skipped: {error}; ./x setup brings the package")
    sys.exit(77)
from llm_program import LlmTest, figures

MODEL = tokenize_reference.cached_model()
if MODEL is None:
    print("skipped: the model is not in the cache and could not be fetched; tools/dev/fetch_model.py says why")
    sys.exit(77)
TOP1_AGREEMENT = 0.99
PERPLEXITY_TOLERANCE = 0.01


class ModelTest(LlmTest):
    def test_logits_agree_with_numpy(self):
        sequences = json.loads((REFERENCE / "teacher_sequences.json").read_text())
        self.assertGreaterEqual(len(sequences), 10)
        path = self.folder / "reference.npy"
        subprocess.run([sys.executable, REFERENCE / "llama_numpy.py", "logits", "--sequences", REFERENCE / "teacher_sequences.json",
                        "--weights", "bf16", "--out", path], check=True, capture_output=True, timeout=500)
        expected = np.load(path)
        vocabulary = expected.shape[1]
        rows = []
        for sequence in sequences:
            prompt, answer = sequence["prompt_token_ids"], sequence["token_ids"]
            self.assertGreaterEqual(len(answer), 64)
            content = np.frombuffer(self.logits(MODEL, prompt + answer[:-1], vocabulary), np.float32).reshape(-1, vocabulary)
            rows.append(content[len(prompt) - 1:])
        got = np.concatenate(rows)
        self.assertEqual(got.shape, expected.shape)
        difference = float(np.abs(got - expected).max())
        agree = got.argmax(axis=1) == expected.argmax(axis=1)
        print(f"logits: {len(agree)} tokens of {len(sequences)} prompts, top-1 agreement {agree.mean():.4%}, largest difference {difference:.3g}, "
              f"of logits between {expected.min():.3g} and {expected.max():.3g}")
        for row in np.flatnonzero(~agree):
            first, second = np.sort(expected[row])[[-1, -2]]
            print(f"  token {row}: reference {expected[row].argmax()}, chip {got[row].argmax()}, margin {first - second:.3g}")
            margin = float(expected[row].max() - expected[row][got[row].argmax()])
            self.assertLess(margin, 2 * difference, "a disagreement that is no near-tie")
        self.assertGreaterEqual(float(agree.mean()), TOP1_AGREEMENT)
        # Both compute in FP32; the order of additions differs, which now and then rounds a key or a value to the other BF16 neighbour.
        self.assertLess(difference, 0.01 * (expected.max() - expected.min()))

    def test_perplexity_of_each_weight_format(self):
        expected = json.loads((REFERENCE / "perplexity_expected.json").read_text())
        for weights, reference in expected["perplexity"].items():
            code, out, err = self.llm(MODEL, "--weights", weights, "--perplexity", REFERENCE / "text" / expected["text"])
            self.assertEqual(code, 0, err)
            got = json.loads(out)
            self.assertEqual(got["tokens"], expected["tokens"])
            print(f"perplexity over {got['tokens']} tokens, {weights}: {got['perplexity']:.4f}, numpy {reference:.4f}")
            self.assertAlmostEqual(got["perplexity"] / reference, 1, delta=PERPLEXITY_TOLERANCE, msg=weights)

    def test_it_answers(self):
        document = self.document(MODEL, "--prompt", "What is the capital of France?")
        self.assertEqual((document["text"], document["stop"]), ("The capital of France is Paris.", "eos"))
        known = figures(document)
        self.assertEqual(known["hbm_bytes_remote"]["value"], 0)
        # One pass over all weights is what a token reads at least.
        self.assertGreater(known["hbm_bytes_local"]["value"] / len(document["token_ids"]), 200e6)

    def test_one_flipped_byte_is_found(self):
        content = bytearray(pathlib.Path(MODEL).read_bytes())
        content[len(content) // 3] ^= 0x10
        damaged = self.folder / pathlib.Path(MODEL).name
        damaged.write_bytes(content)
        code, out, err = self.llm(damaged)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("SHA-256", err)


if __name__ == "__main__":
    unittest.main()
