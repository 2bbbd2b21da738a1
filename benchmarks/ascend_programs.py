# SPDX-License-Identifier: Apache-2.0
"""Three decode steps in the form of public serving code for Ascend: ``dense``, a decoder with weights of 8 bits,
``mixture``, one with experts, and ``latent``, multi-head latent attention over paged caches with experts beside a
shared expert on a second stream. They need torch_npu."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch_npu
from torch import nn

from torchair import CompilerConfig, get_npu_backend, ops, scope

Caches = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Sizes:
    """Those of a decoder. ``places`` are the places of a cache for each sequence, ``rope`` and ``latent`` the sizes of
    latent attention, whose heads have ``head`` elements without a position."""

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head: int = 16
    inner: int = 128
    experts: int = 8
    chosen: int = 2
    rope: int = 16
    latent: int = 32
    vocabulary: int = 96
    places: int = 96
    page: int = 16


def weight(*size: int, dtype: torch.dtype) -> nn.Parameter:
    """Random weights that keep the size of what they multiply, [..., in, out]."""
    return nn.Parameter((torch.randn(size) / size[-2] ** 0.5).to(dtype), requires_grad=False)


def gamma(size: int, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter((1 + 0.1 * torch.randn(size)).to(dtype), requires_grad=False)


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = weight(inputs, outputs, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class QuantLinear(nn.Module):
    """A layer with weights of 8 bits, whose inputs are quantised for each token."""

    def __init__(self, inputs: int, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        full = torch.randn(inputs, outputs) / inputs**0.5
        scale = full.abs().amax(0) / 127
        self.weight = nn.Parameter((full / scale).round().to(torch.int8), requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        quantised, scale = torch_npu.npu_dynamic_quant(x)
        return torch_npu.npu_quant_matmul(
            quantised, self.weight, self.scale, pertoken_scale=scale.flatten(), output_dtype=self.dtype
        )


class Attention(nn.Module):
    """Grouped-query attention over caches, [batch, places, kv_heads * head], to which it adds a row."""

    def __init__(self, sizes: Sizes, linear: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.sizes = sizes
        self.qkv = linear(sizes.hidden, (sizes.heads + 2 * sizes.kv_heads) * sizes.head)
        self.out = linear(sizes.heads * sizes.head, sizes.hidden)

    def forward(
        self,
        x: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        lengths: torch.Tensor,
        cache: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        sizes, batch = self.sizes, x.shape[0]
        parts = [count * sizes.head for count in (sizes.heads, sizes.kv_heads, sizes.kv_heads)]
        query, key, value = self.qkv(x).split(parts, -1)
        query = torch_npu.npu_rotary_mul(query.view(batch, 1, sizes.heads, sizes.head), *rotation)
        key = torch_npu.npu_rotary_mul(key.view(batch, 1, sizes.kv_heads, sizes.head), *rotation)
        keys, values = cache
        torch_npu.scatter_update_(keys, lengths, key.view(batch, 1, -1), 1)
        torch_npu.scatter_update_(values, lengths, value.view(batch, 1, -1), 1)
        attended, _ = ops.npu_fused_infer_attention_score(
            query.view(batch, 1, -1),
            keys,
            values,
            num_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads,
            scale=sizes.head**-0.5,
            input_layout="BSH",
            actual_seq_lengths_kv=lengths + 1,
        )
        return self.out(attended.view(batch, -1))


class Gated(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self, sizes: Sizes, linear: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.gate_up = linear(sizes.hidden, 2 * sizes.inner)
        self.down = linear(sizes.inner, sizes.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch_npu.npu_swiglu(self.gate_up(x)))


class Blocks:
    """What a program says about blocks of itself. As such they say nothing, as eager mode wants it."""

    def side(self) -> contextlib.AbstractContextManager[Any]:
        """A block on the second stream."""
        return contextlib.nullcontext()

    def wait(self, x: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        """``x``, behind ``shared`` of the second stream."""
        return x

    def limited(self) -> contextlib.AbstractContextManager[Any]:
        """A block that uses one core of each kind."""
        return contextlib.nullcontext()

    def fused(self) -> contextlib.AbstractContextManager[Any]:
        """A block that is one kernel."""
        return contextlib.nullcontext()


class BlocksOfGe(Blocks):
    """Those of GE mode."""

    def side(self) -> contextlib.AbstractContextManager[Any]:
        return scope.npu_stream_switch("shared")

    def wait(self, x: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        return scope.npu_wait_tensor(x, shared)

    def limited(self) -> contextlib.AbstractContextManager[Any]:
        return scope.limit_core_num(1, 1)

    def fused(self) -> contextlib.AbstractContextManager[Any]:
        return scope.super_kernel("out")


class Experts(nn.Module):
    """A mixture of experts: each token goes through ``chosen`` of them."""

    def __init__(self, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__()
        self.sizes = sizes
        self.gate = weight(sizes.hidden, sizes.experts, dtype=torch.float32)
        self.bias = nn.Parameter(0.1 * torch.randn(sizes.experts), requires_grad=False)
        self.gate_up = weight(sizes.experts, sizes.hidden, 2 * sizes.inner, dtype=dtype)
        self.down = weight(sizes.experts, sizes.inner, sizes.hidden, dtype=dtype)

    def forward(
        self, x: torch.Tensor, shared: torch.Tensor | None = None, blocks: Blocks | None = None
    ) -> torch.Tensor:
        """``shared`` are the results of a shared expert, for which ``blocks`` waits."""
        experts = self.sizes.experts
        scores, chosen, _ = torch_npu.npu_moe_gating_top_k(
            x.float() @ self.gate, self.sizes.chosen, bias=self.bias, renorm=1, norm_type=1
        )
        rows, places, counts, _ = torch_npu.npu_moe_init_routing_v2(
            x,
            chosen,
            active_num=chosen.numel(),
            expert_num=experts,
            expert_tokens_num_type=1,
            expert_tokens_num_flag=True,
            active_expert_range=[0, experts],
            row_idx_type=0,
        )
        groups = {"group_list": counts, "group_list_type": 1, "group_type": 0, "split_item": 3}
        (inner,) = torch_npu.npu_grouped_matmul([rows], [self.gate_up], **groups)
        (made,) = torch_npu.npu_grouped_matmul([torch_npu.npu_swiglu(inner)], [self.down], **groups)
        if blocks is not None:
            made = blocks.wait(made, shared)
        return torch_npu.npu_moe_finalize_routing(
            made, shared, None, None, scores.to(x.dtype), places, None, drop_pad_mode=2
        )


class LatentAttention(nn.Module):
    """Latent attention over paged caches, [pages, page, 1, latent] and [pages, page, 1, rope]."""

    def __init__(self, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__()
        self.sizes = sizes
        both, low = sizes.head + sizes.rope, sizes.hidden // 2
        self.query_down = weight(sizes.hidden, low, dtype=dtype)
        self.query_up = weight(low, sizes.heads * both, dtype=dtype)
        self.key_up = weight(sizes.heads, sizes.head, sizes.latent, dtype=dtype)
        self.latent_down = weight(sizes.hidden, sizes.latent + sizes.rope, dtype=dtype)
        self.query_gamma, self.latent_gamma = gamma(low, dtype), gamma(sizes.latent, dtype)
        self.value_up = weight(sizes.heads, sizes.latent, sizes.head, dtype=dtype)
        self.out = weight(sizes.heads * sizes.head, sizes.hidden, dtype=dtype)

    def forward(
        self,
        x: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        lengths: torch.Tensor,
        cache: tuple[torch.Tensor, torch.Tensor],
        slots: torch.Tensor,
        pages: torch.Tensor,
        blocks: Blocks,
    ) -> torch.Tensor:
        """``slots`` are the places of the new rows in the caches, ``pages`` the pages of each sequence."""
        sizes, batch = self.sizes, x.shape[0]
        cos, sin = (part.view(batch, 1, -1) for part in rotation)
        latents, ropes = cache
        query, query_rope, *_ = torch_npu.npu_mla_prolog_v3(
            x.view(batch, 1, -1),
            self.query_down,
            self.query_up,
            self.key_up,
            self.latent_down,
            self.query_gamma,
            self.latent_gamma,
            sin,
            cos,
            latents,
            ropes,
            cache_index=slots.view(batch, 1),
            cache_mode="PA_BSND",
        )
        torch_npu.npu_prefetch(self.out, query, self.out.numel() * self.out.element_size())
        latents, ropes = latents.view(-1, sizes.page, sizes.latent), ropes.view(-1, sizes.page, sizes.rope)
        attended, _ = ops.npu_fused_infer_attention_score(
            query,
            latents,
            latents,
            query_rope=query_rope,
            key_rope=ropes,
            num_heads=sizes.heads,
            num_key_value_heads=1,
            scale=(sizes.head + sizes.rope) ** -0.5,
            input_layout="BSND_NBSD",
            block_table=pages,
            block_size=sizes.page,
            actual_seq_lengths_kv=lengths + 1,
        )
        with blocks.fused():
            values = attended.view(sizes.heads, batch, sizes.latent)
            values = torch_npu.npu_transpose_batchmatmul(values, self.value_up, perm_y=(1, 0, 2))
            return values.reshape(batch, -1) @ self.out


class Layer(nn.Module):
    """Attention and what follows it, with norms that add the residual."""

    def __init__(self, sizes: Sizes, dtype: torch.dtype, attention: nn.Module, feed_forward: nn.Module) -> None:
        super().__init__()
        self.before, self.between = gamma(sizes.hidden, dtype), gamma(sizes.hidden, dtype)
        self.attention, self.feed_forward = attention, feed_forward

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """What is added to the residual, and the residual."""
        if residual is None:
            x, residual = torch_npu.npu_rms_norm(x, self.before)[0], x
        else:
            x, _, residual = torch_npu.npu_add_rms_norm(x, residual, self.before)
        x = self.attention(x, *rest)
        x, _, residual = torch_npu.npu_add_rms_norm(x, residual, self.between)
        return self.fed_forward(x, *rest), residual

    def fed_forward(self, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        return self.feed_forward(x)


class LatentLayer(Layer):
    """Latent attention, and experts beside a shared expert on a second stream."""

    def __init__(self, sizes: Sizes, dtype: torch.dtype, linear: Callable[[int, int], nn.Module]) -> None:
        super().__init__(sizes, dtype, LatentAttention(sizes, dtype), Experts(sizes, dtype))
        self.shared = Gated(sizes, linear)

    def fed_forward(self, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        blocks = rest[-1]
        with blocks.side(), blocks.limited():
            shared = self.shared(x)
        return self.feed_forward(x, shared, blocks)


class Decoder(nn.Module):
    """A step of a decoder: tokens to logits. Rotations have the size ``turned``."""

    def __init__(self, sizes: Sizes, dtype: torch.dtype, turned: int, layer: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.sizes, self.dtype = sizes, dtype
        self.embedding = nn.Parameter(torch.randn(sizes.vocabulary, sizes.hidden).to(dtype), requires_grad=False)
        self.layers = nn.ModuleList(layer() for _ in range(sizes.layers))
        self.norm = gamma(sizes.hidden, dtype)
        self.head = weight(sizes.hidden, sizes.vocabulary, dtype=dtype)
        angles = torch.arange(sizes.places)[:, None] / 10000 ** (torch.arange(turned // 2) * 2 / turned)
        both = torch.cat([angles, angles], -1)
        self.register_buffer("cos", both.cos().to(dtype))
        self.register_buffer("sin", both.sin().to(dtype))

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor, caches: Caches, *rest: Any) -> torch.Tensor:
        """Logits behind ``tokens``, [batch], of sequences that have ``lengths`` tokens before."""
        rotation = tuple(part[lengths][:, None, None] for part in (self.cos, self.sin))
        x, residual = self.embedding[tokens], None
        for layer, cache in zip(self.layers, caches, strict=True):
            x, residual = layer(x, residual, rotation, lengths, cache, *rest)
        x, _, _ = torch_npu.npu_add_rms_norm(x, residual, self.norm)
        return x @ self.head

    def caches(self, batch: int, device: str) -> Caches:
        """Empty ones for so many sequences."""
        shape = batch, self.sizes.places, self.sizes.kv_heads * self.sizes.head
        return self.empty(device, shape, shape)

    def empty(self, device: str, *shapes: tuple[int, ...]) -> Caches:
        made = [[torch.zeros(shape, dtype=self.dtype, device=device) for shape in shapes] for _ in self.layers]
        return [(first, second) for first, second in made]

    def paging(self, lengths: torch.Tensor) -> tuple[Any, ...]:
        """The rest of the arguments of a step."""
        return ()


class LatentDecoder(Decoder):
    """A step with paged caches: sequence i has the pages i, i + batch, i + 2 * batch, ..."""

    blocks = Blocks()

    def caches(self, batch: int, device: str) -> Caches:
        sizes = self.sizes
        pages = batch * sizes.places // sizes.page, sizes.page, 1
        return self.empty(device, (*pages, sizes.latent), (*pages, sizes.rope))

    def paging(self, lengths: torch.Tensor) -> tuple[Any, ...]:
        page, batch = self.sizes.page, len(lengths)
        first = torch.arange(batch, device=lengths.device)
        pages = first[:, None] + batch * torch.arange(self.sizes.places // page, device=lengths.device)
        slots = (lengths // page * batch + first) * page + lengths % page
        return slots, pages.int(), self.blocks


def dense(sizes: Sizes, dtype: torch.dtype) -> Decoder:
    def linear(inputs: int, outputs: int) -> nn.Module:
        return QuantLinear(inputs, outputs, dtype)

    def layer() -> nn.Module:
        return Layer(sizes, dtype, Attention(sizes, linear), Gated(sizes, linear))

    return Decoder(sizes, dtype, sizes.head, layer)


def mixture(sizes: Sizes, dtype: torch.dtype) -> Decoder:
    def linear(inputs: int, outputs: int) -> nn.Module:
        return Linear(inputs, outputs, dtype)

    def layer() -> nn.Module:
        return Layer(sizes, dtype, Attention(sizes, linear), Experts(sizes, dtype))

    return Decoder(sizes, dtype, sizes.head, layer)


def latent(sizes: Sizes, dtype: torch.dtype) -> Decoder:
    def linear(inputs: int, outputs: int) -> nn.Module:
        return Linear(inputs, outputs, dtype)

    return LatentDecoder(sizes, dtype, sizes.rope, lambda: LatentLayer(sizes, dtype, linear))


PROGRAMS = {made.__name__: made for made in (dense, mixture, latent)}


def build(name: str, sizes: Sizes = Sizes(), dtype: torch.dtype = torch.bfloat16) -> Decoder:
    """The program with random weights, equal for equal arguments."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PROGRAMS[name](sizes, dtype).eval()


def in_ge_mode(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step with the options of most serving scripts, as one graph in which each operator has a converter."""
    config = CompilerConfig()
    config.experimental_config.frozen_parameter = True
    config.experimental_config.tiling_schedule_optimize = True
    config.experimental_config.topology_sorting_strategy = "StableRDFS"
    config.debug.missing_converters = "error"
    return torch.compile(step, fullgraph=True, backend=get_npu_backend(compiler_config=config))
