"""A Llama-architecture model in numpy, float32, straight from the textbook and a GGUF file: the reference for the SDK's answers.

Independent of the C++ sources: PyPI `gguf` decodes the file, PyPI `tokenizers` makes the ids, the quantisers below follow the OCP
specification's wording (by exponent and step, not by bit patterns). Embedding and head are rounded to BF16 always; the linear layers
as --weights says; everything else stays float32. Rope pairs (2i, 2i + 1): files of architecture `llama` are permuted for it.

  llama_numpy.py perplexity --text FILE [--tokens N]      perplexity of the text's first N tokens, as JSON
  llama_numpy.py greedy --prompts FILE.json --max-tokens N greedy answers through the chat template, as a JSON list
  llama_numpy.py logits --sequences FILE.json --out F.npy teacher-forced logits: for each {"prompt_token_ids", "token_ids"} the rows that
                                                          predict its token_ids, stacked [sum of len(token_ids), vocabulary] float32
Options: --model FILE (default: the cached one), --weights file|bf16|mxfp8|mxfp4, --kv bf16|f32. Exit 77: no model or package."""

import argparse
import functools
import json
import pathlib
import sys

import numpy as np

import tokenize_reference

MX_BLOCK = 32
# Name: largest value, its frexp mantissa and exponent, mantissa bits, smallest normal exponent.
MX_FORMATS = {"mxfp8": (448.0, 0.875, 9, 3, -6), "mxfp4": (6.0, 0.75, 3, 1, 0)}
DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def round_bf16(x):
    """To nearest even, as float32. Finite input."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


def mx_parts(x, name):
    """Scale exponents [rows, blocks] and scaled, rounded elements [rows, blocks * 32] of the rows of x, RCEIL. Finite input, no FP32
    denormals (float32 then holds every step exactly: only powers of two are multiplied). A block of zeros has the exponent -127."""
    _, top_mantissa, top_exponent, mantissa_bits, smallest = MX_FORMATS[name]
    rows, k = x.shape
    padded = np.zeros((rows, -(-k // MX_BLOCK) * MX_BLOCK), np.float32)
    padded[:, :k] = x
    blocks = padded.reshape(rows, -1, MX_BLOCK)
    mantissa, exponent = np.frexp(np.abs(blocks).max(axis=2))
    scale = exponent - top_exponent + (mantissa > top_mantissa)
    scale = np.where(mantissa == 0, -127, np.maximum(scale, -127))
    scaled = np.ldexp(blocks, -scale[:, :, None])
    exponent = np.maximum(np.frexp(scaled)[1] - 1, smallest) - mantissa_bits
    return scale, np.ldexp(np.rint(np.ldexp(scaled, -exponent)), exponent).reshape(rows, -1)


def quantise_mx(x, name):
    """Quantised and decoded again, float32."""
    scale, elements = mx_parts(x, name)
    return np.ldexp(elements.reshape(*scale.shape, MX_BLOCK), scale[:, :, None]).reshape(elements.shape)[:, :x.shape[1]]


def mx_codes(x, name):
    """Code and scale bytes as formats.md lays them out: MXFP4 two codes a byte, low nibble first."""
    _, _, _, mantissa_bits, smallest = MX_FORMATS[name]
    scale, elements = mx_parts(x, name)
    magnitude = np.abs(elements)
    field = np.where(magnitude == 0, smallest, np.maximum(np.frexp(magnitude)[1] - 1, smallest))
    # An element is field_value * 2^(field - mantissa_bits); subnormals have exponent field 0, normals an implicit one.
    significand = np.ldexp(magnitude, mantissa_bits - field).astype(np.int64)
    code = significand + ((field - smallest) << mantissa_bits)
    code = code | (np.signbit(elements).astype(np.int64) << (7 if name == "mxfp8" else 3))
    code = np.where(np.repeat(scale == -127, MX_BLOCK, axis=1) & (magnitude == 0), 0, code).astype(np.uint8)
    if name == "mxfp4":
        code = code[:, 0::2] | code[:, 1::2] << 4
    return code, (scale + 127).astype(np.uint8)


def convert(x, weights):
    if weights == "file":
        return x
    return round_bf16(x) if weights == "bf16" else quantise_mx(x, weights)


def rms_norm(x, gain, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32) + np.float32(eps)) * gain


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@functools.lru_cache(maxsize=1)
def decoded_tensors(path):
    import gguf
    return {t.name: np.asarray(gguf.quants.dequantize(t.data, t.tensor_type), np.float32) for t in gguf.GGUFReader(path).tensors}


class Llama:
    def __init__(self, path, weights="file", kv="bf16"):
        import gguf
        reader = gguf.GGUFReader(path)
        get = lambda key, default=None: reader.fields[key].contents() if key in reader.fields else default  # noqa: E731
        if get("general.architecture") != "llama":
            raise SystemExit(f"{path}: architecture {get('general.architecture')} has no reference here")
        self.layers = get("llama.block_count")
        self.heads = get("llama.attention.head_count")
        self.kv_heads = get("llama.attention.head_count_kv", self.heads)
        self.eps = get("llama.attention.layer_norm_rms_epsilon")
        self.base = get("llama.rope.freq_base", 10000.0)
        self.eos = get("tokenizer.ggml.eos_token_id")
        self.kv = kv
        tensors = decoded_tensors(path)
        self.embedding = round_bf16(tensors["token_embd.weight"])
        self.head = round_bf16(tensors["output.weight"]) if "output.weight" in tensors else self.embedding
        self.output_norm = tensors["output_norm.weight"]
        self.blocks = []
        for i in range(self.layers):
            names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
            block = {name: convert(tensors[f"blk.{i}.{name}.weight"], weights) for name in names}
            block |= {name: tensors[f"blk.{i}.{name}.weight"] for name in ("attn_norm", "ffn_norm")}
            self.blocks.append(block)
        self.head_dim = self.blocks[0]["attn_q"].shape[0] // self.heads
        self.cache = None

    def rope(self, x, positions):
        """x: [tokens, heads, head_dim], rotated in interleaved pairs. Angles in double: their cosines are then exact to float32."""
        frequency = self.base ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        angle = np.outer(positions, frequency)
        cos, sin = np.cos(angle).astype(np.float32)[:, None], np.sin(angle).astype(np.float32)[:, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)

    def attention(self, block, cache, x, positions):
        tokens = len(x)
        q = self.rope((x @ block["attn_q"].T).reshape(tokens, self.heads, self.head_dim), positions)
        k = self.rope((x @ block["attn_k"].T).reshape(tokens, self.kv_heads, self.head_dim), positions)
        v = (x @ block["attn_v"].T).reshape(tokens, self.kv_heads, self.head_dim)
        if self.kv == "bf16":
            k, v = round_bf16(k), round_bf16(v)
        cache["k"] = np.concatenate([cache["k"], k]) if "k" in cache else k
        cache["v"] = np.concatenate([cache["v"], v]) if "v" in cache else v
        share = self.heads // self.kv_heads
        out = np.empty((tokens, self.heads, self.head_dim), np.float32)
        hidden = np.arange(len(cache["k"]))[None, :] > positions[:, None]
        for h in range(self.heads):
            scores = q[:, h] @ cache["k"][:, h // share].T * np.float32(self.head_dim ** -0.5)
            scores[hidden] = -np.inf
            out[:, h] = softmax(scores) @ cache["v"][:, h // share]
        return out.reshape(tokens, -1) @ block["attn_output"].T

    def start(self):
        self.cache = [{} for _ in range(self.layers)]
        self.position = 0

    def forward(self, ids, last_only=False):
        """Logits [tokens, vocabulary] of ids that follow what was given since start()."""
        positions = np.arange(self.position, self.position + len(ids))
        self.position += len(ids)
        x = self.embedding[np.asarray(ids)]
        for block, cache in zip(self.blocks, self.cache):
            x = x + self.attention(block, cache, rms_norm(x, block["attn_norm"], self.eps), positions)
            y = rms_norm(x, block["ffn_norm"], self.eps)
            gate = y @ block["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ block["ffn_up"].T)) @ block["ffn_down"].T
        if last_only:
            x = x[-1:]
        return rms_norm(x, self.output_norm, self.eps) @ self.head.T

    def perplexity(self, ids):
        """Of tokens 1 to n - 1, each given all before it."""
        self.start()
        logits = self.forward(ids)[:-1].astype(np.float64)
        top = logits.max(axis=1)
        log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        return float(np.exp(np.mean(log_sum - logits[np.arange(len(ids) - 1), ids[1:]])))

    def greedy(self, ids, max_tokens, ignore_eos=False):
        self.start()
        out, logits = [], self.forward(ids, last_only=True)
        while len(out) < max_tokens:
            token = int(np.argmax(logits[-1]))
            if token == self.eos and not ignore_eos:
                return out, "eos"
            out.append(token)
            logits = self.forward([token])
        return out, "length"

    def teacher_forced(self, prompt, answer):
        """The rows of logits that predict `answer` after `prompt`."""
        self.start()
        return self.forward(list(prompt) + list(answer[:-1]))[len(prompt) - 1:]


class Chat:
    """Ids of a ChatML prompt, and text of ids."""

    def __init__(self, path):
        import gguf
        self.tokenizer = tokenize_reference.load_tokenizer(path)
        self.tokens = gguf.GGUFReader(path).fields["tokenizer.ggml.tokens"].contents()
        self.start, self.end = self.tokens.index("<|im_start|>"), self.tokens.index("<|im_end|>")

    def text_ids(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt_ids(self, user, system=DEFAULT_SYSTEM):
        ids = []
        for role, content in (("system", system), ("user", user)):
            ids += [self.start, *self.text_ids(f"{role}\n{content}"), self.end, *self.text_ids("\n")]
        return ids + [self.start, *self.text_ids("assistant\n")]

    def decode(self, ids):
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        rest = [b for b in range(256) if b not in printable]
        byte = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(rest)}
        return bytes(byte[c] for i in ids for c in self.tokens[i]).decode("utf-8", "replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("perplexity", "greedy", "logits"))
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--weights", choices=("file", "bf16", "mxfp8", "mxfp4"), default="file")
    parser.add_argument("--kv", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--prompts", type=pathlib.Path)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--ignore-eos", action="store_true", help="go on after the end token, to max-tokens")
    parser.add_argument("--sequences", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    path = args.model or tokenize_reference.cached_model()
    if path is None:
        print("skipped: the real model is not there; tools/dev/fetch_model.py brings it", file=sys.stderr)
        return 77
    model = Llama(path, args.weights, args.kv)
    if args.what == "perplexity":
        ids = Chat(path).text_ids(args.text.read_text(encoding="utf-8"))[:args.tokens]
        print(json.dumps({"text": args.text.name, "tokens": len(ids), "weights": args.weights, "kv": args.kv,
                          "perplexity": round(model.perplexity(ids), 4)}))
    elif args.what == "greedy":
        chat, answers = Chat(path), []
        for prompt in json.loads(args.prompts.read_text(encoding="utf-8")):
            prompt_ids = chat.prompt_ids(prompt)
            ids, stop = model.greedy(prompt_ids, args.max_tokens, args.ignore_eos)
            answers.append({"prompt": prompt, "prompt_token_ids": prompt_ids, "token_ids": ids, "text": chat.decode([i for i in ids if i != model.eos]), "stop": stop})
        print("[\n" + ",\n".join(json.dumps(answer) for answer in answers) + "\n]")
    else:
        sequences = json.loads(args.sequences.read_text(encoding="utf-8"))
        rows = [model.teacher_forced(s["prompt_token_ids"], s["token_ids"]) for s in sequences]
        np.save(args.out, np.concatenate(rows).astype(np.float32))
        print(f"{args.out}: {sum(map(len, rows))} rows of {model.head.shape[0]} logits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
