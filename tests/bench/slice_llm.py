#!/usr/bin/env python3
"""The demo's model through jal-llm and through llama.cpp, by turns, each run in a process of its own: decode and prefill, tokens per second.

decode_F: value tokens/s; the reference is what this run's two-thread read bandwidth allows: bandwidth / bytes of weights that one decode
step reads (linear layers in format F, the head in BF16). prefill_F: a prompt of 512 tokens. Beside each line NAME: NAME.llama_cpp, the
peer with the same weights (mxfp8: Q8_0, the nearest it has), and NAME.vs_llama_cpp, the median of the quotients of neighbouring runs.
decode_file.llama_cpp is the peer on the model's own file. Without xllamacpp these lines say "skipped". Progress goes to stderr."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("JAL_BUILD_DIR", "build/release")
sys.path.insert(0, str(ROOT / "tests/bench/slice"))
SKIPPED = 77

FORMATS = ("bf16", "mxfp8", "mxfp4")
PEER_FORMAT = {"bf16": "bf16", "mxfp8": "q8_0", "mxfp4": "mxfp4"}
BYTES_PER_WEIGHT = {"bf16": 2, "mxfp8": 33 / 32, "mxfp4": 17 / 32, "q8_0": 34 / 32}
QUESTION = "Write a long story about a lighthouse keeper and the sea."
DECODE_TOKENS = 64
DECODE_ROUNDS = 5
PREFILL_TOKENS = 512
PREFILL_ROUNDS = 3
BUSY_LOAD = 0.7


def decode_goal(name, isa):
    """Share of the bandwidth's limit. MXFP4 has to be expanded: wide vectors do it faster."""
    return 0.4 if name == "mxfp4" and not isa.startswith("avx512") else 0.6


def say(text):
    print(f"slice: {text}", file=sys.stderr, flush=True)


def output(command, given=None):
    """stdout of a program that must succeed; its stderr is shown only if it does not."""
    done = subprocess.run([str(c) for c in command], input=given, capture_output=True, text=True, cwd=ROOT)
    if done.returncode not in (0, SKIPPED):
        raise RuntimeError(f"{pathlib.Path(str(command[0])).name} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.returncode, done.stdout


def machine():
    return json.loads(output([BUILD / "bin/bench_machine", "--json"])[1].splitlines()[-1])


class Engines:
    def __init__(self, model):
        self.model = model
        self.peer_missing = ""

    def jal(self, weights, prompt, tokens):
        _, text = output([BUILD / "bin/jal-llm", "--model", self.model, "--json", "--ignore-eos", "--weights", weights, "--max-tokens", tokens,
                          "--prompt", prompt])
        document = json.loads(text)
        if len(document["token_ids"]) != tokens:
            raise RuntimeError(f"jal-llm gave {len(document['token_ids'])} tokens, asked for {tokens}")
        figures = {f["name"]: f["value"] for f in document["figures"]}
        return document["prompt_token_ids"], figures["prompt_tokens_per_s"], figures["generated_tokens_per_s"]

    def llama(self, path, prompt_ids, tokens):
        """(prompt tokens/s, generated tokens/s), or None when there is no peer."""
        if self.peer_missing:
            return None
        status, text = output([sys.executable, ROOT / "tests/bench/slice/llama_peer.py", path, tokens], json.dumps(prompt_ids))
        if status == SKIPPED:
            self.peer_missing = "xllamacpp is not installed; ./x setup brings it"
            say(f"llama.cpp is left out: {self.peer_missing}")
            return None
        timings = json.loads(text.splitlines()[-1])
        return timings["prompt_per_second"], timings["predicted_per_second"]

    def peer_file(self, weights):
        if self.peer_missing:
            return None
        try:
            import peer_models
            return peer_models.peer_model(self.model, PEER_FORMAT[weights])
        except ImportError as error:
            self.peer_missing = f"{error}; ./x setup brings the package"
            say(f"llama.cpp is left out: {self.peer_missing}")
            return None


def model_weights(path):
    """Weights of the linear layers and of the head, counted in the file; bytes of the file's own linear layers and head."""
    import gguf
    linear = head = own_bytes = 0
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    head_name = "output.weight" if "output.weight" in tensors else "token_embd.weight"
    for name, tensor in tensors.items():
        if len(tensor.shape) < 2 or (name == "token_embd.weight" and head_name != name):
            continue
        own_bytes += tensor.n_bytes
        if name == head_name:
            head += tensor.n_elements
        else:
            linear += tensor.n_elements
    return linear, head, int(own_bytes)


def record(case, values, placement, unit="tok/s", reference=None, goal=None):
    line = {"bench": "slice", "case": case, "value": statistics.median(values), "unit": unit, "better": "higher", "kind": "measured",
            "n": len(values)}
    judged = line["value"]
    if reference:
        line["reference"] = {"name": reference[0], "value": reference[1]}
        judged = line["ratio"] = line["value"] / reference[1]
    if goal is not None:
        line["goal"] = {"op": ">=", "value": goal}
        line["met"] = judged >= goal
    line["placement"] = placement
    print(json.dumps(line), flush=True)


def skipped(case, why):
    print(json.dumps({"bench": "slice", "case": case, "skipped": why}), flush=True)


def report(name, ours, peers, placement, engines, limit=None, peer_limit=None, goal=None):
    """One case: our line, the peer's, and ours over the peer's. The limits are (name, tokens/s)."""
    record(name, ours, placement, reference=limit, goal=goal)
    if engines.peer_missing or not peers:
        skipped(f"{name}.llama_cpp", engines.peer_missing)
        return
    record(f"{name}.llama_cpp", peers, placement, reference=peer_limit)
    record(f"{name}.vs_llama_cpp", [a / b for a, b in zip(ours, peers)], placement, unit="x")


def placement_of(machines):
    return statistics.mode(m["placement"] for m in machines)


def bandwidth_limit(machines, bytes_per_token):
    gbps = statistics.median(m["read_gbps_2t"] or m["read_gbps_1t"] for m in machines)
    return "read bandwidth of this run / bytes per token", gbps * 1e9 / bytes_per_token


def bench_decode(engines, names):
    linear, head, own_bytes = model_weights(engines.model)
    bytes_of = {name: linear * each + head * 2 for name, each in BYTES_PER_WEIGHT.items()}
    for name in names:
        peer_file = engines.peer_file(name)
        ours, peers, machines = [], [], []
        for i in range(DECODE_ROUNDS):
            say(f"decode {name}: round {i + 1} of {DECODE_ROUNDS}")
            machines.append(machine())
            ids, _, rate = engines.jal(name, QUESTION, DECODE_TOKENS)
            ours.append(rate)
            machines.append(machine())
            peer = engines.llama(peer_file, ids, DECODE_TOKENS)
            if peer:
                peers.append(peer[1])
        report(f"decode_{name}", ours, peers, placement_of(machines), engines, bandwidth_limit(machines, bytes_of[name]),
               bandwidth_limit(machines, bytes_of[PEER_FORMAT[name]]), decode_goal(name, machines[0]["isa"]))
    if engines.peer_missing:
        skipped("decode_file.llama_cpp", engines.peer_missing)
        return
    peers, machines = [], []
    for i in range(PREFILL_ROUNDS):
        say(f"decode of the file itself with llama.cpp: round {i + 1} of {PREFILL_ROUNDS}")
        machines.append(machine())
        peers.append(engines.llama(engines.model, list(range(64, 96)), DECODE_TOKENS)[1])
    record("decode_file.llama_cpp", peers, placement_of(machines), reference=bandwidth_limit(machines, own_bytes))


def prompt_of(engines, tokens):
    """A prompt that is `tokens` long with the chat template around it; its ids."""
    words = tokens // 2
    for _ in range(8):
        ids, _, _ = engines.jal("bf16", " ".join(["sea"] * words), 1)
        if len(ids) == tokens:
            return " ".join(["sea"] * words), ids
        words += tokens - len(ids)
    raise RuntimeError(f"no prompt of {tokens} tokens found; the last one had {len(ids)}")


def bench_prefill(engines, names):
    prompt, ids = prompt_of(engines, PREFILL_TOKENS)
    for name in names:
        peer_file = engines.peer_file(name)
        ours, peers, machines = [], [], []
        for i in range(PREFILL_ROUNDS):
            say(f"prefill {name}: round {i + 1} of {PREFILL_ROUNDS}")
            machines.append(machine())
            ours.append(engines.jal(name, prompt, 1)[1])
            peer = engines.llama(peer_file, ids, 1)
            if peer:
                peers.append(peer[0])
        report(f"prefill_{name}", ours, peers, placement_of(machines), engines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="lines are JSON always; ./x bench makes the table")
    parser.add_argument("--only", default="", help="cases whose name begins with this: decode, prefill, decode_bf16 ...")
    only = parser.parse_args().only
    found = subprocess.run([sys.executable, str(ROOT / "tools/dev/fetch_model.py")], stdout=subprocess.PIPE, text=True)
    if found.returncode:
        print("slice: the model is not there, see the lines above", file=sys.stderr)
        return 2
    engines = Engines(found.stdout.strip())
    busy = os.getloadavg()[0]
    if busy > BUSY_LOAD:
        say(f"the machine is busy (load {busy:.1f}): llama.cpp's threads spin at barriers and lose far more by that than jal-llm does")
    try:
        for kind, bench in (("decode", bench_decode), ("prefill", bench_prefill)):
            names = [name for name in FORMATS if f"{kind}_{name}".startswith(only)]
            if names:
                bench(engines, names)
    except ImportError as error:
        print(f"slice: {error}; ./x setup brings the package", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"slice: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
