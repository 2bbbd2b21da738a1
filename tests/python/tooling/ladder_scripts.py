# SPDX-License-Identifier: Apache-2.0
"""Scripts for the ladder, most of them with a planted defect. ``# here`` marks the line that it has to name."""

CUSTOM_PASS = """
import torch

def a_little_more(gm, example_inputs, config):
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
        node.args = (node.args[0], node.args[1] * 1.01)

def model(x, w):
    h = torch.relu(x @ w)
    h = h * 2.0  # here
    return h.softmax(-1) + 1

compiled = torch.compile(model, backend="npugraph_ex", options={"post_grad_custom_post_pass": a_little_more})
with torch.no_grad():
    for _ in range(2):
        compiled(torch.randn(4, 8), torch.randn(8, 8))
"""

WRONG_RULE = """
import torch
import npugraph_ex

def exp_of_neg(x):
    return torch.exp(-x)

def reciprocal_of_exp(x):
    return torch.exp(x).reciprocal()

def sin_plus(x, y):
    return torch.sin(x) + y

def sin_minus(x, y):
    return torch.sin(x) - y

npugraph_ex.register_replacement(exp_of_neg, reciprocal_of_exp, [torch.empty(2)])
npugraph_ex.register_replacement(sin_plus, sin_minus, [torch.empty(2), torch.empty(2)])

@torch.compile(backend="npugraph_ex")
def model(x, y):
    a = torch.exp(-x)
    b = torch.sin(x) + y  # here
    return a * b

with torch.no_grad():
    model(torch.randn(3, 3), torch.randn(3, 3))
"""

# The operator computes something else each time, so the ladder gets another result when it computes a task again.
UNSTEADY_TASK = """
import torch

calls = 0

@torch.library.custom_op("planted::count", mutates_args=())
def count(x: torch.Tensor) -> torch.Tensor:
    global calls
    calls += 1
    return x + calls

@count.register_fake
def _(x):
    return torch.empty_like(x)

@torch.compile(backend="npugraph_ex")
def model(x):
    h = x.exp() + 1
    h = count(h)  # here
    return h.relu() * 2

with torch.no_grad():
    model(torch.randn(3, 3))
"""

NAN = """
import sys
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        h = self.linear(x).softmax(-1)
        h = torch.log(h.cumsum(-1) - 2)  # here
        return (h @ h.T).relu()

model = torch.compile(Model(), backend="npugraph_ex", dynamic=True)
with torch.no_grad():
    for size in map(int, sys.argv[1:]):
        model(torch.randn(size, 8))
"""

# A script without a defect: training, a cache that is written, dropout and several sizes.
FINE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.register_buffer("cache", torch.zeros(4, 8))

    def forward(self, x):
        h = self.norm(x + self.second(torch.nn.functional.silu(self.first(x))))
        self.cache[1:2] = h[:1].detach()
        best, places = h.topk(3)
        scores = torch.nn.functional.dropout((h @ h.T).softmax(-1), 0.25, self.training)
        return scores @ h + self.cache.sum(), best, places

model = Model()
compiled = torch.compile(model, backend="npugraph_ex", dynamic=True)
optimiser = torch.optim.SGD(model.parameters(), 0.1)
for size in (4, 5):
    compiled(torch.randn(size, 8))[0].square().mean().backward()
    optimiser.step()
    optimiser.zero_grad()
with torch.no_grad():
    compiled(torch.randn(6, 8))
"""

# Generated attention adds in another order than torch does.
ATTENTION = """
import torch

@torch.compile(backend="npugraph_ex")
def attention(q, k, v):
    return ((q @ k.transpose(-1, -2)) * 0.25).softmax(-1) @ v  # here

with torch.no_grad():
    attention(*(torch.randn(1, 2, 16, 16) for _ in range(3)))
"""

BROKEN = """
print("so far")
raise SystemExit(3)
"""


def marked_line(script: str) -> int:
    """Returns the number of the line that ends in ``# here``."""
    (number,) = (i for i, line in enumerate(script.splitlines(), 1) if line.endswith("# here"))
    return number
