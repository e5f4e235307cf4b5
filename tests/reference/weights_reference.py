"""SHA-256 of some matrices of the real model in the chip's weight formats, made with numpy: what samples/01_llm must produce, bit for bit.

--write renews weights_expected.json, --check compares with it. Per entry: codes and scales of all rows, one after another, as
samples/01_llm/quantize.hpp lays them out. Exit 77 when the model or a package is missing."""

import argparse
import hashlib
import json
import pathlib
import sys

import tokenize_reference

EXPECTED = pathlib.Path(__file__).with_name("weights_expected.json")
MATRICES = ("token_embd.weight", "blk.0.attn_q.weight", "blk.7.attn_v.weight", "blk.17.ffn_down.weight", "blk.29.ffn_gate.weight")


def digest(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


def hashes(model):
    import gguf
    import llama_numpy
    out = {}
    for tensor in gguf.GGUFReader(model).tensors:
        if tensor.name not in MATRICES:
            continue
        rows = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        entry = {"f32": digest(rows), "bf16": digest((llama_numpy.round_bf16(rows).view("uint32") >> 16).astype("uint16"))}
        if tensor.name != "token_embd.weight":
            for name in llama_numpy.MX_FORMATS:
                codes, scales = llama_numpy.mx_codes(rows, name)
                entry[name], entry[name + "_scales"] = digest(codes), digest(scales)
        out[tensor.name] = entry
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    model = tokenize_reference.cached_model()
    if model is None:
        print("skipped: the real model is not there; tools/dev/fetch_model.py brings it")
        return 77
    try:
        found = hashes(model)
    except ImportError as error:
        print(f"skipped: {error}; ./x setup brings the package")
        return 77
    text = json.dumps(found, indent=1) + "\n"
    if args.write:
        EXPECTED.write_text(text, encoding="ascii")
    elif args.check:
        same = EXPECTED.read_text(encoding="ascii") == text
        print(f"{len(found)} matrices " + ("agree" if same else f"differ from {EXPECTED.name}:\n{text}"))
        return 0 if same and len(found) == len(MATRICES) else 1
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
