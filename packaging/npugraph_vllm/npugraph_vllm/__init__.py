# SPDX-License-Identifier: Apache-2.0
"""vLLM with vllm-ascend on npugraph.

``prepare_imports`` runs at the end of ``import torch``. ``register`` runs whenever vLLM loads its plug-ins: in the
process of the user, in the engine and in every worker.
"""

import functools

from npugraph_vllm.modules import prepare_imports

__all__ = ["prepare_imports", "register"]


@functools.cache
def register() -> None:
    """Prepares vLLM and vllm-ascend for npugraph. A second call does nothing."""
    from npugraph_vllm import compilation, configuration, decompositions

    prepare_imports()
    configuration.install()
    compilation.tie_caches_to_build_and_device()
    compilation.allow_returned_arguments()
    decompositions.install()
