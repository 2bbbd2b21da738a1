# SPDX-License-Identifier: Apache-2.0
"""Replacement rules of users: the promises of ``register_replacement``."""

from __future__ import annotations

import importlib
import operator

import pytest
import torch
import torch_npu
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, MultiOutputPattern, fwd_only, joint_fwd_bwd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph
import npugraph_ex
import torchair
from npugraph.fx.passes.patterns import FAMILIES, rules
from npugraph.fx.passes.replacements import BUILT_IN, Registry, registry
from tests.python.device.documented_replacement import EXAMPLE

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def only_my_rules():
    npugraph.reset()
    before = registry.rules()
    yield
    for rule in registry.rules():
        if rule not in before and rule.source != BUILT_IN:
            rule.remove()


def run(fn, *inputs, exact=False, **arguments):
    with torch.no_grad():
        got = torch.compile(fn, backend="npugraph_ex", **arguments)(*inputs)
        torch.testing.assert_close(got, fn(*inputs), rtol=0 if exact else 1e-3, atol=0 if exact else 1e-3)
    return npugraph.artifacts()[-1]


def rules_of(artifact):
    return [made.rule for made in artifact.replacements]


X = torch.randn(4, 6)
PAIR = (torch.empty(2, 2), torch.empty(2, 2))


@pytest.mark.feature("2.18")
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_rule_for_training(device) -> None:
    """A rule that was traced with its gradients is applied to the joint graph, before that is cut in two."""

    def written_out(x):
        return x * torch.sigmoid(x)

    example = [torch.randn(4, 4, requires_grad=True)]
    npugraph_ex.register_replacement(written_out, torch.nn.functional.silu, example, trace_fn=joint_fwd_bwd)

    def fn(x, w):
        return written_out(x @ w).sum()

    x, w = torch.randn(5, 8, device=device), torch.randn(8, 8, device=device)
    gradients = []
    for function in (torch.compile(fn, backend="npugraph_ex"), fn):
        leaf = w.clone().requires_grad_()
        function(x, leaf).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)
    forward, backward = npugraph.artifacts()
    assert rules_of(forward) == ["written_out"]
    assert "aten.silu(" in forward.graph("import") and "sigmoid" not in forward.graph("import")
    assert "aten.silu_backward(" in backward.graph("import")
    assert "silu_backward" in forward.graph("joint_graph")
    npugraph.reset()
    off = torch.compile(fn, backend="npugraph_ex", options={"pattern_fusion_pass": False})
    off(x, w.clone().requires_grad_()).backward()
    assert "aten.sigmoid(" in npugraph.artifacts()[0].graph("import")
    run(written_out, x)
    assert not npugraph.artifacts()[-1].replacements


@pytest.mark.feature("2.18", "12e.4")
@pytest.mark.parametrize("package", ["npugraph_ex", "torchair"])
def test_the_documented_example(package) -> None:
    exec(compile(EXAMPLE.replace("{package}", package), "documented", "exec"), {})

    class AddNorm(torch.nn.Module):
        def __init__(self, hidden):
            super().__init__()
            self.gamma = torch.nn.Parameter(torch.randn(hidden))

        def forward(self, x1, x2):
            x = x1 + x2
            y, _ = torch_npu.npu_rms_norm(x, self.gamma)
            return y, x

    for hidden, fused in ((7168, True), (4096, False)):
        model = AddNorm(hidden).half().npu()
        artifact = run(model, *(torch.randn(2, 3, hidden).half().npu() for _ in range(2)))
        assert rules_of(artifact) == ["search_fn"] * fused
        if fused:
            assert "npu.npu_add_rms_norm.default" in artifact.replacements[0].added
        else:
            (miss,) = artifact.near_misses
            assert miss.reason == "does not hold: extra_check (documented:23) accepts it"
            assert miss.source.startswith(__file__)
            assert f"{miss.source}" in artifact.explain()


def add_to_multiply(**arguments):
    """Registers a rule that turns x.sin() + y into x.sin() * y: wrong on purpose, so that results show it."""

    def search(x, y):
        return x.sin() + y

    def replace(x, y):
        return x.sin() * y

    return npugraph_ex.register_replacement(search, replace, PAIR, **arguments)


def compiled_sum():
    with torch.no_grad():
        return torch.compile(lambda x, y: x.sin() + y, backend="npugraph_ex")(X, X)


@pytest.mark.feature("2.18", "1.14")
def test_a_rule_takes_its_place() -> None:
    assert add_to_multiply() is not False
    torch.testing.assert_close(compiled_sum(), X.sin() * X)
    (artifact,) = npugraph.artifacts()
    (made,) = artifact.replacements
    assert made.rule == "search"
    assert made.removed == ("aten.sin.default", "aten.add.Tensor")
    assert made.added == ("aten.sin.default", "aten.mul.Tensor")
    assert made.source.startswith(__file__)


def test_rules_are_listed_with_their_source() -> None:
    add_to_multiply()
    rule = npugraph_ex.replacements()[-1]
    assert rule.name == "search"
    assert rule.source.startswith(f"{__file__}:")
    assert rule.operators == {aten.sin.default, aten.add.Tensor}
    assert npugraph_ex.replacements()[0].source == "built-in"
    assert torchair.register_replacement is npugraph_ex.register_replacement


@pytest.mark.feature("2.18")
def test_the_same_pattern_twice() -> None:
    add_to_multiply()
    with pytest.raises(RuntimeError, match=r"Duplicate pattern: that of search .* skip_duplicates=True leaves it out"):
        add_to_multiply()
    assert add_to_multiply(skip_duplicates=True) is False
    assert [rule.name for rule in npugraph_ex.replacements()].count("search") == 1
    npugraph_ex.replacements()[-1].remove()
    torch.testing.assert_close(compiled_sum(), X.sin() + X)
    assert add_to_multiply(skip_duplicates=True) is not False


@pytest.mark.feature("2.18")
def test_extra_check_sees_the_sizes_of_the_graph() -> None:
    seen = []

    def check(match):
        seen.append(tuple(match.kwargs["x"].meta["val"].shape))
        return False

    add_to_multiply(extra_check=check)
    torch.testing.assert_close(compiled_sum(), X.sin() + X)
    assert set(seen) == {(4, 6)}
    assert npugraph.artifacts()[-1].near_misses[0].reason.startswith("does not hold: extra_check (")


@pytest.mark.feature("2.18")
def test_checks_that_say_what_they_ask() -> None:
    rows = npugraph_ex.Condition(
        "there are 3 rows",
        lambda match: match.kwargs["x"].meta["val"].shape[0] == 3,
        lambda match: f"there are {match.kwargs['x'].meta['val'].shape[0]}",
    )
    add_to_multiply(extra_check=[lambda match: True, rows])
    artifact = run(lambda x, y: x.sin() + y, X, X)
    assert [miss.reason for miss in artifact.near_misses] == ["does not hold: there are 3 rows: there are 4"]
    with torch.no_grad():
        got = torch.compile(lambda x, y: x.sin() + y, backend="npugraph_ex")(X[:3], X[:3])
    torch.testing.assert_close(got, X[:3].sin() * X[:3])


@pytest.mark.feature("2.18", "2.08c", "11.19")
def test_built_in_rules_come_in_through_the_public_function(monkeypatch) -> None:
    listed = [rule.name for rule in npugraph_ex.replacements() if rule.source == BUILT_IN]
    assert rules.register_replacement is npugraph_ex.register_replacement
    importlib.import_module(f"npugraph.fx.passes.patterns.{FAMILIES[0][0]}").register()
    assert [rule.name for rule in npugraph_ex.replacements() if rule.source == BUILT_IN] == listed  # no duplicates
    called = []
    monkeypatch.setattr(rules, "register_replacement", lambda search, *_, **__: called.append(search.__qualname__))
    for family, _ in FAMILIES:
        importlib.import_module(f"npugraph.fx.passes.patterns.{family}").register()
    assert called == listed


def test_built_in_rules_are_tried_in_the_order_of_their_families() -> None:
    """Their order does not depend on which of them the first graphs of the process needed."""
    place = {family: i for i, (family, _) in enumerate(FAMILIES)}
    built_in = [rule for rule in npugraph_ex.replacements() if rule.source == BUILT_IN]
    registered = Registry()
    for rule in reversed(built_in):
        registered.add(rule)
    assert [place[rule.family] for rule in registered.rules()] == [place[rule.family] for rule in built_in]
    assert [place[rule.family] for rule in built_in] == sorted(place[rule.family] for rule in built_in)


def test_an_extra_check_that_fails() -> None:
    def check(match):
        raise LookupError("mine")

    add_to_multiply(extra_check=check)
    with pytest.raises(Exception, match="mine"):
        compiled_sum()


@pytest.mark.feature("2.08c")
def test_other_keyword_arguments_keep_a_call() -> None:
    """torch's own matcher would take the call, and lose alpha."""
    add_to_multiply()
    artifact = run(lambda x, y: torch.add(x.sin(), y, alpha=2), X, X)
    assert not artifact.replacements
    assert "add has alpha=2" in artifact.near_misses[0].reason


def test_an_intermediate_with_another_reader_stays() -> None:
    add_to_multiply()

    def fn(x, y):
        sin = x.sin()
        return sin + y, sin.cos()

    artifact = run(fn, X, X)
    assert not artifact.replacements
    assert artifact.near_misses[0].reason == "sin has 2 readers, and the pattern 1"


@pytest.mark.feature("2.18", "2.08c")
def test_a_number_of_a_pattern_matches_any_number() -> None:
    def search(x, scale):
        return (x * scale).relu()

    def replace(x, scale):
        return (x * scale).abs()

    npugraph_ex.register_replacement(search, replace, PAIR[:1], scalar_workaround={"scale": 0.113377})
    with torch.no_grad():
        got = torch.compile(lambda x: (x * 3.5).relu(), backend="npugraph_ex")(X)
    torch.testing.assert_close(got, (X * 3.5).abs())


@pytest.mark.feature("2.18")
def test_a_pattern_object() -> None:
    def of_two(x, y):
        return x.cos(), y.cos()

    pattern = MultiOutputPattern(
        [
            CallFunction(aten.sin.default, KeywordArg("x")),
            CallFunction(operator.getitem, CallFunction(aten.frexp.Tensor, KeywordArg("x")), 0),
        ]
    )
    npugraph_ex.register_replacement(of_two, of_two, PAIR, search_fn_pattern=pattern)
    assert npugraph_ex.replacements()[-1].operators == {aten.sin.default, aten.frexp.Tensor, operator.getitem}
    artifact = run(lambda x: x.sin() * 2, X)
    assert not artifact.replacements


@pytest.mark.feature("2.18")
def test_a_tracing_function_of_ones_own() -> None:
    traced = []

    def trace(fn, args):
        traced.append(fn)
        return make_fx(fn)(*args)

    add_to_multiply(trace_fn=trace)
    torch.testing.assert_close(compiled_sum(), X.sin() * X)
    assert traced
    assert npugraph_ex.register_replacement(lambda x: x.tan().tan(), lambda x: x, PAIR[:1], trace_fn=fwd_only)


def test_composite_functions_are_patterns_of_what_they_call() -> None:
    """Operators in the pattern and in the graph stay as they were called. Inductor's decompositions are not applied."""

    def search(x):
        return torch.nn.functional.silu(torch.nn.functional.linear(x, x))

    npugraph_ex.register_replacement(search, lambda x: torch.nn.functional.linear(x, x), PAIR[:1])
    with torch.no_grad():
        got = torch.compile(search, backend="npugraph_ex")(X)
    torch.testing.assert_close(got, X @ X.t())


def test_rules_with_changing_sizes() -> None:
    add_to_multiply()
    compiled = torch.compile(lambda x, y: x.sin() + y, backend="npugraph_ex", dynamic=True)
    with torch.no_grad():
        for rows in (3, 5, 9):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(compiled(x, x), x.sin() * x)
    assert len(npugraph.artifacts()) == 1


def test_replacements_in_training() -> None:
    """Rules are also applied to graphs for training."""

    def search(x):
        return x.sin().cos()

    npugraph_ex.register_replacement(search, lambda x: x.cos().sin(), PAIR[:1])
    x = X.clone().requires_grad_()
    y = torch.compile(lambda x: x.sin().cos().detach() + x, backend="npugraph_ex")(x)
    torch.testing.assert_close(y, X.cos().sin() + X)


def test_fake_inputs_need_no_mode() -> None:
    with FakeTensorMode():
        pair = (torch.empty(2, 2, device="npu"), torch.empty(2, 2, device="npu"))
    npugraph_ex.register_replacement(lambda x, y: x.sin() + y, lambda x, y: x.sin() * y, pair)
    torch.testing.assert_close(compiled_sum(), X.sin() * X)  # on any device, not only that of the example


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, len, PAIR), "search_fn is a function, got 1 (int)"),
        ((len, None, PAIR), "replace_fn is a function, got None (NoneType)"),
        ((len, len, torch.ones(2)), "example_inputs is a list or tuple, got tensor([1., 1.]) (Tensor)"),
    ],
)
def test_wrong_arguments(arguments, message) -> None:
    with pytest.raises(TypeError) as caught:
        npugraph_ex.register_replacement(*arguments)
    assert str(caught.value) == f"register_replacement: {message}"
    with pytest.raises(TypeError, match="extra_check is a function, got 3"):
        add_to_multiply(extra_check=3)


@pytest.mark.parametrize(
    "inputs, replace_fn, message",
    [
        (PAIR[:1], torch.Tensor.add, r"takes x, y: there have to be 2 example_inputs, got 1"),
        (PAIR, lambda x: x, r"called with the arguments of search_fn, x, y, and cannot be: too many positional"),
        (PAIR, lambda x, y, z: x, r"called with the arguments of search_fn, x, y, and cannot be: missing .* 'z'"),
    ],
)
def test_functions_and_inputs_that_do_not_fit_together(inputs, replace_fn, message) -> None:
    with pytest.raises(TypeError, match=message):
        npugraph_ex.register_replacement(lambda x, y: x + y, replace_fn, inputs)
    assert {rule.source for rule in npugraph_ex.replacements()} == {BUILT_IN}


@pytest.mark.parametrize(
    "replace_fn, difference",
    [
        (lambda x, y: (x - y).sum(), r"the result of search_fn is float32\[4, 6\], that of replace_fn float32\[\]"),
        (lambda x, y: (x - y).half(), r"search_fn is float32\[4, 6\], that of replace_fn float16\[4, 6\]"),
        (lambda x, y: (x, y), r"search_fn has 1 results, replace_fn 2"),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_of_another_kind_do_not_take_the_place(replace_fn, difference, dynamic) -> None:
    if dynamic:
        difference = difference.replace(r"4, 6", r"\w+, \w+")
    npugraph_ex.register_replacement(lambda x, y: (x - y).cosh(), replace_fn, PAIR)
    with pytest.warns(npugraph.NpugraphWarning, match=rf"<lambda> \(.*\) is not applied at .*: .*{difference}"):
        artifact = run(lambda x, y: (x - y).cosh() + 1, X, X + 1, dynamic=dynamic)
    assert not artifact.replacements


def test_a_replacement_that_fails_is_named() -> None:
    npugraph_ex.register_replacement(lambda x, y: (x - y).cosh(), lambda x, y: x.nothing(y), PAIR)
    with pytest.raises(Exception, match=r"rule .*lambda.* cannot be applied: AttributeError: .* 'nothing'"):
        run(lambda x, y: (x - y).cosh() + 1, X, X + 1)
