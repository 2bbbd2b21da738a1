# SPDX-License-Identifier: Apache-2.0
"""An operator that consists of others: one expression, or a Python function over operators of torch. Graphs have these
in its place and fuse them with their neighbours, and gradients flow through them. No step is needed.

Usage: python by_meaning.py
"""

import torch

import npugraph

swish = npugraph.define_operator("meaning::swish(Tensor x, float beta=1.0) -> Tensor", "x / (1 + exp(-beta * x))")


@npugraph.define_operator("meaning::normed(Tensor x, Tensor weight) -> Tensor")
def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def fn(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.ops.meaning.normed(torch.ops.meaning.swish(x + 1, 0.5), weight) * 2


def main() -> None:
    x, weight = torch.randn(64, 256), torch.randn(256)
    with torch.no_grad():
        for backend in ("aot_eager", "inductor", "npugraph_ex"):
            torch.testing.assert_close(torch.compile(fn, backend=backend)(x, weight), fn(x, weight))
            print(f"{backend}: the same results")
    (artifact,) = npugraph.artifacts()
    print(f"npugraph_ex: {len(artifact.tasks)} task of generated code")
    assert len(artifact.tasks) == 1

    gradients = []
    for call in (fn, torch.compile(fn, backend="npugraph_ex")):
        mine = x.clone().requires_grad_()
        call(mine, weight).sum().backward()
        gradients.append(mine.grad)
    torch.testing.assert_close(*gradients)
    print("the same gradients")


if __name__ == "__main__":
    main()
