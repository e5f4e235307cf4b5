"""One run of llama.cpp (PyPI xllamacpp) in a process of its own: prompt ids in, its own timings out.

usage: llama_peer.py MODEL TOKENS < JSON list of prompt token ids. Prints {"prompt_per_second": x, "predicted_per_second": y} as the last
line of stdout; what llama.cpp itself prints goes before it. Exit 77: the package is missing."""

import json
import sys


def main():
    try:
        import xllamacpp
    except ImportError:
        return 77
    model, tokens = sys.argv[1], int(sys.argv[2])
    prompt = json.load(sys.stdin)
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = 2
    params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    request = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": False, "temperature": 0}
    timings = server.handle_completions(request)["timings"]
    if timings["prompt_n"] != len(prompt) or timings["predicted_n"] != tokens:
        print(f"asked for {len(prompt)} + {tokens} tokens, got {timings}", file=sys.stderr)
        return 2
    print(json.dumps({key: timings[key] for key in ("prompt_per_second", "predicted_per_second")}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
