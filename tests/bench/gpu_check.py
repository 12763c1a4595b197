"""Checks and times our backends on a device, and compares them with transformers in the same run.

    gpu_check.py --binary bazel-bin/tests/bench/gpu_check [--device cuda:0] [--model tiny]
                 [--library-path FOLDER] [--work FOLDER] [--json FILE]

Makes a bfloat16 checkpoint with random weights and computes every case with transformers over
independent right-padded rows: in float32 as the reference, in 16-bit types for comparison. Then
runs the binary for each dtype. Prints errors, and median times in ms from token lists to vectors on
the host. Exits with 1 if an error exceeds its tolerance. Needs no network.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

# Each entry is name: (family, hidden, intermediate, layers, query heads, kv heads, head dim,
# vocabulary).
MODELS = {
    "qwen3-0.6b": ("qwen3", 1024, 3072, 28, 16, 8, 128, 151936),
    "15m": ("qwen3", 256, 768, 16, 4, 2, 64, 8192),
    "tiny": ("qwen3", 160, 360, 2, 4, 2, 48, 311),
    "llama": ("llama", 512, 1024, 6, 16, 2, 64, 8192),
    "mistral": ("mistral", 768, 1536, 6, 6, 2, 128, 8192),
    "qwen2": ("qwen2", 896, 2432, 6, 14, 2, 64, 8192),
    "qwen3-moe": ("qwen3_moe", 512, 1024, 6, 8, 2, 128, 8192),
}
# Further settings of a family's config. All experts are chosen, because rounding in 16-bit types
# could change a choice that is nearly a tie.
SETTINGS: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": None},
    "qwen3_moe": {
        "num_experts": 8,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 128,
        "mlp_only_layers": [1],
    },
}
ROPE: dict[str, dict[str, Any]] = {
    "llama": {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "mistral": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "qwen2": {
        "rope_type": "yarn",
        "rope_theta": 1000000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
}
# The key of transformers' vectors for each 16-bit type.
HALF_KEYS = {"bfloat16": "vectors_bf16", "float16": "vectors_f16"}
MAX_FLOAT32_ERROR = 1e-4  # for every candidate
MAX_HALF_RATIO = 1.25  # limit on our error relative to transformers' own, over all candidates
WARM_UP_RUNS = 3

# A question is (prefix length, candidate lengths, number of prefix tokens shared with the previous
# question).
Sizes = list[tuple[int, list[int], int]]
# For these cases the errors and times of every backend are measured.
TIMED: dict[str, Sizes] = {
    "wide": [(490, [18] * 64, 0), (490, [18] * 2, 0)],
    "small": [(100, [16] * 4, 0)],
    "typed": [(440, [16] * 4, 0)] + [(440, [16] * 4, 400)] * 4,
}
# For these cases only the fused backend is timed. transformers is timed only in bfloat16, in
# batches of rows that fit on the device.
LARGE: dict[str, Sizes] = {
    "typed16": ([(440, [16] * 4, 0)] + [(440, [16] * 4, 400)] * 4) * 16,
    "candidates255": [(1024, [32] * 255, 0)],
    "rollout": [(1024, [64] * 64, 0)] * 32,
}
# For this case, log-probs of all candidates' tokens are timed too, with Canopy and transformers.
LOGPROBS = "rollout"
# These cases run on CUDA only. Each question is a request, and all requests wait together.
MERGED: dict[str, Sizes] = {
    "requests64": [(440, [16] * 4, 0)] + [(440, [16] * 4, 400)] * 63,
}
DEEP_LEVELS = 7  # levels of a binary tree below a root of 256 tokens, with 16 tokens per node
PEER_MAX_TOKENS = 300_000  # limit for one padded forward
PEER_MAX_CASE_TOKENS = 1_000_000  # the time of a larger case is estimated from the other cases
# These cases are for errors: odd sizes, and more than 256 candidates in all.
CHECKED: dict[str, Sizes] = {
    "odd": [(length - 1, [1, 2, 1], 0) for length in (1, 2, 113, 129, 255)],
    "many": [(63, [11, 3, 9, 1] * 8, 0)] + [(63, [11, 3, 9, 1] * 8, 40)] * 5,
    "single": [(0, [5, 1, 17], 0)],
}

Case = list[dict[str, Any]]


def tokens(rng: random.Random, count: int, vocabulary: int) -> list[int]:
    """Returns `count` random tokens."""
    return [rng.randrange(vocabulary) for _ in range(count)]


def make_case(rng: random.Random, sizes: Sizes, vocabulary: int) -> Case:
    """Returns a case with random tokens of the given lengths."""
    case: Case = []
    for length, suffixes, shared in sizes:
        prefix = case[-1]["prefix"][:shared] if shared else []
        prefix = prefix + tokens(rng, length - shared, vocabulary)
        candidates = [tokens(rng, size, vocabulary) for size in suffixes]
        case.append({"prefix": prefix, "candidates": candidates})
    return case


def make_deep_case(rng: random.Random, vocabulary: int) -> Case:
    """Returns a case whose candidates are the leaves of a binary tree."""
    paths: list[list[int]] = [[]]
    for _ in range(DEEP_LEVELS):
        paths = [path + tokens(rng, 16, vocabulary) for path in paths for _ in range(2)]
    return [{"prefix": tokens(rng, 256, vocabulary), "candidates": paths}]


def paths_of(case: Case) -> list[list[int]]:
    """Returns all paths of a case, in request order."""
    return [item["prefix"] + suffix for item in case for suffix in item["candidates"]]


def decoder_config(name: str) -> Any:
    """Returns the configuration of one of MODELS."""
    family, hidden, intermediate, layers, query_heads, kv_heads, head_dim, vocabulary = MODELS[name]
    return AutoConfig.for_model(
        family,
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=query_heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=4096,
        rope_parameters=ROPE.get(family, {"rope_theta": 1000000.0, "rope_type": "default"}),
        tie_word_embeddings=True,
        **SETTINGS.get(family, {}),
    )


def make_checkpoint(name: str, folder: Path) -> None:
    """Saves a model with random weights and with norms that are not all one."""
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(decoder_config(name))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "norm" in key:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif "bias" in key:
                parameter.normal_(0, 0.5)
            elif "embed" not in key:
                # The weights are large enough that attention is not nearly uniform.
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
    model.bfloat16().save_pretrained(folder)


@torch.no_grad()
def encode(model: Any, paths: list[list[int]], rows_per_batch: int) -> torch.Tensor:
    """Returns the float32 vectors of transformers, with each path in a right-padded row."""
    vectors = []
    for begin in range(0, len(paths), rows_per_batch):
        rows = paths[begin : begin + rows_per_batch]
        length = max(len(row) for row in rows)
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows]).to(model.device)
        ends = torch.tensor([len(row) - 1 for row in rows]).to(model.device)
        hidden = model(input_ids=ids, use_cache=False).last_hidden_state
        vectors.append(hidden[torch.arange(len(rows), device=hidden.device), ends].float().cpu())
    return torch.cat(vectors).contiguous()


def time_encode(model: Any, case: Case, runs: int) -> float:
    """Returns the median time in ms of padded forwards, from token lists to host vectors."""
    longest = max(len(path) for path in paths_of(case))
    times = []
    for run in range(WARM_UP_RUNS + runs):
        begin = time.perf_counter()
        encode(model, paths_of(case), rows_per_batch=max(1, PEER_MAX_TOKENS // longest))
        if run >= WARM_UP_RUNS:
            times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


@torch.no_grad()
def candidate_logprobs(model: Any, question: dict[str, Any]) -> torch.Tensor:
    """Returns the log-probs of transformers for a question with equally long candidates."""
    rows = [question["prefix"] + candidate for candidate in question["candidates"]]
    ids = torch.tensor(rows).to(model.device)
    kept = len(question["candidates"][0]) + 1
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits[:, :-1]
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    return logprobs.gather(2, ids[:, 1 - kept :, None]).cpu()


def time_logprobs(folder: Path, case: Case, options: Any) -> float:
    """Returns the time in ms of a case of equal questions, estimated from its first question."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    model = model.eval().to(options.device)
    times = []
    for run in range(WARM_UP_RUNS + 5):
        begin = time.perf_counter()
        candidate_logprobs(model, case[0])
        if run >= WARM_UP_RUNS:
            times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times) * len(case)


def path_tokens(case: Case) -> int:
    """Returns the number of paths times the length of the longest path."""
    paths = paths_of(case)
    return len(paths) * max(len(path) for path in paths)


def time_large(model: Any, cases: dict[str, Case]) -> dict[str, float]:
    """Times cases with few runs; estimates larger ones from the largest measured case."""
    sizes = {name: path_tokens(case) for name, case in cases.items()}
    times = {
        name: time_encode(model, case, runs=2)
        for name, case in cases.items()
        if sizes[name] <= PEER_MAX_CASE_TOKENS
    }
    largest = max(times, key=lambda name: sizes[name])
    for name in cases.keys() - times.keys():
        times[name] = times[largest] * sizes[name] / sizes[largest]
    return times


def run_transformers(
    folder: Path, cases: dict[str, Case], large: dict[str, Case], options: Any
) -> dict[str, Any]:
    """Stores reference vectors in `folder`; returns the times and errors of transformers."""
    results: dict[str, torch.Tensor] = {}
    peer: dict[str, Any] = {"times_ms": {}, "squared_errors": {}}
    for name_of_dtype, key in ({"float32": "vectors"} | HALF_KEYS).items():
        if key != "vectors" and name_of_dtype not in options.dtypes:
            continue
        dtype = getattr(torch, name_of_dtype)
        model = AutoModel.from_pretrained(folder, dtype=dtype).eval().to(options.device)
        for name, case in cases.items():
            results[f"{name}.{key}"] = encode(model, paths_of(case), rows_per_batch=16)
        if name_of_dtype in options.dtypes:
            peer["times_ms"][name_of_dtype] = {
                name: time_encode(model, cases[name], options.runs) for name in TIMED
            }
            if dtype == torch.bfloat16 and large:
                peer["times_ms"][name_of_dtype] |= time_large(model, large)
        del model
    if large and "bfloat16" in options.dtypes:
        peer["logprobs_ms"] = time_logprobs(folder, large[LOGPROBS], options)
    for name_of_dtype in HALF_KEYS.keys() & set(options.dtypes):
        for name in cases:
            exact = results[f"{name}.vectors"].double()
            rounded = results[f"{name}.{HALF_KEYS[name_of_dtype]}"].double()
            errors = (rounded - exact).square().sum(1) / exact.square().sum(1)
            peer["squared_errors"].setdefault(name_of_dtype, {})[name] = errors.tolist()
    oracle = folder / "oracle"
    oracle.mkdir()
    save_file(results, oracle / "model.safetensors")
    (oracle / "cases.json").write_text(json.dumps(cases | large), encoding="utf-8")
    return peer


def library_environment(library_path: str) -> dict[str, str]:
    """Returns an environment in which a binary built elsewhere finds this Python's LibTorch.

    A binary that is linked with a CPU-only LibTorch can use CUDA if libtorch_cuda is preloaded.
    """
    torch_libraries = Path(torch.__file__).parent / "lib"
    environment = dict(os.environ)
    folders = [library_path, str(torch_libraries), environment.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
    if (torch_libraries / "libtorch_cuda.so").exists():
        environment["LD_PRELOAD"] = "libtorch_cuda.so"
    return environment


def run_binary(folder: Path, dtype: str, options: Any) -> dict[str, Any]:
    """Returns the output of our binary for one dtype."""
    command = [
        options.binary,
        f"--folder={folder}",
        f"--device={options.device}",
        f"--dtype={dtype}",
        f"--timed={','.join([*TIMED, *LARGE, 'deep'])}",
        f"--logprobs={LOGPROBS}",
        f"--merged={','.join(MERGED)}",
        f"--runs={options.runs}",
        f"--max_batch_tokens={options.max_batch_tokens}",
        f"--threads={options.threads}",
    ]
    environment = library_environment(options.library_path)
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    answer: dict[str, Any] = json.loads(finished.stdout)
    return answer


def judge(ours: dict[str, Any], peer: dict[str, Any]) -> list[str]:
    """Prints the entries of one dtype; returns the entries that exceed a tolerance."""
    dtype = ours["dtype"]
    failures = []
    totals: dict[str, list[float]] = {}
    for entry in ours["entries"]:
        label = f"{dtype} {entry['requested']} {entry['case']}"
        line = f"{label:32} ran {entry['backend']:9} {entry['layout']:6}"
        if "total_ms" in entry:
            line += f" {entry['computed_tokens']:7} tokens {entry['total_ms']:8.2f} ms"
            line += f" (plan {entry['plan_ms']:.2f})"
            hf_ms = peer["times_ms"][dtype].get(entry["case"])
            if hf_ms is not None:
                line += f"; HF path {hf_ms:8.2f} ms, {hf_ms / entry['total_ms']:.2f}x"
        if "logprobs_ms" in entry:
            ratio = entry["logprobs_ms"] / entry["total_ms"]
            line += f"; log-probs {entry['logprobs_ms']:8.2f} ms, {ratio:.3f} x vectors"
            if dtype == "bfloat16":
                line += f", HF path {peer['logprobs_ms']:8.2f} ms"
        if "candidates" not in entry:
            print(line)
            continue
        largest = entry["largest_squared_error"] ** 0.5
        print(f"{line}; largest error {largest:.2e}")
        if not entry["finite"] or (dtype == "float32" and not largest <= MAX_FLOAT32_ERROR):
            failures.append(f"{label}: largest error {largest:.2e}")
        if dtype not in HALF_KEYS:
            continue
        theirs = peer["squared_errors"][dtype][entry["case"]]
        total = totals.setdefault(entry["requested"], [0.0, 0.0, 0.0])
        total[0] += entry["mean_squared_error"] * len(theirs)
        total[1] += sum(theirs)
        total[2] += len(theirs)
    for backend, (our_sum, their_sum, count) in totals.items():
        ratio = (our_sum / their_sum) ** 0.5
        print(f"{dtype} {backend}: error {ratio:.3f} x transformers' over {count:.0f} candidates")
        if not ratio <= MAX_HALF_RATIO:
            failures.append(f"{dtype} {backend}: error ratio {ratio:.3f}")
    for name, entry in ours.get("merged", {}).items():
        print(
            f"{dtype} {name}: {entry['requests']} requests on fused, merged "
            f"{entry['merged_computed_tokens']} tokens {entry['merged_ms']:.2f} ms, not merged "
            f"{entry['unmerged_computed_tokens']} tokens {entry['unmerged_ms']:.2f} ms, one after "
            f"the other {entry['alone_ms']:.2f} ms; errors merged "
            f"{entry['merged_mean_squared_error'] ** 0.5:.2e}, not merged "
            f"{entry['unmerged_mean_squared_error'] ** 0.5:.2e}, between them "
            f"{entry['mean_squared_difference'] ** 0.5:.2e}"
        )
    if ours["graphs"] > 0:
        print(f"{dtype} graphs: {ours['graphs']}, {ours['graph_bytes'] / 2**20:.0f} MiB")
    return failures


def parse_options() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", choices=sorted(MODELS), default="qwen3-0.6b")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--max-batch-tokens", type=int, default=65536)
    parser.add_argument("--threads", type=int, default=0, help="on a CPU; 0 = one a core")
    parser.add_argument("--library-path", default="", help="folder of further shared libraries")
    parser.add_argument("--work", help="folder to keep the checkpoint in; must not exist")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args()


def main() -> int:
    """Makes the checkpoint, runs both implementations, and compares them."""
    options = parse_options()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_num_threads(options.threads or os.cpu_count() or 1)
    rng = random.Random(1)
    vocabulary = MODELS[options.model][-1]
    cases = {name: make_case(rng, sizes, vocabulary) for name, sizes in (TIMED | CHECKED).items()}
    large: dict[str, Case] = {}
    if options.device.startswith("cuda"):
        large = {name: make_case(rng, sizes, vocabulary) for name, sizes in LARGE.items()}
        cases |= {name: make_case(rng, sizes, vocabulary) for name, sizes in MERGED.items()}
        large["deep"] = make_deep_case(rng, vocabulary)
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.work or temporary) / options.model
        make_checkpoint(options.model, folder)
        peer = run_transformers(folder, cases, large, options)
        figures: dict[str, Any] = {"torch": torch.__version__, "peer": peer, "ours": []}
        if options.device.startswith("cuda"):
            figures["gpu"] = torch.cuda.get_device_name(options.device)
            torch.cuda.empty_cache()
        for dtype in options.dtypes:
            ours = run_binary(folder, dtype, options)
            figures["ours"].append(ours)
            failures += judge(ours, peer)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    for failure in failures:
        print(f"OUT OF TOLERANCE {failure}")
    print(f"{len(failures)} out of tolerance")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
