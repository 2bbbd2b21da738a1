# SPDX-License-Identifier: Apache-2.0
"""The options of the backend, in one table. Validation, error texts, configuration objects and the page docs/options.md
derive from it."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import enum
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from npugraph.option_values import (
    AnyCallable,
    Choice,
    Directory,
    Either,
    IntList,
    IntRange,
    NameList,
    PoolHandle,
    Setting,
    Settings,
    Text,
    TextList,
    Value,
)
from npugraph.warning_kinds import NpugraphWarning

BACKEND = "npugraph_ex"


def pass_names() -> list[str]:
    """Returns the names of the graph passes, for ``disable_passes``."""
    from npugraph import _C

    return _C.pass_names()


class Phase(enum.Enum):
    """The time at which an option acts."""

    GRAPH = "graph"  # in Python, on FX graphs and around compiled functions
    COMPILE = "compile"  # in the compiler: a field of _C.CompileRequest
    RUN = "run"  # at calls, also of a Program from a file: a field of _C.RunRequest


@dataclasses.dataclass(frozen=True)
class Option:
    """A row of the table: a name, a default, the values that the option takes, and a sentence for people.

    ``unset`` says what happens if the option is not set, where that differs from its default. ``needs`` names other
    options; the option has no effect as long as one of them has its default. ``field`` is the path of the field that
    the option sets in the request of its ``phase``, and ``to_field`` makes the field's value. ``passes`` names graph
    passes that do not run if the option is False. Graphs of training ignore an option without ``in_training``.
    """

    name: str
    default: Any
    value: Value
    help: str
    _: dataclasses.KW_ONLY
    unset: str = ""
    needs: Sequence[str] = ()
    phase: Phase = Phase.GRAPH
    field: str = ""
    to_field: Callable[[Any], Any] = lambda value: value
    passes: Sequence[str] = ()
    in_training: bool = True

    def check(self, given: Any, backend: str) -> Any:
        """Returns the value to use. Raises the error of ``value``, which says what was given and what is allowed."""
        if given is None and self.default is None:
            return None
        return self.value.check(f"option {self.name!r} of backend {backend!r}", given)


def _negated(value: bool) -> bool:
    return not value


def _threads(settings: Mapping[str, Any]) -> int:
    return sum(settings.get(name, 0) for name in _CORES)


_SWITCH = Choice(True, False)
_COUNT = IntRange(1, 2**31 - 1)
_PASS = AnyCallable("a function (gm, example_inputs, config) -> None", 3)
_KERNELS = NameList("names of operators")
_OF_THE_DEVICE = Either(IntRange(0, 2**31 - 1), Text(), NameList("names"))  # read by compilers of the device alone
_CORES = ("debug-aic-num", "debug-aiv-num")

# The settings of super kernels, which NPUGraph.super_kernel_optimize takes, too.
SUPER_KERNEL_OPTIMIZE = Settings(
    {
        "strict-scope-check": Choice("bypass", "abort"),
        "feed-sync-all": Choice(0, 1),
        "stream-fusion": Choice(0, 1),
        "dcci-before-kernel-start": _KERNELS,
        "dcci-after-kernel-end": _KERNELS,
        "dcci-disable-on-kernel": _KERNELS,
        "ubuf-lock-ignore-kernel": _OF_THE_DEVICE,
        "preload-code": _OF_THE_DEVICE,
        "split-mode": _OF_THE_DEVICE,
        "constant-codegen": _OF_THE_DEVICE,
        "auto-op-parallel": _OF_THE_DEVICE,
        "early-start": _OF_THE_DEVICE,
        "aggressive-opt-strategies": _OF_THE_DEVICE,
        "opt-extend": _OF_THE_DEVICE,
    }
)
SUPER_KERNEL_DEBUG = Settings(
    {
        "debug-aic-num": Choice(0, 1),
        "debug-aiv-num": Choice(0, 1, 2),
        "debug-sync-all": _OF_THE_DEVICE,
        "debug-op-exec-trace": _OF_THE_DEVICE,
        "debug-cross-core-sync-check": _OF_THE_DEVICE,
        "debug-per-op-max-core-num": _OF_THE_DEVICE,
        "debug-extend": _OF_THE_DEVICE,
    },
    _CORES,
    ((1, 0), (0, 1), (1, 1), (1, 2)),
)

OPTIONS: tuple[Option, ...] = (
    Option("mode", BACKEND, Choice(BACKEND), "The only mode of this backend."),
    Option("name", "", Text(), "Name of the artifact. The default is made from the compiled module or function."),
    Option(
        "force_eager",
        False,
        _SWITCH,
        "Run all passes, but bind tasks before every run, and keep no captured Instance.",
        phase=Phase.RUN,
        field="calls.capture",
        to_field=_negated,
    ),
    Option(
        "remove_noop_ops",
        True,
        _SWITCH,
        "Remove operators that return their input unchanged.",
        passes=("remove_noops", "merge_copies", "remove_copies"),
    ),
    Option(
        "remove_cat_ops",
        True,
        _SWITCH,
        "Compute the parts of a concatenation directly in its result. A part for which this is impossible is copied.",
        phase=Phase.COMPILE,
        field="place_parts",
        passes=("sink_cat", "recompute_parts"),
    ),
    Option(
        "inplace_pass",
        True,
        _SWITCH,
        "Turn operators into their in-place forms if nothing reads their intermediate operand later.",
        phase=Phase.COMPILE,
        passes=("reinplace_intermediates",),
    ),
    Option(
        "input_inplace_pass",
        True,
        _SWITCH,
        "Turn updates of inputs into in-place operators, so that nothing is copied back.",
        phase=Phase.COMPILE,
        passes=("reinplace_inputs",),
    ),
    Option(
        "pattern_fusion_pass",
        True,
        _SWITCH,
        "Apply replacement rules: the built-in rules and the rules that you registered.",
    ),
    Option(
        "post_grad_custom_pre_pass",
        None,
        _PASS,
        "Your own FX pass, which runs before all others. It changes `gm` in place; `config` is the CompilerConfig.",
    ),
    Option("post_grad_custom_post_pass", None, _PASS, "Your own FX pass, which runs after all others."),
    Option(
        "disable_passes",
        (),
        TextList(pass_names, "names of graph passes"),
        "Names of graph passes to leave out.",
        phase=Phase.COMPILE,
    ),
    Option(
        "generate_code",
        True,
        _SWITCH,
        "Run operators as fused, generated code where npugraph can generate it. All other operators run one at a time, "
        "as torch's operators or precompiled kernels, and with False all operators do.",
        phase=Phase.COMPILE,
        field="generate",
    ),
    Option(
        "horizontal_fusion",
        True,
        _SWITCH,
        "Run small generated tasks that do not depend on each other at the same time, as one task: a group.",
        phase=Phase.COMPILE,
        field="group",
    ),
    Option(
        "release_original_weights",
        False,
        _SWITCH,
        "Compute once the parts of the graph that depend on weights alone (casts of autocast), and free the weights "
        "that the graph then no longer reads. These uses of a freed weight fail: eager calls, other graphs of these "
        "weights, state_dict(), load_state_dict(), later changes of the weights, training.",
    ),
    Option(
        "dump_tensor_data",
        False,
        _SWITCH,
        "Write every tensor of the graph to a file at every call: inputs and results of operators, except the tensors "
        "that the program itself gives to save_npugraph_tensor.",
    ),
    Option(
        "data_dump_stage",
        "optimized",
        Choice("optimized", "original"),
        "The graph whose tensors dump_tensor_data writes. 'optimized': the graph after the FX passes, which is "
        "captured. 'original': the graph before the FX passes, which runs operator by operator.",
        needs=["dump_tensor_data"],
    ),
    Option(
        "data_dump_dir",
        "./",
        Directory(),
        "The directory in which dump_tensor_data makes its own directory.",
        needs=["dump_tensor_data"],
    ),
    Option(
        "deadlock_check",
        False,
        _SWITCH,
        "After each capture, look for collectives on several streams that may wait for each other's vector cores "
        "forever. Print the verdict, and write the graph and the findings to npugraph_deadlock_check.",
    ),
    Option(
        "static_kernel_compile",
        False,
        _SWITCH,
        "If sizes are symbols, generate static kernels: separate code for the sizes of each capture. The code is kept "
        "on disk for other processes.",
        phase=Phase.RUN,
        field="static_kernels.enabled",
    ),
    Option(
        "disable_static_kernel_compile_cache",
        False,
        _SWITCH,
        "Do not read static kernels from disk, and do not keep them there.",
        needs=["static_kernel_compile"],
        phase=Phase.RUN,
        field="static_kernels.on_disk",
        to_field=_negated,
    ),
    Option(
        "_vllm_aclnn_static_kernel_sym_index",
        0,
        IntRange(0, 2**31 - 1),
        "Index of the symbol whose value decides whether a capture gets static kernels. It counts the symbols of the "
        "inputs in the order of the Program.",
        needs=["static_kernel_compile", "_vllm_aclnn_static_kernel_sym_range"],
        phase=Phase.RUN,
        field="static_kernels.symbol",
    ),
    Option(
        "_vllm_aclnn_static_kernel_sym_range",
        None,
        IntList(),
        "Values of that symbol that get static kernels. None means all values, an empty list means no value.",
        needs=["static_kernel_compile"],
        phase=Phase.RUN,
        field="static_kernels.values",
    ),
    Option(
        "super_kernel_optimize",
        False,
        _SWITCH,
        "Merge adjacent tasks between `torch.npu.super_kernel_scope_begin` and `_end`, or in "
        "`npugraph_ex.scope.super_kernel`, into one task: a super kernel.",
        phase=Phase.COMPILE,
        field="super_kernels.enabled",
    ),
    Option(
        "super_kernel_optimize_options",
        None,
        SUPER_KERNEL_OPTIMIZE,
        "With strict-scope-check 'abort', operators that cannot be part of a super kernel are an error; otherwise they "
        "stay tasks of their own. The other settings say how the cores of an NPU wait and cache, and change nothing on "
        "the host.",
        needs=["super_kernel_optimize"],
    ),
    Option(
        "super_kernel_debug_options",
        None,
        SUPER_KERNEL_DEBUG,
        "The sum of debug-aic-num and debug-aiv-num is the most threads that run a super kernel. By default all "
        "threads may run it. The other settings change nothing on the host.",
        needs=["super_kernel_optimize"],
        phase=Phase.COMPILE,
        field="super_kernels.workers",
        to_field=_threads,
    ),
    Option(
        "use_graph_pool",
        None,
        PoolHandle(),
        "Graphs with the same handle share the memory of their intermediate results, also graphs of different compiled "
        "functions.",
        phase=Phase.RUN,
        field="calls.rules.use_graph_pool",
    ),
    Option(
        "reuse_graph_pool_in_same_fx",
        True,
        _SWITCH,
        "True: captures of one graph for different sizes share the memory of their intermediate results and, with "
        "clone_output=False, the memory of their results. False: they share neither.",
        unset="they share the memory of intermediate results only",
        phase=Phase.RUN,
        field="calls.rules.reuse_graph_pool_in_same_fx",
    ),
    Option(
        "clone_input",
        True,
        _SWITCH,
        "True: copy inputs into memory of the graph at every call, except parameters and inputs that the graph writes "
        "or returns. False: read inputs where the inputs of the first call are; **the inputs of later calls are copied "
        "over the tensors of the first call**. Graphs of training read inputs where they are.",
        unset="inputs are read where they are, and nothing is copied",
        phase=Phase.RUN,
        field="calls.rules.clone_input",
        in_training=False,
    ),
    Option(
        "clone_output",
        False,
        _SWITCH,
        "True: results belong to the caller. False: results stay in memory of the graph, and **the next call "
        "overwrites them**. Results of training graphs always belong to the caller.",
        unset="results belong to the caller, without a copy",
        phase=Phase.RUN,
        field="calls.rules.clone_output",
        in_training=False,
    ),
    Option(
        "capture_limit",
        64,
        IntRange(1, 2**63 - 1),
        "The most captured graphs of one compiled graph. If a call needs one more, all of them are dropped with a "
        "warning, and the compiled graph runs without captures from then on.",
        unset="max_instances captured graphs are kept, and the least recently used one is dropped first",
        phase=Phase.RUN,
        field="calls.rules.capture_limit",
    ),
    Option(
        "force_recapture",
        False,
        _SWITCH,
        "Capture again before every run.",
        phase=Phase.RUN,
        field="calls.rules.force_recapture",
    ),
    Option(
        "capture_error_mode",
        "global",
        Choice("global", "thread_local", "relaxed"),
        "The threads that may neither wait for the npu (synchronize, item(), copies to the host) nor take raw memory "
        "of it (caching_allocator_alloc, empty_cache) while a call captures a graph. 'global': all threads. "
        "'thread_local': the thread that captures. 'relaxed': no thread.",
        unset="no thread is refused; both are harmless because captured operators have run",
        phase=Phase.RUN,
        field="calls.rules.capture_error_mode",
    ),
    Option(
        "frozen_parameter",
        False,
        _SWITCH,
        "Assume that the addresses of parameters are fixed. The graph reads the memory of the first call until "
        "artifact.refresh(), also after `p.data` has become another tensor.",
        phase=Phase.RUN,
        field="calls.rules.frozen_parameter",
    ),
    Option("verify", False, _SWITCH, "Verify the graph after every pass.", phase=Phase.COMPILE, field="verify"),
    Option(
        "max_instances",
        64,
        _COUNT,
        "The most captured Instances that one graph keeps.",
        phase=Phase.RUN,
        field="calls.max_instances",
    ),
    Option(
        "max_concurrent",
        4,
        _COUNT,
        "The most calls of one graph at the same time. Further calls wait.",
        phase=Phase.RUN,
        field="calls.max_concurrent",
    ),
)

_BY_NAME = {option.name: option for option in OPTIONS}
_PUBLIC = [name for name in _BY_NAME if not name.startswith("_")]  # the names that messages list

ANY = object()  # every value that makes a difference to an option that nobody set


@dataclasses.dataclass(frozen=True)
class Combination:
    """Options that do not go together: ``option`` with the value ``value`` has no effect if the options in ``beside``
    have their values there. ``reason`` explains this to people. With ``contradicts`` they cannot both be meant, so that
    it is an error."""

    option: str
    beside: Mapping[str, Any]
    reason: str
    value: Any = ANY
    contradicts: bool = False


_EAGER = {"force_eager": True}
_ORIGINAL = {"dump_tensor_data": True, "data_dump_stage": "original"}

# Runs without captures do by themselves what clone_input and clone_output ask for, so these two have no row.
COMBINATIONS: tuple[Combination, ...] = (
    *(
        Combination(name, _EAGER, "nothing is captured")
        for name in ("deadlock_check", "force_recapture", "capture_error_mode", "capture_limit", "max_instances")
    ),
    Combination(
        "reuse_graph_pool_in_same_fx",
        {"use_graph_pool": ANY},
        "all that compute in the pool of a handle share its memory",
        value=True,
    ),
    Combination("max_instances", {"capture_limit": ANY}, "all graphs within the limit are kept"),
    Combination(
        "dump_tensor_data",
        {"super_kernel_optimize": True, "data_dump_stage": "optimized"},
        "what one task computes inside has no tensors to dump; data_dump_stage='original' dumps those of the graph as "
        "it was written",
    ),
    *(
        Combination(name, _ORIGINAL, "the graph runs as it was written")
        for name in ("deadlock_check", "release_original_weights")
    ),
    *(
        Combination(name, {"generate_code": False}, "it is for generated code")
        for name in ("static_kernel_compile", "super_kernel_optimize")
    ),
    *(
        Combination(
            option.name,
            {"disable_passes": option.passes},
            "those are all that it switches on",
            value=True,
            contradicts=True,
        )
        for option in OPTIONS
        if option.passes and option.name != "remove_noop_ops"  # which switches an FX pass, too
    ),
)


class CompilerConfig:
    """The options of one backend. ``config.force_eager = True`` sets an option, ``config.force_eager.value`` reads it.

    Setting checks the value. It raises ``ValueError`` for an unknown name (the message lists the known ones) or a value
    that is not allowed, ``TypeError`` for a container or function of the wrong kind, ``FileNotFoundError`` for a
    directory that does not exist, ``RuntimeError`` for settings that super kernels do not have. docs/options.md
    describes each option.
    """

    _backend = BACKEND

    def __init__(self) -> None:
        object.__setattr__(self, "_settings", {o.name: Setting(o.default) for o in OPTIONS})

    def __setattr__(self, name: str, value: Any) -> None:
        self._settings[name] = Setting(_option(name, self._backend).check(value, self._backend), given=True)

    def __getattr__(self, name: str) -> Setting:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._settings[_option(name, self._backend).name]

    def __dir__(self) -> list[str]:
        return list(_BY_NAME)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompilerConfig:
        made = _of_backend(self._backend)
        made._settings.update((name, copy.copy(setting)) for name, setting in self._settings.items())
        return made

    def __repr__(self) -> str:
        changed = (f"{o.name}={self._settings[o.name].value!r}" for o in OPTIONS if not self.is_default(o.name))
        return f"CompilerConfig({', '.join(changed)})"

    def is_default(self, name: str) -> bool:
        """Whether an option acts as if nobody had set it."""
        option, setting = _BY_NAME[name], self._settings[name]
        return setting.value == option.default and not (option.unset and setting.given)

    def has(self, name: str, value: Any) -> bool:
        """Whether an option has this value. ANY stands for every value that makes a difference to an option that nobody
        set, and a tuple for every list that has its elements."""
        if value is ANY:
            return not self.is_default(name)
        held = self._settings[name].value
        return set(value) <= set(held) if isinstance(value, tuple) else held == value

    def asked(self, name: str) -> Any:
        """Returns the value that the user gave to an option, or None if the user gave none."""
        setting = self._settings[name]
        return setting.value if setting.given else None

    def as_dict(self) -> dict[str, Any]:
        """Returns the values of all options by name, in the order of the table."""
        return {name: setting.value for name, setting in self._settings.items()}


_ONE_MODE = "it has one mode, whose settings are in {}"


def parse(options: Mapping[str, Any] | None, mode: str | None = None, backend: str = BACKEND) -> CompilerConfig:
    """Checks the options that the user gave to ``torch.compile``, and returns them. ``backend`` is how messages name
    the one that compiles.

    Raises ``ValueError`` for an unknown name (the message lists the known ones), for a value that is not allowed, for
    options that contradict each other and for ``mode``; ``TypeError`` for a container or function of the wrong kind and
    for ``options`` that are no dict; ``FileNotFoundError`` for a directory that does not exist; ``RuntimeError`` for
    settings that super kernels do not have.
    """
    _refuse_mode(mode, backend, _ONE_MODE.format("options={...}"))
    config = _of_backend(backend)
    set_options(config, {"options": options})
    check_combinations(config)
    return config


def set_options(config: CompilerConfig, arguments: Mapping[str, Any]) -> None:
    """Sets the options that are ``arguments["options"]``, where ``arguments`` are those of ``torch.compile``. Raises as
    setting an option does, and ``TypeError`` for options that are no dict."""
    options = arguments.get("options")
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(
            f"options of backend {config._backend!r} takes a dict, got {options!r} ({type(options).__name__})"
        )
    for name, value in (options or {}).items():
        setattr(config, str(name), value)


def _of_backend(name: str) -> CompilerConfig:
    config = CompilerConfig()
    object.__setattr__(config, "_backend", name)  # it is no option
    return config


def backend_of(config: CompilerConfig) -> str:
    """How messages name the backend that compiles with these options."""
    return config._backend


def checked_config(config: CompilerConfig | None, name: str = "compiler_config") -> CompilerConfig:
    """Returns ``config``, or the defaults for None. Raises ``TypeError`` for an object of another kind, ``ValueError``
    for options that contradict each other."""
    if config is None:
        return parse(None)
    if not isinstance(config, CompilerConfig):
        raise TypeError(f"{name} is a CompilerConfig, got {config!r} ({type(config).__name__})")
    check_combinations(config)
    return config


def refuse_beside_config(mode: str | None, options: Mapping[str, Any] | None, backend: str) -> None:
    """Raises ``ValueError`` for arguments of ``torch.compile`` to a backend that was made with a configuration."""
    if backend == BACKEND:
        mode_instead, options_instead = _ONE_MODE.format("the compiler_config"), f", or use backend={BACKEND!r}"
    else:
        mode_instead, options_instead = "set compiler_config.mode", ""
    _refuse_mode(mode, backend, f"{mode_instead} of get_npu_backend")
    if options:
        raise ValueError(
            f"a backend of get_npu_backend takes no options, got options={options!r}; set them in its compiler_config"
            f"{options_instead}"
        )


def _refuse_mode(mode: str | None, backend: str, instead: str) -> None:
    if mode not in (None, "default"):
        raise ValueError(f"backend {backend!r} takes no mode, got mode={mode!r}; {instead}")


def check_combinations(config: CompilerConfig) -> None:
    """Raises ``ValueError`` for options that contradict each other. Gives one ``NpugraphWarning`` that names all
    options that have no effect beside the others."""
    idle = []
    for row in COMBINATIONS:
        if not (config.asked(row.option) is not None and config.has(row.option, row.value)):
            continue
        if not all(config.has(name, value) for name, value in row.beside.items()):
            continue
        if row.contradicts:
            raise ValueError(
                f"options of backend {config._backend!r} contradict each other: {row.option}={row.value!r} and "
                f"{_shown(config, row.beside)}: {row.reason}"
            )
        idle.append(f"{row.option!r} has no effect with {_shown(config, row.beside)}: {row.reason}")
    idle += _without_what_they_need(config)
    if idle:
        warnings.warn(f"{config._backend}: option {'; option '.join(idle)}", NpugraphWarning, stacklevel=3)


def _without_what_they_need(config: CompilerConfig) -> Iterator[str]:
    for option in OPTIONS:
        missing = [name for name in option.needs if config.is_default(name)]
        if missing and not config.is_default(option.name):
            yield f"{option.name!r} has no effect without {' and '.join(map(repr, missing))}"


def _shown(config: CompilerConfig, names: Iterable[str]) -> str:
    return " and ".join(f"{name}={getattr(config, name).value!r}" for name in names)


def disabled_passes(config: CompilerConfig) -> Sequence[str]:
    """Returns the names of all graph passes that the options switch off."""
    off = [name for option in OPTIONS if not getattr(config, option.name).value for name in option.passes]
    return [*config.disable_passes.value, *off]


def _option(name: str, backend: str) -> Option:
    found = _BY_NAME.get(name)
    if found is None:
        like = difflib.get_close_matches(name, _PUBLIC, n=1)
        hint = f"did you mean {like[0]!r}? The" if like else "the"
        raise ValueError(f"unknown option {name!r} of backend {backend!r}; {hint} options are: {_known()}")
    return found


def _known() -> str:
    return ", ".join(_PUBLIC)
