# SPDX-License-Identifier: Apache-2.0
"""The other way: an operator that runs in eager mode already gets into graphs, all in Python. This file may be imported
anywhere before the model runs. The numbers are those of the steps.

Usage: python all_in_python.py
"""

import torch

import torchair

# 1 and 3: schemas, and kernels for eager mode. An operator of an extension has these already.
library = torch.library.Library("plugin", "DEF")
library.define("scaled_add(Tensor x, Tensor y, float scale) -> Tensor")
library.define("scaled_add_(Tensor(a!) x, Tensor y, float scale) -> ()")


@torch.library.impl(library, "scaled_add", "CPU")
def scaled_add(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return x + scale * y


@torch.library.impl(library, "scaled_add_", "CPU")
def scaled_add_(x: torch.Tensor, y: torch.Tensor, scale: float) -> None:
    x.add_(y, alpha=scale)


# 4: Meta functions.
@torch.library.impl(library, "scaled_add", "Meta")
def scaled_add_meta(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.impl(library, "scaled_add_", "Meta")
def scaled_add_inplace_meta(x: torch.Tensor, y: torch.Tensor, scale: float) -> None:
    pass


# 5: torch makes the operator that writes functional by itself.


# 6: a converter to operators that Ascend IR has, which are compiled with the rest of the graph. The operator that
# writes has no converter, so in GE mode it runs between two graphs, and the log says so.
@torchair.register_fx_node_ge_converter(torch.ops.plugin.scaled_add.default)
def convert(x: torchair.ge.Tensor, y: torchair.ge.Tensor, scale: float, *, meta_outputs: object) -> torchair.ge.Tensor:
    return torchair.ge.custom_op("AxpyV2", x, y, scale)


def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.ops.plugin.scaled_add(x * 2, y, 0.5) + 1
    torch.ops.plugin.scaled_add_(z, y, 2.0)
    torch.ops.plugin.scaled_add_(x, y, 3.0)
    return z


@torch.no_grad()
def main() -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    backends = {name: name for name in ("aot_eager", "inductor", "npugraph_ex")}
    for mode in ("reduce-overhead", "max-autotune"):
        config = torchair.CompilerConfig()
        config.mode = mode
        backends[mode] = torchair.get_npu_backend(compiler_config=config)
    for name, backend in backends.items():
        mine, written = x.clone(), x.clone()
        result = torch.compile(fn, backend=backend)(written, y)
        torch.testing.assert_close(result, fn(mine, y))
        torch.testing.assert_close(written, mine)
        print(f"{name}: the same results")


if __name__ == "__main__":
    main()
