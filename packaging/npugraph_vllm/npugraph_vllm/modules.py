# SPDX-License-Identifier: Apache-2.0
"""Modules that take the place of ones whose compiled half needs CANN or CUDA. They are found before any other module of
their name, so the order in which plug-ins are loaded does not matter."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# Name of a module -> our module of the same content.
_TWINS = {"vllm_ascend.vllm_ascend_C": "npugraph_vllm.ascend_c", "fla_npu": "npugraph_vllm.fla_npu"}


def _define_vision_operators(extension: ModuleType) -> None:
    """Defines the operators for which torchvision registers fake kernels whether or not its library could be loaded.

    The torchvision of PyPI is built for CUDA, so its library does not load beside the CPU build of torch, and without
    the schemas the import of torchvision fails. The operators have no kernels: a call of one says so.
    """
    import torch

    if not extension._has_ops():
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        extension._npugraph_library = library  # the operators live as long as it does


def _generate_logits(module: ModuleType) -> None:
    """Computes logits, which no compiled graph contains, by the generated products of ``npu_linear``."""
    import torch

    def apply(self: object, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return torch.ops.npu.npu_linear(x, layer.weight, bias)

    module.UnquantizedEmbeddingMethod.apply = apply


def _keep_rows(module: ModuleType) -> None:
    """Stores weights of int8, [k, n], so that the elements that one result sums up lie side by side, as the generated
    products of int8 read them. The original casts them to the layout of the hardware, FRACTAL_NZ."""
    import torch

    cast = module.maybe_trans_nz

    def maybe_trans_nz(weight: torch.Tensor, **kwargs: object) -> torch.Tensor:
        if weight.dim() != 2 or weight.dtype != torch.int8:
            return cast(weight, **kwargs)
        return weight.t().contiguous().t()

    module.maybe_trans_nz = maybe_trans_nz


def _function(module: str, name: str) -> Callable[[ModuleType], None]:
    """A function of this package, whose module is imported when it is called: such modules import torch."""

    def call(changed: ModuleType) -> None:
        getattr(importlib.import_module(f"npugraph_vllm.{module}"), name)(changed)

    return call


# Name of a module -> what is done to it once it has run.
_CHANGED = {
    "torchvision.extension": _define_vision_operators,
    "vllm.compilation.caching": _function("compilation", "mend_source_check"),
    "vllm.model_executor.layers.vocab_parallel_embedding": _generate_logits,
    "vllm.v1.engine.core_client": _function("engines", "mend_ends"),
    "vllm_ascend.compilation.compiler_interface": _function("compilation", "mend_compiler"),
    "vllm_ascend.ops.triton.compute_slot_mapping": _function("slot_mapping", "replace_kernel"),
    **{
        f"vllm_ascend.quantization.methods.{name}": _keep_rows
        for name in ("w8a8.w8a8_dynamic", "w8a8.w8a8_static", "w8a8_dynamic", "w8a8_static")
    },
    "vllm_ascend.sample.sampler": _function("sampling", "replace_draws"),
    "vllm_ascend.worker.block_table": _function("slot_mapping", "separate_groups"),
}


class _Finder(MetaPathFinder):
    """Finds the modules of this file."""

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in _TWINS:
            ours = importlib.util.find_spec(_TWINS[fullname])
            return importlib.util.spec_from_file_location(
                fullname, ours.origin, submodule_search_locations=ours.submodule_search_locations
            )
        if fullname not in _CHANGED:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(spec.loader)
        return spec


class _Changing(Loader):
    """Loads a module as ``loader`` does, and then changes it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _CHANGED[module.__name__](module)


def prepare_imports() -> None:
    """Puts the finder of these modules before all others."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
