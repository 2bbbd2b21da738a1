# SPDX-License-Identifier: Apache-2.0
"""Corrections of how vllm-ascend and vLLM compile graphs and keep them for a second start. Modules of versions that
need none of them are left as they are."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch


def tie_caches_to_build_and_device() -> None:
    """Makes the build of npugraph and the index of the device part of the names of vLLM's caches. Code of another build
    does not fit. Graphs name their device, and a worker has another one on a host of its own than beside other
    workers."""
    from vllm.config import VllmConfig

    from npugraph.stored.key import MADE_WITH

    digest = VllmConfig.compute_hash

    @functools.wraps(digest)
    def compute_hash(self: Any, *args: Any, **kwargs: Any) -> str:
        device = torch.accelerator.current_device_index()
        text = repr((digest(self, *args, **kwargs), sorted(MADE_WITH.items()), device))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    VllmConfig.compute_hash = compute_hash


def allow_returned_arguments() -> None:
    """Lets operators return an argument, as those of vllm-ascend do where there is nothing to reduce. Compiled graphs
    of npugraph copy such a result. Torch warns of it, or raises an error where the variable ``CI`` is set."""
    torch._functorch.config.error_on_custom_op_aliasing = False


def mend_compiler(module: ModuleType) -> None:
    """Changes ``vllm_ascend.compilation.compiler_interface`` of pair 0.14: its compiler keeps what it compiled, and
    ``enable_static_kernel`` works."""
    compiler = module.AscendCompiler
    if "load" in vars(compiler):  # newer ones keep graphs, and read the right settings
        return
    compiler.initialize_cache = _initialize_cache
    module.npugraph_ex_compile = _keeping(module.npugraph_ex_compile)


def _initialize_cache(self: Any, cache_dir: str, disable_cache: bool = False, prefix: str = "") -> None:
    """Puts torch's cache into the folder of vLLM's cache, where vLLM puts it for its own compiler."""
    if not disable_cache:
        folder = os.path.join(cache_dir.removesuffix(prefix), "inductor_cache")
        os.makedirs(folder, exist_ok=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder


def _keeping(compile_graph: Callable[..., Any]) -> Callable[..., Any]:
    """AOTAutograd keeps graphs of other backends only if torch bundles what it keeps with what the backend compiled."""

    @functools.wraps(compile_graph)
    def npugraph_ex_compile(
        graph: Any, example_inputs: Any, compiler_config: Any, vllm_config: Any, *args: Any, **kwargs: Any
    ) -> Any:
        from vllm.compilation.compiler_interface import is_compile_cache_enabled

        settings = _under_read_names(vllm_config)
        with torch._functorch.config.patch(bundled_autograd_cache=is_compile_cache_enabled(compiler_config)):
            return compile_graph(graph, example_inputs, compiler_config, settings, *args, **kwargs)

    return npugraph_ex_compile


def _under_read_names(config: Any) -> SimpleNamespace:
    """The settings that ``npugraph_ex_compile`` reads for ``enable_static_kernel``. It reads them under names in the
    singular, and vLLM has them under names in the plural."""
    speculative = config.speculative_config
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seq=config.scheduler_config.max_num_seqs),
        compilation_config=SimpleNamespace(cudagraph_capture_size=config.compilation_config.cudagraph_capture_sizes),
        speculative_config=speculative and SimpleNamespace(num_speculative_token=speculative.num_speculative_tokens),
    )


def mend_source_check(module: ModuleType) -> None:
    """Changes ``vllm.compilation.caching``, which refuses a stored graph if its source files have changed. The sources
    that torch stores end with a newline. Some files of vllm-ascend do not, so that they would count as changed."""
    digest = module._compute_code_hash_with_content

    @functools.wraps(digest)
    def of_lines(file_contents: dict[str, str]) -> str:
        return digest({file: content.removesuffix("\n") + "\n" for file, content in file_contents.items()})

    module._compute_code_hash_with_content = of_lines
