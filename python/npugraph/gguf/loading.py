# SPDX-License-Identifier: Apache-2.0
"""Loads a GGUF file as a model of transformers."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from npugraph.gguf.blocks import FORMATS
from npugraph.gguf.modules import QuantisedEmbedding, QuantisedLinear
from npugraph.gguf.reading import read_once


def load(path: str | PathLike[str], *, dtype: torch.dtype = torch.float32, int8: bool = False) -> nn.Module:
    """Returns the causal language model in the GGUF file ``path``, in eval mode, without gradients.

    Linear layers and embeddings keep the blocks of the file if these are of type Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K,
    Q5_K or Q6_K. All other weights are dequantised to ``dtype``, which is also the type of the activations. With
    ``int8`` the linear layers round their activations to 8 bits first. Raises ``ValueError`` for a file that lacks
    weights of its model, or whose architecture stores weights that transformers does not take row by row.
    """
    with read_once():
        return _load(Path(path), dtype, int8)


def _load(file: Path, dtype: torch.dtype, int8: bool) -> nn.Module:
    from accelerate import init_empty_weights
    from gguf import GGUFReader
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(str(file.parent), gguf_file=file.name)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    filler = _Filler(model, dtype, int8)
    filler.fill(GGUFReader(str(file)))
    filler.tie()
    missing = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if missing:
        raise ValueError(f"{file} lacks weights of {type(model).__name__}: {', '.join(missing)}")
    return model.eval().requires_grad_(False)


class _Filler:
    """Gives the weights of a file to a model that has none."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, int8: bool) -> None:
        self.model = model
        self.dtype = dtype
        self.int8 = int8

    def fill(self, reader: Any) -> None:
        from transformers import modeling_gguf_pytorch_utils as names

        architecture = names.read_field(reader, "general.architecture")[0]
        processor_type = names.TENSOR_PROCESSORS.get(architecture, names.TensorProcessor)
        processor = processor_type(config=self.model.config.to_dict())
        name_of = names.get_gguf_hf_weights_map(self.model, processor)
        for tensor in reader.tensors:
            if tensor.name in name_of:
                self.fill_one(name_of[tensor.name], tensor, processor)

    def fill_one(self, name: str, tensor: Any, processor: Any) -> None:
        from gguf import dequantize

        path, _, attribute = name.rpartition(".")
        module = self.model.get_submodule(path)
        kind = tensor.tensor_type.name.lower()
        if attribute == "weight" and kind in FORMATS and isinstance(module, (nn.Linear, nn.Embedding)):
            # The rows may be in another order in transformers; the blocks in a row stay as they are.
            blocks = processor.process(weights=tensor.data, name=tensor.name).weights
            if blocks.shape != tensor.data.shape:
                raise ValueError(f"{tensor.name} of this architecture cannot keep its blocks")
            self.replace(path, module, _frozen(torch.from_numpy(np.array(blocks))), kind)
            return
        values = processor.process(weights=dequantize(tensor.data, tensor.tensor_type), name=tensor.name).weights
        setattr(module, attribute, _frozen(torch.from_numpy(np.array(values)).to(self.dtype)))

    def replace(self, path: str, module: nn.Module, blocks: nn.Parameter, kind: str) -> None:
        if isinstance(module, nn.Linear):
            quantised: nn.Module = QuantisedLinear(blocks, kind, module.bias, self.int8)
        else:
            quantised = QuantisedEmbedding(blocks, kind, self.dtype)
        self.model.set_submodule(path, quantised)

    def tie(self) -> None:
        """Sets the head of a model whose head and embedding share their weights."""
        if not getattr(self.model.config, "tie_word_embeddings", False):
            return
        embedding = self.model.get_input_embeddings()
        if isinstance(embedding, QuantisedEmbedding):
            self.model.set_output_embeddings(QuantisedLinear(embedding.blocks, embedding.kind, int8=self.int8))
        else:
            self.model.tie_weights()


def _frozen(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)
