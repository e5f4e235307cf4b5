"""Tests of the reference itself: its quantisers by brute force, its cache against one batch, and with the real model the perplexities and
the answer known from an earlier, separate implementation. Exit 77 when the model or a package is missing (after the tests that need none)."""

import json
import pathlib
import sys
import unittest

try:
    import numpy as np

    import llama_numpy
    import tokenize_reference
except ImportError as error:
    print(f"skipped: {error}; ./x setup brings the package")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
MODEL = tokenize_reference.cached_model()
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E4M3 = [m * 2.0**-9 for m in range(8)] + [(8 + m) * 2.0**(e - 10) for e in range(1, 16) for m in range(8)][:-1]


def nearest(value, table):
    """Index of the nearest entry, the even one at a tie."""
    distance = [abs(abs(value) - entry) for entry in table]
    best = min(distance)
    ties = [i for i, d in enumerate(distance) if d == best]
    return ties[0] if len(ties) == 1 else next(i for i in ties if i % 2 == 0)


class Quantisers(unittest.TestCase):
    def test_codes_are_the_nearest_table_entries(self):
        draw = np.random.default_rng(1)
        rows = draw.standard_normal((20, 70)).astype(np.float32)
        rows[1] = draw.integers(-24, 25, 70) / 4  # ties
        rows[2] = 0
        for name, table in (("mxfp8", E4M3), ("mxfp4", E2M1)):
            codes, scales = llama_numpy.mx_codes(rows, name)
            if name == "mxfp4":
                codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(rows), -1)
            decoded = llama_numpy.quantise_mx(rows, name)
            for r, row in enumerate(rows):
                for b in range(3):
                    amax = max(abs(row[b * 32:b * 32 + 32].astype(float)))
                    scale = 2.0 ** (int(scales[r, b]) - 127)
                    if amax == 0:
                        self.assertEqual(scales[r, b], 0)
                        continue
                    self.assertLessEqual(amax, table[-1] * scale)
                    self.assertGreater(amax, table[-1] * scale / 2)
                for i, x in enumerate(row.astype(float)):
                    scale = 2.0 ** (int(scales[r, i // 32]) - 127)
                    code = nearest(x / scale, table)
                    self.assertEqual(codes[r, i] & (0x7F if name == "mxfp8" else 7), code, (name, r, i, x))
                    self.assertEqual(abs(decoded[r, i]), table[code] * scale)

    def test_bf16_rounds_to_nearest_even(self):
        for value, expected in ((1.0, 1.0), (1 + 2**-8, 1.0), (1 + 3 * 2**-8, 1 + 2**-6), (1 + 2**-8 + 2**-20, 1 + 2**-7), (-3.14159274, -3.140625)):
            self.assertEqual(llama_numpy.round_bf16(np.array([value], np.float32))[0], expected)


@unittest.skipIf(MODEL is None, "the real model is not there; tools/dev/fetch_model.py brings it")
class RealModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.chat = llama_numpy.Chat(MODEL)

    def test_perplexities_are_the_known_ones(self):
        paragraphs = (HERE / "text/public_domain.txt").read_text(encoding="utf-8").split("\n\n")
        ids = self.chat.text_ids(f"{paragraphs[0]} {paragraphs[1]}\n")
        self.assertEqual(len(ids), 117)
        for weights, known in (("file", 12.97), ("bf16", 12.98), ("mxfp8", 12.63), ("mxfp4", 27.59)):
            found = llama_numpy.Llama(MODEL, weights, "f32").perplexity(ids)
            print(f"{weights}: perplexity {found:.3f}, known {known}")
            self.assertAlmostEqual(found / known, 1, delta=0.002)

    def test_answer_and_cache(self):
        model = llama_numpy.Llama(MODEL, "bf16")
        prompt = self.chat.prompt_ids("What is the capital of France?")
        answer, stop = model.greedy(prompt, 20)
        self.assertEqual((self.chat.decode(answer), stop), ("The capital of France is Paris.", "eos"))
        # One batch and token by token are the same model. (A KV cache in BF16 would turn the last bits of float32 into larger steps.)
        model.kv = "f32"
        batch = model.teacher_forced(prompt, answer)
        self.assertEqual([int(row.argmax()) for row in batch], answer)
        model.start()
        steps = [model.forward(prompt)[-1]] + [model.forward([token])[-1] for token in answer[:-1]]
        np.testing.assert_allclose(np.array(steps), batch, atol=2e-3)

    def test_checked_in_sequences_are_greedy(self):
        sequences = json.loads((HERE / "teacher_sequences.json").read_text(encoding="utf-8"))
        prompts = json.loads((HERE / "prompts.json").read_text(encoding="utf-8"))
        self.assertEqual([s["prompt"] for s in sequences], prompts)
        self.assertGreaterEqual(sum(len(s["token_ids"]) >= 64 for s in sequences), 10)
        model = llama_numpy.Llama(MODEL, "bf16")
        for s in sequences[:3]:
            self.assertEqual(self.chat.prompt_ids(s["prompt"]), s["prompt_token_ids"])
            logits = model.teacher_forced(s["prompt_token_ids"], s["token_ids"])
            chosen = logits[np.arange(len(logits)), s["token_ids"]]
            # Another BLAS may turn a near tie.
            self.assertLess(float((logits.max(axis=1) - chosen).max()), 0.05)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if MODEL is None else 0)
