# SPDX-License-Identifier: Apache-2.0
"""Step 1: the schemas of the operators. They name the arguments and their types, and which arguments are written:

- ``scaled_add`` returns a new tensor, x + scale * y.
- ``scaled_add_`` writes the same into x. ``(a!)`` marks x as written, and the operator returns nothing: torch does not
  allow an operator of a graph to return an argument that it writes.

Usage: python step1_schema.py
"""

import torch

FUNCTIONAL = "scaled_add(Tensor x, Tensor y, float scale) -> Tensor"
IN_PLACE = "scaled_add_(Tensor(a!) x, Tensor y, float scale) -> ()"


def main() -> None:
    library = torch.library.Library("schema_only", "DEF")
    for schema in (FUNCTIONAL, IN_PLACE):
        library.define(schema)
    print(torch.ops.schema_only.scaled_add.default._schema)
    print(torch.ops.schema_only.scaled_add_.default._schema)
    try:
        torch.ops.schema_only.scaled_add(torch.ones(2), torch.ones(2), 1.0)
    except NotImplementedError:
        print("a schema alone computes nothing: the kernel comes in step 2")


if __name__ == "__main__":
    main()
