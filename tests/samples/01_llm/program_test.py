"""jal-llm with a generated tiny model: its output, its document, interrupts, turns, and every mistake a user can make."""

import array
import json
import re
import signal
import subprocess
import unittest

from llm_program import BUILD, LlmTest, figures

PROMPT = "hello there"


class ProgramTest(LlmTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "tiny.gguf"
        subprocess.run([BUILD / "tests/tiny_gguf", "write", cls.model], check=True, capture_output=True)

    # --- what it prints

    def test_the_answer_goes_to_stdout_and_the_report_to_stderr(self):
        code, out, err = self.llm(self.model, "--prompt", PROMPT, "--max-tokens", 6, "--ignore-eos")
        self.assertEqual(code, 0, err)
        self.assertNotIn("token/s", out)
        self.assertRegex(err, r"generated_tokens_per_s +[0-9.e+]+ token/s +measured \(host\)")
        self.assertRegex(err, r"chip_time_per_token_us +[0-9.e+]+ us +modelled \(device\)")
        self.assertRegex(err, r"joules_per_token.hbm +[0-9.e+-]+ J/token +modelled \(package\)")
        document = self.document(self.model, "--prompt", PROMPT, "--max-tokens", 6, "--ignore-eos")
        self.assertEqual(out, document["text"] + "\n")

    def test_the_document_is_jal_demo_1(self):
        code, out, err = self.llm(self.model, "--json", "--prompt", PROMPT, "--max-tokens", 7, "--ignore-eos")
        self.assertEqual(code, 0, err)
        document = json.loads(out)
        self.assertEqual(list(document), ["schema", "model", "weights", "prompt", "prompt_token_ids", "token_ids", "text", "stop", "figures"])
        self.assertEqual((document["schema"], document["weights"], document["prompt"], document["stop"]), ("jal.demo/1", "bf16", PROMPT, "length"))
        self.assertEqual(len(document["token_ids"]), 7)
        self.assertTrue(all(isinstance(token, int) for token in document["prompt_token_ids"] + document["token_ids"]))
        names = [figure["name"] for figure in document["figures"]]
        self.assertEqual(len(names), len(set(names)), "a name stands for one figure")
        for figure in document["figures"]:
            self.assertEqual(list(figure), ["name", "value", "unit", "kind", "scope"])
            self.assertIn(figure["kind"], ("measured", "modelled"))
        known = figures(document)
        self.assertEqual(known["tokens.prefill"]["value"], len(document["prompt_token_ids"]))
        self.assertEqual(known["tokens.verify_decode"]["value"], 6)
        self.assertEqual(known["hbm_bytes_remote"]["value"], 0, "KV and weights stay in their slices")
        self.assertGreater(known["hbm_bytes_local"]["value"], 0)
        units = sum(f["value"] for n, f in known.items() if n.startswith("joules_per_token."))
        self.assertAlmostEqual(units / known["joules_per_token"]["value"], 1, delta=0.02)

    def test_a_seed_gives_the_same_answer_again(self):
        def sampled(seed):
            return self.document(self.model, "--prompt", PROMPT, "--max-tokens", 24, "--ignore-eos", "--temperature", 2, "--seed", seed)["token_ids"]
        self.assertEqual(sampled(5), sampled(5))
        self.assertNotEqual(sampled(5), sampled(6))

    # --- right answers

    def test_chips_and_threads_give_equal_bits(self):
        ids = [1, 40, 7, 99, 12, 55, 200, 3, 3, 17, 80, 141, 9, 2, 31, 77, 64, 65, 66, 67, 68, 250, 251, 252, 253, 11, 10, 9, 8]
        for weights in ("bf16", "mxfp8", "mxfp4"):
            vocabulary = self.vocabulary()
            expected = self.logits(self.model, ids, vocabulary, "--weights", weights, JAL_MODEL="jal1-a0", JAL_WORKERS="1")
            for chip, workers, isa in (("jal1-a0", "2", ""), ("jal1-48", "2", ""), ("jal-test4", "1", "avx2"), ("jal-test4", "2", "scalar")):
                environment = {"JAL_MODEL": chip, "JAL_WORKERS": workers, **({"JAL_ISA": isa} if isa else {})}
                self.assertEqual(self.logits(self.model, ids, vocabulary, "--weights", weights, **environment), expected, (weights, chip, workers, isa))
            # Under every sanitizer: no finding, no other bits.
            checked = self.logits(self.model, ids, vocabulary, "--weights", weights, JAL_SANITIZE="memory,init,race,locality")
            self.assertEqual(checked, expected, weights)

    def test_modelled_figures_do_not_depend_on_threads(self):
        def modelled(workers):
            document = self.document(self.model, "--prompt", PROMPT, "--max-tokens", 5, "--ignore-eos", JAL_WORKERS=workers)
            return {name: figure["value"] for name, figure in figures(document).items() if figure["kind"] == "modelled"}
        self.assertEqual(modelled("1"), modelled("2"))

    def test_feeding_token_by_token_equals_the_prompt_at_once(self):
        document = self.document(self.model, "--prompt", PROMPT, "--max-tokens", 12, "--ignore-eos")
        ids = document["prompt_token_ids"] + document["token_ids"]
        vocabulary = self.vocabulary()
        rows = array.array("f", self.logits(self.model, ids, vocabulary))
        first = len(document["prompt_token_ids"]) - 1
        for i, token in enumerate(document["token_ids"]):
            row = rows[(first + i) * vocabulary:(first + i + 1) * vocabulary]
            self.assertEqual(token, max(range(vocabulary), key=lambda v: (row[v], -v)), i)

    def vocabulary(self):
        code, _, err = self.llm(self.model, "--logits-out", "x", "--ids", "999999")
        self.assertEqual(code, 1)
        return int(re.search(r"token id 999999: the vocabulary has (\d+)", err).group(1))

    # --- turns and interrupts

    def test_turns_continue_the_conversation(self):
        code, out, err = self.llm(self.model, "--chat", "--max-tokens", 5, "--ignore-eos", stdin="one\n\ntwo\nthree\n")
        self.assertEqual(code, 0, err)
        once = self.llm(self.model, "--chat", "--max-tokens", 5, "--ignore-eos", stdin="one\n")[1]
        self.assertTrue(out.startswith(once), (out, once))
        self.assertGreater(len(out), len(once))

    def test_ctrl_c_keeps_what_was_generated(self):
        process = self.start(self.model, "--prompt", PROMPT, "--max-tokens", 100000, "--context", 100000, "--ignore-eos")
        self.assertTrue(process.stdout.read(1))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"generated_tokens_per_s", err)

    # --- mistakes

    def fails(self, code, words, model, *options, **environment):
        got, out, err = self.llm(model, *options, **environment)
        self.assertEqual((got, out), (code, ""), err)
        for word in words:
            self.assertIn(word, err)
        self.assertLess(len(err.splitlines()), 6, err)

    def test_wrong_usage(self):
        self.fails(2, ["--model"], self.folder / "none.gguf")
        self.fails(2, ["--weights", "mxfp4"], self.model, "--weights", "int4")
        self.fails(2, ["--max-tokens"], self.model, "--max-tokens", "0")
        self.fails(2, ["--nonsense"], self.model, "--nonsense")

    def test_damaged_files(self):
        content = self.model.read_bytes()
        broken = self.folder / "broken.gguf"
        for size in (0, 3, 23, 24, 100, len(content) // 2, len(content) - 1):
            broken.write_bytes(content[:size])
            self.fails(1, [str(broken)], broken)
        broken.write_bytes(b"GGML" + content[4:])
        self.fails(1, [str(broken), "GGUF"], broken)
        broken.write_bytes(content.replace(b"blk.0.ffn_up.weight", b"blk.0.ffn_xx.weight"))
        self.fails(1, ["blk.0.ffn_up.weight"], broken)

    def test_a_prompt_longer_than_the_context(self):
        self.fails(1, ["the context holds 32", "--context"], self.model, "--context", 32, "--prompt", "word " * 40)

    def test_too_little_host_memory(self):
        self.fails(1, ["HOST_BUDGET"], self.model, JAL_HOST_BUDGET="256K")

    def test_missing_or_damaged_kernels(self):
        self.fails(1, ["none.jko"], self.model, "--ops", self.folder / "none.jko")
        damaged = self.folder / "damaged.jko"
        content = bytearray((BUILD / "lib/jal/ops/ops_llama.jko").read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        self.fails(1, ["damaged.jko"], self.model, "--ops", damaged)

    def test_an_unknown_chip(self):
        self.fails(1, ["jal9"], self.model, JAL_MODEL="jal9")


if __name__ == "__main__":
    unittest.main()
