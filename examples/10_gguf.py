# SPDX-License-Identifier: Apache-2.0
"""Step 10: a model from a GGUF file whose 4-bit weights stay as they are, in memory and in the products."""

import torch

import npugraph
from npugraph.demo import generate, packages, smollm2

QUESTION = "Name three colours."
TOKENS = 4


@torch.no_grad()
def main() -> None:
    packages.require()
    from npugraph import gguf

    file = smollm2.weights_file()
    model = gguf.load(file)
    stored = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    print(f"{file.name}: {stored / 1e6:.0f} MB of weights in memory")

    tokenizer = smollm2.load_tokenizer()
    prompt = smollm2.chat_prompt(tokenizer, QUESTION)
    cache = generate.static_cache(model, prompt.shape[1] + TOKENS)
    compiled = torch.compile(model, backend="npugraph_ex")
    tokens = list(generate.greedy(compiled, cache, prompt, TOKENS))
    print(f"> {QUESTION}\n{tokenizer.decode(tokens)}")

    # In eager mode the same operators dequantise whole weights. That is slow, and it is the reference for compiled
    # code.
    cache.reset()
    assert tokens == list(generate.greedy(model, cache, prompt, TOKENS))
    products = {task.name for task in npugraph.artifacts()[-1].tasks if "gguf_linear" in task.name}
    print(f"products that read blocks: {', '.join(sorted(products))}")
    assert products


if __name__ == "__main__":
    main()
