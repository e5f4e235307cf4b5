"""Token ids by PyPI `tokenizers`, built from a GGUF file's vocabulary and merges: the reference for samples/01_llm/tokenizer.cpp.

No added tokens: control tokens typed by a user are plain text. Usage: tokenize_reference.py MODEL [STRINGS.json] prints a JSON list of lists;
--write renews tokenizer_expected.json, --check compares with it. Without MODEL the cached real model is taken; exit 77 when there is none."""

import argparse
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
STRINGS = HERE / "tokenizer_strings.json"
EXPECTED = HERE / "tokenizer_expected.json"


def cached_model():
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = pathlib.Path(base) if base.startswith("/") else pathlib.Path(os.environ.get("HOME", "/")) / ".cache"
    path = base / "jal/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    return path if path.is_file() else None


def load_tokenizer(model):
    import gguf
    import tokenizers
    from tokenizers import models, pre_tokenizers
    fields = gguf.GGUFReader(model).fields
    content = {name: fields["tokenizer.ggml." + name].contents() for name in ("model", "pre", "tokens", "merges")}
    if (content["model"], content["pre"]) != ("gpt2", "smollm"):
        raise SystemExit(f"{model}: tokenizer {content['model']}/{content['pre']} has no reference here")
    vocab = {token: i for i, token in enumerate(content["tokens"])}
    merges = [tuple(line.split(" ")) for line in content["merges"]]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    return tokenizer


def encode(tokenizer, strings):
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in strings]


def dump(ids):
    """One list a line."""
    return "[\n" + ",\n".join(json.dumps(line, separators=(",", ":")) for line in ids) + "\n]\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    parser.add_argument("strings", nargs="?", type=pathlib.Path, default=STRINGS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    model = args.model or cached_model()
    try:
        import tokenizers  # noqa: F401
    except ImportError:
        print("skipped: the Python package tokenizers is not installed; ./x setup brings it")
        return 77
    if model is None:
        print("skipped: the real model is not there; tools/dev/fetch_model.py brings it")
        return 77
    strings = json.loads(args.strings.read_text(encoding="utf-8"))
    ids = encode(load_tokenizer(model), strings)
    if args.write:
        EXPECTED.write_text(dump(ids), encoding="ascii")
        print(f"{len(ids)} lists written to {EXPECTED.name}")
    elif args.check:
        expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
        wrong = [i for i in range(max(len(ids), len(expected))) if i >= len(ids) or i >= len(expected) or ids[i] != expected[i]]
        for i in wrong[:10]:
            print(f"string {i} {strings[i] if i < len(strings) else None!r}: {ids[i] if i < len(ids) else None}, {EXPECTED.name} has "
                  f"{expected[i] if i < len(expected) else None}")
        print(f"{len(ids)} strings, {len(wrong)} differ")
        return 1 if wrong or len(ids) < 200 else 0
    else:
        print(dump(ids), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
