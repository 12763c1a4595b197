"""Prints the tables of published models in docs/MODELS.md, from published_models.json."""

import json
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).resolve().parent / "published_models.json"
LAYOUTS: Final = {
    "inv_freq": "with `rotary_emb.inv_freq` tensors",
    "fused_experts": "the experts of a layer in one tensor",
    "keeps_lm_head": "a classifier that keeps `lm_head.weight`",
    "head_in_float32": "the tied head stored too, in float32",
    "head_only": "the tied head in place of the embedding",
    "no_lm_head": "untied, without `lm_head.weight`",
}


def rows(data: dict[str, Any]) -> list[str]:
    """Returns the lines of both tables."""
    lines = ["| model | kind | class | tensors |", "| --- | --- | --- | --- |"]
    for entry in data["models"]:
        layout = LAYOUTS[entry["layout"]] if "layout" in entry else "as transformers saves them"
        lines.append(
            f"| [{entry['name']}]({entry['source']}) | {entry['kind']} "
            f"| `{entry['config']['architectures'][0]}` | {layout} |"
        )
    lines += ["", "| model | refused with |", "| --- | --- |"]
    for entry in data["refused"]:
        lines.append(f"| [{entry['name']}]({entry['source']}) | `{entry['error']}` |")
    return lines


if __name__ == "__main__":
    print("\n".join(rows(json.loads(DATA.read_text(encoding="utf-8")))))
