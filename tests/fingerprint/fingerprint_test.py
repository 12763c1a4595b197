"""Compares `canopy fingerprint` with fingerprint.py, which follows the published recipe.

fingerprint_test.py CANOPY
"""

import json
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from fingerprint import DEFAULTS, fingerprint, text

CANOPY: Final = Path(sys.argv[1]).absolute()
ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs/WEIGHTS.md"
SETTING_ROW: Final = re.compile(r"^\| `([a-z_.]+)` \|.*\| ([^|]+) \|$", re.MULTILINE)

HIDDEN, INTERMEDIATE, VOCABULARY, EXPERTS = 16, 24, 29, 4
HEAD_DIM, HEADS, KV_HEADS = 8, 4, 2
BASE: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "max_position_embeddings": 300,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}
QWEN3: Final = {"architectures": ["Qwen3Model"], "model_type": "qwen3"}
QWEN2: Final = {"architectures": ["Qwen2Model"], "model_type": "qwen2"}
MISTRAL: Final = {"architectures": ["MistralModel"], "model_type": "mistral"}
MOE: Final = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": INTERMEDIATE,
    "norm_topk_prob": True,
}
YARN: Final = {"rope_type": "yarn", "factor": 4.0}
LLAMA3: Final = {
    "rope_type": "llama3",
    "factor": 8,
    "low_freq_factor": 1.0,
    "high_freq_factor": 3,
    "original_max_position_embeddings": 64,
}
CONFIGS: Final[list[dict[str, Any]]] = [
    {},
    {"rms_norm_eps": 1e-5},
    {"architectures": ["LlamaForSequenceClassification"], "num_labels": 3},
    {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 500000}},
    {"rope_scaling": {"type": "linear", "factor": 2}},
    {"rope_scaling": YARN},
    {"rope_scaling": YARN | {"beta_fast": 16, "beta_slow": 2, "truncate": False}},
    {"rope_scaling": YARN | {"original_max_position_embeddings": 128, "attention_factor": 0.75}},
    {"rope_scaling": YARN | {"mscale": 0.707, "mscale_all_dim": 0.5, "factor": 40}},
    {"rope_scaling": LLAMA3},
    {"rope_theta": None, "rms_norm_eps": 1e-4},
    {"rope_scaling": YARN, "original_max_position_embeddings": 128},
    {"tie_word_embeddings": False, "rms_norm_eps": 1e-3},
    QWEN3,
    QWEN3 | {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    QWEN2
    | {
        "use_sliding_window": True,
        "sliding_window": 8,
        "max_window_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    QWEN2 | {"use_sliding_window": True, "sliding_window": 300, "max_window_layers": 0},
    # Rotary scaling makes paths longer than this window.
    QWEN2
    | {
        "use_sliding_window": True,
        "sliding_window": 300,
        "max_window_layers": 0,
        "rope_scaling": YARN,
    },
    MISTRAL | {"sliding_window": None},
    MISTRAL | {"sliding_window": 16},
    MISTRAL | {"sliding_window": 300, "rope_scaling": {"type": "linear", "factor": 1.5}},
    {"rope_theta": None, "rms_norm_eps": 1e-3},
    {"tie_word_embeddings": False, "rms_norm_eps": 1e-4},
    MOE,
    MOE | {"norm_topk_prob": False, "num_experts_per_tok": 3},
]


def shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Returns the names and shapes of the tensors of a small model."""
    found = {"model.embed_tokens.weight": [VOCABULARY, HIDDEN], "model.norm.weight": [HIDDEN]}
    rows = {"q": HEADS * HEAD_DIM, "k": KV_HEADS * HEAD_DIM, "v": KV_HEADS * HEAD_DIM}
    mlp = {"gate": [INTERMEDIATE, HIDDEN], "up": [INTERMEDIATE, HIDDEN]}
    mlp["down"] = [HIDDEN, INTERMEDIATE]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"{prefix}{norm}.weight"] = [HIDDEN]
        for name, size in rows.items():
            found[f"{prefix}self_attn.{name}_proj.weight"] = [size, HIDDEN]
            if config["model_type"] == "qwen2":
                found[f"{prefix}self_attn.{name}_proj.bias"] = [size]
        found[f"{prefix}self_attn.o_proj.weight"] = [HIDDEN, rows["q"]]
        if config["model_type"].startswith("qwen3"):
            found[f"{prefix}self_attn.q_norm.weight"] = [HEAD_DIM]
            found[f"{prefix}self_attn.k_norm.weight"] = [HEAD_DIM]
        is_moe = config["model_type"] == "qwen3_moe"
        experts = [f"experts.{expert}." for expert in range(EXPERTS)] if is_moe else [""]
        for expert in experts:
            for name, shape in mlp.items():
                found[f"{prefix}mlp.{expert}{name}_proj.weight"] = shape
        if is_moe:
            found[f"{prefix}mlp.gate.weight"] = [EXPERTS, HIDDEN]
    if "num_labels" in config:
        found["score.weight"] = [config["num_labels"], HIDDEN]
    return found


def write_tensors(file: Path, wanted: dict[str, list[int]]) -> None:
    """Writes a safetensors file, with F32 vectors and BF16 matrices."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for number, (name, shape) in enumerate(wanted.items()):
        dtype, size = ("F32", 4) if len(shape) == 1 else ("BF16", 2)
        count = list(accumulate(shape, lambda a, b: a * b))[-1]
        values = [((7 * i + number) % 64) / 64 for i in range(count)]
        packed = b"".join(struct.pack("<f", value)[4 - size :] for value in values)
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(packed)],
        }
        data += packed
    text_of_header = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text_of_header)) + text_of_header + data)


def canopy(*arguments: str | Path) -> str:
    """Returns the output of `canopy fingerprint`."""
    command = [str(CANOPY), "fingerprint", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or f"{done.returncode}: {done.stderr}"


class FingerprintTest(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def write(self, change: dict[str, Any]) -> None:
        config = BASE | change
        (self.folder / "config.json").write_text(json.dumps(config))
        write_tensors(self.folder / "model.safetensors", shapes(config))

    def test_the_recipe_in_python_gives_the_same(self) -> None:
        seen = set()
        for change in CONFIGS:
            with self.subTest(change):
                self.write(change)
                expected = fingerprint(self.folder)
                self.assertEqual(canopy(self.folder), expected)
                seen.add(expected)
        self.assertEqual(len(seen), len(CONFIGS))

    def test_an_untied_language_model_without_its_head_is_none(self) -> None:
        self.write({})
        tied = canopy(self.folder)
        self.write({"tie_word_embeddings": False})
        untied = canopy(self.folder)
        self.assertNotEqual(untied, tied)
        self.write({"architectures": ["LlamaModel"]})
        self.assertEqual(canopy(self.folder), untied)

    def test_temperatures_and_reranker_tokens_count(self) -> None:
        self.write({})
        plain = fingerprint(self.folder)
        temperatures = {"choice": {"temperature": 2, "fitted_on": "x"}, "score": {"temperature": 1}}
        (self.folder / "temperatures.json").write_text(json.dumps(temperatures))
        warm = fingerprint(self.folder)
        self.assertEqual(canopy(self.folder), warm)
        (self.folder / "reranker.json").write_text('{"yes_token": 7, "no_token": 0}')
        reranker = fingerprint(self.folder)
        self.assertEqual(canopy(self.folder), reranker)
        self.assertEqual(len({plain, warm, reranker}), 3)
        (self.folder / "reranker.json").unlink()
        flags = ("--reranker_yes_token=7", "--reranker_no_token=0")
        self.assertEqual(canopy(*flags, self.folder), reranker)

    def test_shards_and_a_config_from_elsewhere(self) -> None:
        self.write({})
        whole = fingerprint(self.folder)
        tensors = shapes(BASE)
        (self.folder / "model.safetensors").rename(self.folder / "model.tmp")
        self.assertRegex(canopy(self.folder), r"^2: canopy: .*model\.safetensors")
        (self.folder / "model.tmp").rename(self.folder / "model.safetensors")
        config = self.folder / "other.cfg"
        config.write_text(json.dumps(BASE | {"rope_theta": 5.0}))
        elsewhere = fingerprint(self.folder, config)
        self.assertEqual(canopy(f"--config={config}", self.folder), elsewhere)
        self.assertNotEqual(whole, elsewhere)
        # Each tensor is in its own shard, with other bytes than above because numbering restarts in
        # each.
        (self.folder / "model.safetensors").unlink()
        weight_map = {name: f"m{number}.safetensors" for number, name in enumerate(tensors)}
        for name, shard in weight_map.items():
            write_tensors(self.folder / shard, {name: tensors[name]})
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": weight_map}))
        self.assertEqual(canopy(self.folder), fingerprint(self.folder))

    def test_the_demo_model_and_the_readme_agree(self) -> None:
        demo = fingerprint(ROOT / "demo/model")
        self.assertEqual(canopy(ROOT / "demo/model"), demo)
        self.assertIn(f"fingerprint {demo}", (ROOT / "README.md").read_text())

    def test_typed_decision_heads_replace_the_configs(self) -> None:
        self.write(QWEN3)
        wanted = {
            name.replace("model.", "path_encoder.backbone.", 1): shape
            for name, shape in shapes(BASE | QWEN3).items()
        }
        wanted |= decision_head()
        write_tensors(self.folder / "model.safetensors", wanted)
        expected = fingerprint(self.folder)
        self.assertEqual(canopy(self.folder), expected)
        config = BASE | QWEN3 | {"architectures": ["Qwen3ForCausalLM"]}
        (self.folder / "config.json").write_text(json.dumps(config))
        self.assertEqual(canopy(self.folder), expected)

    def test_mistakes_are_said_in_one_line(self) -> None:
        for arguments, said in (
            ([], "the FOLDER of a checkpoint is needed"),
            ([self.folder / "none"], "no such folder"),
            (["--reranker_yes_token=1", self.folder], "both are needed"),
            (["--deadline=5s", self.folder], "not a flag of `fingerprint`"),
        ):
            with self.subTest(said):
                self.assertRegex(canopy(*arguments), rf"^2: canopy: .*{said}")

    def test_the_page_lists_every_setting_with_its_default(self) -> None:
        rows = dict(SETTING_ROW.findall(PAGE.read_text()))
        expected = {
            name: "absent" if value is None else "no layer" if value == "" else str(value).lower()
            for name, value in DEFAULTS.items()
        }
        self.assertEqual(rows, expected)

    def test_the_page_writes_numbers_as_the_recipe_does(self) -> None:
        self.assertIn(f"`{text(1e-6)}`", PAGE.read_text())

    def test_canopy_needs_no_libtorch(self) -> None:
        needed = subprocess.run(["ldd", CANOPY], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(needed, r"libtorch|libc10|libcudart")


def decision_head() -> dict[str, list[int]]:
    """Returns the tensors of a typed-decision head: a TransformerEncoder of two layers."""
    width, feed_forward = 256, 1024
    linear = {
        "proj_in": [width, HIDDEN],
        "proj_out": [HIDDEN, width],
        "scorer.fc1": [width, HIDDEN],
        "scorer.fc2": [1, width],
    }
    found: dict[str, list[int]] = {"scorer.norm.weight": [HIDDEN]}
    for layer in range(2):
        prefix = f"set_encoder.encoder.layers.{layer}."
        found[f"{prefix}self_attn.in_proj_weight"] = [3 * width, width]
        found[f"{prefix}self_attn.in_proj_bias"] = [3 * width]
        linear[f"{prefix}self_attn.out_proj"] = [width, width]
        linear[f"{prefix}linear1"] = [feed_forward, width]
        linear[f"{prefix}linear2"] = [width, feed_forward]
        for norm in ("norm1", "norm2"):
            found[f"{prefix}{norm}.weight"] = [width]
            found[f"{prefix}{norm}.bias"] = [width]
    for name, shape in linear.items():
        found[f"{name}.weight"] = shape
        found[f"{name}.bias"] = shape[:1]
    return found


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
