"""Makes small models with published configurations, and the results of transformers for them.

    make_published_models.py OUTPUT_FOLDER

published_models.json contains the configurations as published, without `_name_or_path`. Every key
is kept; only the numbers that set sizes are reduced, in the published proportions. `layout` says
how tensors are stored if this differs from what transformers saves. Everything is seeded.
"""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from make_family_checkpoints import one_by_one
from oracle import (
    DEVICE,
    Question,
    classifier_scores,
    paths_of,
    randomize,
    token_distributions,
    token_vectors,
    write_names,
    write_oracle,
)
from safetensors.torch import save_file

DATA: Final = Path(__file__).resolve().parent / "published_models.json"
DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
VOCAB_SIZE: Final = 311
# Paths contain no published padding token, because transformers' classifier would score another
# token.
FIRST_TOKEN: Final = 3
LAST_TOKEN: Final = 299
HIDDEN_SIZE: Final = 64
NUM_HEADS: Final = 4


def small(published: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration with small sizes."""
    config = dict(published)
    heads = config["num_attention_heads"]
    if "head_dim" in config:
        is_plain = heads * config["head_dim"] == config["hidden_size"]
        config["head_dim"] = HIDDEN_SIZE // NUM_HEADS if is_plain else 32
    if "num_key_value_heads" in config:
        group = heads // config["num_key_value_heads"]
        config["num_key_value_heads"] = NUM_HEADS // (1 if group == 1 else 2 if group <= 4 else 4)
    config |= {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": HIDDEN_SIZE,
        "intermediate_size": 104,
        "num_attention_heads": NUM_HEADS,
        "num_hidden_layers": 2,
    }
    if config.get("pad_token_id", 0) >= VOCAB_SIZE:
        config["pad_token_id"] = VOCAB_SIZE - 1
    if config["model_type"] == "mistral" and config["sliding_window"] is not None:
        config["sliding_window"] = 9
    scaling = config.get("rope_scaling") or {}
    original = scaling.get("original_max_position_embeddings", config["max_position_embeddings"])
    if scaling.get("type") in ("linear", "yarn") and original == config["max_position_embeddings"]:
        # This recipe keeps the length before stretching in the config, so test paths are longer
        # than it.
        config |= {"max_position_embeddings": 32, "rope_scaling": {**scaling}}
        if "original_max_position_embeddings" in scaling:
            config["rope_scaling"]["original_max_position_embeddings"] = 32
    for key in ("num_experts", "num_local_experts"):
        if key in config:
            config |= {key: 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    return config


def make_cases(rng: random.Random) -> dict[str, list[Question]]:
    """Returns a wide question, and paths of all lengths with shared prefixes."""

    def tokens(count: int) -> list[int]:
        return [rng.randint(FIRST_TOKEN, LAST_TOKEN) for _ in range(count)]

    shared = tokens(17)
    return {
        "wide": [{"prefix": tokens(23), "candidates": [tokens(size) for size in (9, 9, 4, 1)]}],
        "nested": [
            {
                "prefix": tokens(8),
                "candidates": [shared, shared[:5], [*shared[:5], 7, 8], [*shared, *tokens(40)]],
            },
            {"prefix": [], "candidates": [[7], [8, 9], [8, 9]]},
        ],
    }


def stored_tensors(model: Any, layout: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Returns the model's tensors as the layout stores them."""
    state = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    config = model.config
    head = state.get("lm_head.weight")
    if head is not None and (config.tie_word_embeddings or layout == "no_lm_head"):
        del state["lm_head.weight"]
    if layout != "fused_experts":
        state = one_by_one(state)
    if layout == "inv_freq":
        for layer in range(config.num_hidden_layers):
            name = f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"
            state[name] = model.model.rotary_emb.inv_freq.clone()
    if layout == "keeps_lm_head":
        state["lm_head.weight"] = torch.randn(VOCAB_SIZE, HIDDEN_SIZE).to(dtype)
    if layout == "head_in_float32":
        state["lm_head.weight"] = state["model.embed_tokens.weight"].float()
    if layout == "head_only":
        state["lm_head.weight"] = state.pop("model.embed_tokens.weight")
    return {name: tensor.cpu().contiguous() for name, tensor in state.items()}


def compute(folder: Path, model_class: Any, cases: dict[str, list[Question]]) -> dict[str, Any]:
    """Returns the results of transformers for each path after loading the folder."""
    model = model_class.from_pretrained(folder, dtype=torch.float32).eval().to(DEVICE)
    base = getattr(model, "model", model)
    is_stored = not (folder / "no_lm_head").exists()
    results: dict[str, Any] = {}
    for name, case in cases.items():
        paths = paths_of(case)
        results[f"{name}.vectors"] = torch.stack([rows[-1] for rows in token_vectors(base, paths)])
        if hasattr(model, "lm_head") and is_stored:
            results[f"{name}.tokens"] = token_distributions(model, paths)
    if hasattr(model, "score"):
        results |= classifier_scores(folder, model_class, cases)
    return results


def folder_name(name: str) -> str:
    """Returns the model's name in the form that is used in test names."""
    return re.sub(r"\W+", "_", name).strip("_").lower()


def make(entry: dict[str, Any], folder: Path, cases: dict[str, list[Question]]) -> None:
    """Writes the checkpoint and its results."""
    folder.mkdir()
    config = small(entry["config"])
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model_class = getattr(transformers, config["architectures"][0])
    model = model_class(transformers.AutoConfig.from_pretrained(folder))
    randomize(model, seed=sum(entry["name"].encode()))
    layout = entry.get("layout", "")
    dtype = DTYPES[config.get("torch_dtype", config.get("dtype", "float32"))]
    save_file(stored_tensors(model, layout, dtype), folder / "model.safetensors", {"format": "pt"})
    if layout == "no_lm_head":
        (folder / "no_lm_head").touch()
    write_oracle(folder, cases, compute(folder, model_class, cases), {})


def main() -> int:
    """Writes every checkpoint into the folder named on the command line."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    cases = make_cases(random.Random(0))
    for entry in data["models"]:
        make(entry, output / folder_name(entry["name"]), cases)
    write_names(output, [folder_name(entry["name"]) for entry in data["models"]])
    for entry in data["refused"]:
        folder = output / folder_name(entry["name"])
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(entry["config"]), encoding="utf-8")
        save_file({"x": torch.zeros(1)}, folder / "model.safetensors")
    refused = {folder_name(entry["name"]): entry["error"] for entry in data["refused"]}
    (output / "refused.json").write_text(json.dumps(refused), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
