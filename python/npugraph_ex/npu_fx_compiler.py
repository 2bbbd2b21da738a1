# SPDX-License-Identifier: Apache-2.0
"""The backend and parts of its compiler, in the module from which scripts of Ascend import them."""

from npugraph.facade import lazy_names
from npugraph.value_packs import NpuGraphConverter as _NpuGraphConverter
from npugraph.value_packs import unpack_meta as _unpack_meta
from npugraph.value_packs import unpack_meta_list as _unpack_meta_list

_COMPILER = "npugraph.fx_compiler"
_ENTRIES = "npugraph.compilers"
_HOMES = {
    "_CompiledFxArtifacts": _COMPILER,
    "_CompiledFxGraph": _COMPILER,
    "_NpuFxCompiler": _COMPILER,
    "compile_fx": _ENTRIES,
    "get_compiler": _ENTRIES,
    "get_npu_backend": _ENTRIES,
}

__all__ = ["_NpuGraphConverter", "_unpack_meta", "_unpack_meta_list", *_HOMES]

__getattr__ = lazy_names(__name__, _HOMES)
