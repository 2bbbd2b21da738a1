# SPDX-License-Identifier: Apache-2.0
"""Random numbers of captured graphs: where replays draw from, and states that are read and set inside of a capture."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.python.device.captures import captured, numbers, same


def rand(generator: torch.Generator | None = None) -> torch.Tensor:
    return torch.rand(4, device="npu", generator=generator)


def replays(graph: torch.npu.NPUGraph, made: list[torch.Tensor], count: int = 3) -> list[list[torch.Tensor]]:
    out = []
    for _ in range(count):
        graph.replay()
        out.append([one.clone() for one in made])
    return out


def check_as_eager(fn: Callable[[], list[torch.Tensor]], source: torch.Generator) -> list[list[torch.Tensor]]:
    """Checks that replays of ``fn`` give what calls give, and leave the generator in the same state."""
    source.manual_seed(3)
    torch.rand(7, device="npu", generator=source)
    before = source.get_state()
    graph, made = captured(fn)
    assert torch.equal(source.get_state(), before)
    replayed = replays(graph, made)
    after = source.get_state()
    source.set_state(before)
    for results in replayed:
        assert all(map(same, results, fn()))
    assert torch.equal(source.get_state(), after)
    return replayed


def read_and_set(generator: torch.Generator | None) -> list[torch.Tensor]:
    source = generator or torch.npu.default_generators[0]
    first, state = rand(generator), source.get_state()
    second = rand(generator)
    source.set_state(state)
    third, state = rand(generator), source.get_state()
    fourth = rand(generator)
    source.set_state(state.clone())
    return [first, second, third, fourth, rand(generator)]


@pytest.mark.feature("3.10")
@pytest.mark.parametrize("own_generator", [False, True])
def test_states_that_are_read_and_set_inside(own_generator: bool):
    generator = torch.Generator("npu") if own_generator else None
    replayed = check_as_eager(lambda: read_and_set(generator), generator or torch.npu.default_generators[0])
    for first, second, third, fourth, fifth in replayed:
        assert same(second, third) and same(fourth, fifth) and not same(first, second)
    assert not same(replayed[0][1], replayed[1][1])


def test_states_of_torch_npu_and_forks_of_generators():
    def fn() -> list[torch.Tensor]:
        state = torch.npu.get_rng_state()
        first = rand()
        with torch.random.fork_rng(device_type="npu"):
            inside = rand()
        torch.npu.set_rng_state(state)
        return [first, inside, rand(), rand()]

    for first, inside, again, fourth in check_as_eager(fn, torch.npu.default_generators[0]):
        assert same(first, again) and same(inside, fourth)


def test_a_state_of_outside_is_set_as_it_is_at_every_replay():
    torch.npu.manual_seed(3)
    state = torch.npu.get_rng_state()
    expected, _ = rand(), rand()

    def fn() -> torch.Tensor:
        rand()
        torch.npu.set_rng_state(state)
        return rand()

    graph, y = captured(fn)
    for _ in range(2):
        graph.replay()
        assert same(y, expected)
    torch.npu.manual_seed(4)
    with pytest.raises(RuntimeError, match=r"set_state: .* only its own seed 4 can be set, and 3 was given"):
        captured(fn)


@pytest.mark.feature("3.10")
@pytest.mark.parametrize("seed", [torch.manual_seed, torch.npu.manual_seed, torch.npu.manual_seed_all])
def test_the_own_seed_goes_back_to_where_a_replay_began(seed: Callable[[int], object]):
    def fn() -> list[torch.Tensor]:
        first = rand()
        seed(5)
        return [first, rand(), rand()]

    torch.npu.manual_seed(5)
    rand()
    graph, made = captured(fn)
    replayed = replays(graph, made)
    for first, second, _ in replayed:
        assert same(first, second)
    torch.npu.manual_seed(5)
    rand()
    for results in replayed:
        assert all(map(same, results[1:], [rand(), rand()]))


def test_other_seeds_are_refused_and_the_capture_goes_on():
    torch.npu.manual_seed(5)
    generator = torch.npu.default_generators[0]

    def fn() -> torch.Tensor:
        first = rand()
        with pytest.raises(RuntimeError, match=r"manual_seed: .*generator of npu:0 .* own seed 5 .* and 6 was given"):
            torch.npu.manual_seed(6)
        with pytest.raises(RuntimeError, match="seed: a graph is being captured, and a seed that cannot be foretold"):
            generator.seed()
        with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
            generator.set_state(torch.zeros(4))
        return first

    assert generator.initial_seed() == 5
    graph, y = captured(fn)
    graph.replay()
    torch.npu.manual_seed(5)
    assert same(y, rand())


def test_generators_that_follow_others():
    first, second = (torch.Generator("npu").manual_seed(seed) for seed in (1, 2))
    source = torch.Generator("npu")

    def fn() -> list[torch.Tensor]:
        out = []
        for state in (first, second, first):
            source.graphsafe_set_state(state)
            out.append(rand(source))
        return out

    graph, made = captured(fn)
    replayed = replays(graph, made, 2)
    first.manual_seed(1)
    second.manual_seed(2)
    for results in replayed:
        assert all(map(same, results, [rand(first), rand(second), rand(first)]))


@pytest.mark.feature("3.10")
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_in_captured_training(use_reentrant: bool):
    torch.manual_seed(0)
    w = torch.randn(8, 8, device="npu", requires_grad=True)
    x = torch.randn(4, 8, device="npu", requires_grad=True)

    def part(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout((x @ w).sin(), 0.5)

    def step() -> list[torch.Tensor]:
        y = x
        for _ in range(2):
            y = checkpoint(part, y, use_reentrant=use_reentrant)
        w.grad = x.grad = None
        y.sum().backward()
        return [y.detach(), w.grad, x.grad]

    check_as_eager(step, torch.npu.default_generators[0])


def test_checkpoints_of_which_the_gradient_is_a_graph_of_its_own():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh()).npu()
    sample = torch.randn(4, 8, device="npu", requires_grad=True)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.layer, x, use_reentrant=False)

    graphed = torch.npu.make_graphed_callables(Block(), (sample,))
    for seed in range(3):
        gradients = []
        for fn in (graphed, layer):
            x = sample.detach().clone().requires_grad_()
            torch.npu.manual_seed(seed)
            y = fn(x)
            gradients.append([y.detach().clone(), *torch.autograd.grad(y.sum(), (x, layer[0].weight))])
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)


def test_what_a_graph_registers():
    graph = torch.npu.NPUGraph()
    generator = torch.Generator("npu").manual_seed(3)
    graph.register_generator_state(generator)
    with torch.npu.graph(graph):
        y = rand(generator)
        with pytest.raises(RuntimeError, match="register_generator_state: the current stream is being captured"):
            graph.register_generator_state(generator)
    graph.replay()
    assert same(y, rand(generator.manual_seed(3)))
    with pytest.raises(TypeError, match="register_generator_state: generator is a int, and must be a torch"):
        graph.register_generator_state(3)
    with pytest.raises(ValueError, match="register_generator_state: the generator is one of cpu, and must be of npu"):
        graph.register_generator_state(torch.Generator())


def test_states_that_are_read_are_intermediate():
    def fn() -> torch.Tensor:
        for _ in range(50):
            state = torch.npu.get_rng_state()
            y = rand()
            torch.npu.set_rng_state(state)
        return y

    before = torch.npu.memory_allocated()
    graph, y = captured(fn)
    assert torch.npu.memory_allocated() - before < 5_000  # less than the size of one state
    graph.replay()
    graph.replay()
    del graph, y
    assert torch.npu.memory_allocated() == before


def test_streams_that_are_not_captured_set_states_at_once():
    x, other = numbers(3), torch.npu.Stream()

    def fn() -> torch.Tensor:
        with torch.npu.stream(other):  # this stream is not captured
            torch.npu.manual_seed(11)
            assert torch.npu.initial_seed() == 11
            torch.npu.set_rng_state(torch.npu.get_rng_state())
        return x + 1

    graph, y = captured(fn)
    graph.replay()
    assert same(y, x + 1)
