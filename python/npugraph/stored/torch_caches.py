# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs in the forms that torch keeps: entries of AOTAutograd's cache, for
``torch._functorch.config.bundled_autograd_cache``, and functions of
``torch.compile(fn, backend="npugraph_ex", fullgraph=True).aot_compile(...)``."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch._dynamo.aot_compile_types import BundledAOTAutogradSerializableCallable, SerializableCallable
from torch._dynamo.eval_frame import OptimizedModule
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, should_bundle_autograd_cache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from npugraph import _C
from npugraph.options import CompilerConfig
from npugraph.stored import graphs
from npugraph.stored.key import MADE_WITH, key_of

Run = Callable[..., Any]


def is_cached() -> bool:
    """Whether torch is set to bundle compiled graphs with what AOTAutograd keeps of a graph."""
    return should_bundle_autograd_cache()


@dataclasses.dataclass
class StoredCode(OutputCode):
    """A compiled graph of AOTAutograd. In its stored form it is ``data`` alone, the bytes of ``graphs.pack``."""

    run: Run | None = None
    parts: graphs.Parts | None = None
    data: bytes = b""

    def __post_init__(self) -> None:
        self._boxed_call = True  # torch's wrappers copy attributes of the object

    def __call__(self, inputs: Any) -> Any:
        return self.run(inputs)

    def prepare_for_serialization(self) -> None:
        """Raises ``BypassAOTAutogradCache``, by which torch leaves a graph out of its cache."""
        if self.data:
            self.run = self.parts = None
            return
        if self.parts is None:
            raise BypassAOTAutogradCache("the graph runs operator by operator")
        try:
            self.data = graphs.pack(self.parts)
        except graphs.NotStorable as reason:
            raise BypassAOTAutogradCache(str(reason)) from None
        self.run = self.parts = None

    def post_compile(self, *args: Any, **kwargs: Any) -> None:
        if self.run is None:
            self.run = graphs.cached_function_of(self.data)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass  # kernels of Triton are not bundled

    def __getstate__(self) -> dict[str, Any]:
        if self.run is None:
            return vars(self)
        copy = dataclasses.replace(self)
        copy.prepare_for_serialization()
        return vars(copy)


def cacheable(compiler: Run) -> SerializableAOTDispatchCompiler:
    """Marks a compiler that returns ``StoredCode``, so that AOTAutograd looks into its cache before it calls it."""
    return SerializableAOTDispatchCompiler(StoredCode, compiler)


@contextlib.contextmanager
def keyed(gm: fx.GraphModule, config: CompilerConfig, decompositions: Mapping[Any, Run]) -> Any:
    """Makes the key of AOTAutograd's cache speak of what determines a compile beside the graph. The key is made of all
    attributes of the graph module. The settings of torch are part of it, too, so those in which ``aot_compile`` differs
    from other compiles are the same here. A graph that cannot be stored runs nevertheless, and its ``serialize`` says
    why it cannot."""
    gm._npugraph_key = repr((MADE_WITH, key_of(config, decompositions)))
    same = {"bundled_autograd_cache": True, "bypass_autograd_cache_key": True, "strict_autograd_cache": False}
    try:
        with functorch_config.patch(same):
            yield
    finally:
        del gm._npugraph_key


class Entry(bytes):
    """What ``serialize()`` of a compiled function returns. Some callers in torch take it for the bytes that
    ``AOTCompiledArtifact.deserialize`` reads, and ``aot_compile`` takes it for an entry of AOTAutograd's cache."""

    sanitized_aot_config = None

    def wrap_post_compile(self, args: Any, aot_config: Any, fx_config: Any) -> Run:
        entry = pickle.loads(self)[0]
        entry.guards_expr = None
        return entry.wrap_post_compile(args, entry.sanitized_aot_config, fx_config)


def serializable(run: Run, compiled: Run) -> Run:
    """Gives ``run`` the method ``serialize`` if AOTAutograd has an entry for ``compiled``, the function inside."""
    if getattr(compiled, "serialize", None) is None:
        return run
    inside = BundledAOTAutogradSerializableCallable(compiled)

    @torch._dynamo.disable
    def call(*args: Any) -> Any:
        return run(*args)

    call.serialize = lambda: Entry(BundledAOTAutogradSerializableCallable.serialize_compile_artifacts(inside))
    return call


def serialize(compiled: Any) -> bytes:
    """Returns the bytes of a function that was compiled. Raises ``ValueError`` if it cannot be saved, see
    ``Artifact.save``."""
    return graphs.pack(graphs.Parts(compiled.owner, compiled.options, boxed=False))


def install() -> None:
    """Makes compiled functions serializable, as ``aot_compile`` requires."""
    _C.Callable.serialize_compile_artifacts = staticmethod(serialize)
    _C.Callable.deserialize_compile_artifacts = staticmethod(graphs.function_of)
    SerializableCallable.register(_C.Callable)
    OptimizedModule.aot_compile = _aot_compile


def _aot_compile(self: Any, example_inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """What torch has for compiled functions, for a compiled module."""
    return self.forward.aot_compile(example_inputs)
