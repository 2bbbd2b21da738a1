# SPDX-License-Identifier: Apache-2.0
"""torch_npu.profiler, torch_npu.testing, torch_npu.utils."""

from __future__ import annotations

import csv
import json
import os
import re
import threading
import unittest
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.utils.collect_env
import torch_npu
from torch_npu import profiler
from torch_npu.profiler import dynamic_profile
from torch_npu.profiler.kernel_files import Kernel
from torch_npu.testing import common_utils
from torch_npu.testing.decorator import Dtypes, Formats, instantiate_ops_tests, instantiate_tests
from torch_npu.testing.testcase import TestCase

import npugraph
from npugraph.commands import env


def _work() -> None:
    (torch.ones(8, 8, device="npu") @ torch.ones(8, 8, device="npu")).relu()


def _traces(folder: Path) -> list[Path]:
    return sorted(folder.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"))


def test_a_profile_of_scheduled_steps(tmp_path: Path):
    config = profiler._ExperimentalConfig(
        profiler_level=profiler.ProfilerLevel.Level1,
        aic_metrics=profiler.AiCMetrics.PipeUtilization,
        export_type=[profiler.ExportType.Text, profiler.ExportType.Db],
    )
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
        schedule=profiler.schedule(wait=1, warmup=0, active=1, repeat=2, skip_first=1),
        on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), worker_name="me"),
        experimental_config=config,
    ) as prof:
        for _ in range(6):
            _work()
            prof.step()
    for _ in range(4):  # a loop may go on behind the block
        prof.step()
    traces = _traces(tmp_path)
    assert len(traces) == 2 and traces[0].parts[-3].startswith("me_")
    names = {event.get("name") for event in json.loads(traces[0].read_text())["traceEvents"]}
    assert "aten::mm" in names and "ProfilerStep#2" in names
    assert profiler.analyse(str(tmp_path)) is None
    (step,) = _table(traces[0], "step_trace_time")
    assert step["Step"] == "2" and float(step["Stage"]) > float(step["Computing"]) > 0


def _table(trace: Path, name: str) -> list[dict[str, str]]:
    with trace.with_name(f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "kind, core",
    [
        ("addmm", "AI_CORE"),
        ("_int_mm", "AI_CORE"),
        ("npu_grouped_matmul", "AI_CORE"),
        ("linear", "AI_CORE"),
        ("convolution", "AI_CORE"),
        ("_scaled_dot_product_flash_attention", "AI_CORE"),
        ("upsample_bilinear2d", "AI_VECTOR_CORE"),
        ("upsample_linear1d", "AI_VECTOR_CORE"),
        ("symmetric_quantize", "AI_VECTOR_CORE"),
        ("_c10d_functional::all_reduce", "HCCL"),
    ],
)
def test_the_cores_of_kernels(kind: str, core: str):
    assert Kernel("", kind, 0, 1).core == core


def test_the_tables_of_a_profile(tmp_path: Path):
    compiled = torch.compile(lambda x: (x @ x).relu().sin(), backend="npugraph_ex", fullgraph=True)
    compiled_on_the_host = torch.compile(lambda x: x.tan() + x.cumsum(0), backend="npugraph_ex", fullgraph=True)
    x, host = torch.ones(8, 8, device="npu"), torch.ones(8, 8)

    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x.t(), x).softmax(-1)

    graph = torch.npu.NPUGraph()
    with torch.no_grad():
        compiled(x)
        with torch.npu.graph(graph):
            x.cos()
        with profiler.profile(
            schedule=profiler.schedule(wait=1, warmup=0, active=2, repeat=1),
            on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)),
        ) as prof:
            for _ in range(3):
                work(x)
                work(host)
                compiled(x)
                compiled_on_the_host(host)
                graph.replay()
                prof.step()
    (trace,) = _traces(tmp_path)
    details = _table(trace, "kernel_details")
    of_step = [row for row in details if row["Step Id"] == "1"]
    assert [row["Type"] for row in of_step][:2] == ["mm", "_softmax"] and len(details) == 2 * len(of_step)
    assert [row["Type"] for row in of_step].count("cos") == 1  # a task of the replay, not also an operator
    assert not any("tan" in row["Name"] or "cumsum" in row["Name"] for row in details)
    assert {"mm", "_softmax", "cos"} < {row["Type"] for row in of_step}  # also tasks of the compiled graph
    product = of_step[0]
    assert product["Name"] == "aten::mm" and product["Accelerator Core"] == "AI_CORE" and product["Device_id"] == "0"
    assert product["Input Shapes"] == '"8,8;8,8"' and product["Input Data Types"] == "float32;float32"
    begins = [float(row["Start Time(us)"]) for row in details]
    assert begins == sorted(begins)
    statistic = _table(trace, "op_statistic")
    assert {row["OP Type"] for row in statistic} == {row["Type"] for row in details}
    for row in statistic:
        own = [float(one["Duration(us)"]) for one in details if one["Type"] == row["OP Type"]]
        assert int(row["Count"]) == len(own)
        for name, value in (("Total", sum(own)), ("Min", min(own)), ("Max", max(own)), ("Avg", sum(own) / len(own))):
            assert float(row[f"{name} Time(us)"]) == pytest.approx(value, abs=0.01)
    assert sum(float(row["Ratio(%)"]) for row in statistic) == pytest.approx(100, abs=0.1)
    steps = _table(trace, "step_trace_time")
    assert [row["Step"] for row in steps] == ["1", "2"]
    for row in steps:
        assert float(row["Communication"]) == float(row["Bubble"]) == 0
        assert float(row["Computing"]) + float(row["Free"]) == pytest.approx(float(row["Stage"]), abs=0.01)
        assert 0 <= float(row["Preparing"]) <= float(row["Free"])


def test_a_profile_without_steps_or_text(tmp_path: Path):
    for export_type, tables in ((profiler.ExportType.Text, 3), (profiler.ExportType.Db, 0)):
        folder = tmp_path / export_type
        config = profiler._ExperimentalConfig(export_type=export_type)
        handler = profiler.tensorboard_trace_handler(str(folder))
        with profiler.profile(on_trace_ready=handler, experimental_config=config):
            _work()
        (trace,) = _traces(folder)
        assert len(list(trace.parent.glob("*.csv"))) == tables
    (step,) = _table(_traces(tmp_path / "text")[0], "step_trace_time")
    assert step["Step"] == ""


def test_operators_of_a_profile():
    with profiler.profile() as prof:
        _work()
    assert common_utils.check_operators_in_prof(["aten::mm"], prof, ["aten::bmm"])
    assert not common_utils.check_operators_in_prof(["aten::bmm"], prof)
    assert not common_utils.check_operators_in_prof(["aten::mm"], prof, ["aten::relu"])


@pytest.mark.parametrize("recorded", [True, False])
def test_work_of_other_threads(recorded: bool):
    def work() -> None:
        if recorded:
            profiler.profile.enable_profiler_in_child_thread()
        torch.ones(3, 3, device="npu").atan()
        if recorded:
            profiler.profile.disable_profiler_in_child_thread()

    with profiler.profile() as prof:
        _work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert common_utils.check_operators_in_prof(["aten::atan"], prof) == recorded
    with profiler.profile() as prof:
        torch.ones(3, device="npu").sinh()
    assert {event.key: event.count for event in prof.key_averages()}["aten::sinh"] == 1


def test_what_a_profile_can_have():
    assert profiler.supported_activities() == {profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU}
    assert "Level0" in profiler.supported_profiler_level() and len(profiler.supported_ai_core_metrics()) == 9
    assert profiler.supported_export_type() == {"text", "db"}
    with pytest.raises(ValueError, match="profiler_level has 'Level9', allowed are Level0, Level1, Level2, Level_none"):
        profiler._ExperimentalConfig(profiler_level="Level9")
    with pytest.raises(ValueError, match="activities has 'GPU'"):
        profiler.profile(activities=["GPU"])
    with pytest.raises(TypeError, match="experimental_config is dict"):
        profiler.profile(experimental_config={})
    with pytest.raises(FileNotFoundError, match="there is no such directory"):
        profiler.analyse("/nowhere")


def test_a_file_switches_profiling_on(tmp_path: Path):
    config, traces = tmp_path / "profiler_config.json", tmp_path / "traces"
    dynamic_profile.init(str(tmp_path))
    for _ in range(2):
        _work()
        dynamic_profile.step()
    assert not _traces(traces)
    given = json.loads(config.read_text()) | {"prof_dir": str(traces), "active": 2, "start_step": 4}
    config.write_text(json.dumps(given))
    os.utime(config, ns=(1, 1))  # the clock of files may be too coarse to show the change
    for _ in range(6):
        _work()
        dynamic_profile.step()
    assert len(_traces(traces)) == 1
    dynamic_profile.set_state({"cur_step": 100})
    dynamic_profile.start(str(config))
    for _ in range(3):
        _work()
        dynamic_profile.step()
    assert len(_traces(traces)) == 2
    with pytest.raises(ValueError, match="expected a dictionary with 'cur_step'"):
        dynamic_profile.set_state({})


class _Case(TestCase):
    def runTest(self) -> None:
        """Does nothing."""


@pytest.mark.parametrize(
    "x, y, equal",
    [
        (torch.ones(4), torch.ones(4) * (1 + 5e-5), True),
        (torch.ones(4), torch.ones(4) * (1 + 5e-4), False),
        (torch.full((4,), 1e-6), torch.full((4,), 2e-6), True),  # the difference is within 1e-4
        (torch.full((4,), 1000.0), torch.full((4,), 1000.05), True),  # the relative difference is within 1e-4
        (torch.ones(4).half(), torch.ones(4).half() * 1.0005, True),
        (torch.ones(4).bfloat16(), torch.ones(4).bfloat16() * 1.01, False),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), False),
        (torch.ones(2), torch.ones(3), False),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.tensor([float("nan"), 1]), torch.tensor([float("nan"), 1]), True),
        (torch.tensor([float("nan"), 1]), torch.tensor([1, float("nan")]), False),
        (torch.tensor([float("inf")]), torch.tensor([float("inf")]), True),
        (torch.tensor([float("inf")]), torch.tensor([-float("inf")]), False),
        ([torch.ones(1), 2.0], [np.ones(1, np.float32), 2.0], True),
    ],
)
def test_comparisons_within_a_tolerance(x, y, equal: bool):
    case = _Case()
    if equal:
        case.assertRtolEqual(x, y)
    else:
        with pytest.raises(AssertionError):
            case.assertRtolEqual(x, y)


def test_a_few_elements_may_differ():
    x, y = torch.ones(20_000), torch.ones(20_000)
    y[:2] = 5
    _Case().assertRtolEqual(x.npu(), y)
    y[:3] = 5
    with pytest.raises(AssertionError, match="3 of 20000 elements differ, allowed are 2"):
        _Case().assertRtolEqual(x, y)
    _Case().assertRtolEqual(torch.ones(2), torch.ones(2).double(), auto_trans_dtype=True)


def test_other_assertions():
    case = _Case()
    x = torch.ones(2, device="npu")
    case.assertEqual(x, torch.ones(2))
    case.assertEqual(x.sum(), 2.0)
    case.assertEqual([1, (x, "a")], [1, (x + 1e-6, "a")])
    case.assertEqual(float("nan"), float("nan"))
    case.assertNotEqual(x, x + 1)
    case.assertAlmostEqual(1.0, 1.04, places=1)
    case.assertObjectIn(x, [1, x])
    case.assertWarns(lambda: warnings.warn("w", stacklevel=1))
    case.assertNotWarn(lambda: None)
    with case.maybeWarnsRegex(UserWarning, "some"):
        pass
    for call in (
        lambda: case.assertEqual(x, x + 1e-3),
        lambda: case.assertEqual(1.0, 1.1),
        lambda: case.assertEqual("a", "b"),
        lambda: case.assertNotEqual(x, x),
        lambda: case.assertObjectIn(object(), [1]),
        lambda: case.assertWarns(lambda: None),
    ):
        with pytest.raises(AssertionError):
            call()
    assert case.precision == 1e-5
    sparse, indices, values = case.genSparseTensor([4, 5], 2, 3, True)
    assert sparse.shape == (4, 5) and indices.shape == (2, 6) and values.shape == (6,)
    assert case.safeToDense(sparse).shape == (4, 5)


def test_each_test_starts_with_the_same_seeds():
    drawn = []
    for _ in range(2):
        _Case().setUp()
        drawn.append((torch.rand(1).item(), torch.rand(1, device="npu").item(), np.random.rand()))
    assert drawn[0] == drawn[1]


def test_tensors_of_tests():
    cpu, npu = common_utils.create_common_tensor([np.float16, 2, (3, 4)], -1, 1)
    assert cpu.dtype == torch.float16 and npu.device.type == "npu" and torch.equal(cpu, npu.cpu())
    assert cpu.abs().max() <= 1 and torch_npu.get_npu_format(npu) == 2
    for dtype in (torch.bool, torch.int32, torch.float32, torch.complex64):
        cpu, npu = common_utils.create_dtype_tensor((50,), dtype, no_zero=True)
        assert cpu.dtype == npu.dtype == dtype and bool((cpu != 0).all()) and torch.equal(cpu, npu.cpu())
    assert common_utils.get_npu_device() == "npu:0"
    assert list(common_utils.iter_indices(torch.ones(2, 2))) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert common_utils.is_iterable([]) and not common_utils.is_iterable(1)
    common_utils.test_2args_broadcast(torch.add)
    with common_utils.freeze_rng_state():
        x = torch.rand(2), torch.rand(2, device="npu")
    assert torch.equal(torch.rand(2), x[0]) and torch.equal(torch.rand(2, device="npu"), x[1])


def test_tests_that_are_skipped():
    def run() -> str:
        return "ran"

    assert common_utils.SupportedDevices(["Ascend910B"])(run)() == "ran"
    assert common_utils.SkipIfNotGteCANNVersion("8.0.0")(run)() == "ran"
    assert common_utils.SkipIfNoLapack()(run)() == "ran"
    assert common_utils.SkipIfNotRegistered()("why")(run)() == "ran"
    with pytest.raises(unittest.SkipTest, match="only on Ascend310P"):
        common_utils.SupportedDevices(["Ascend310P"])(run)()
    with pytest.raises(unittest.SkipTest, match=r"only from CANN 99\.0\.0 on"):
        common_utils.SkipIfNotGteCANNVersion("99.0.0")(run)()


def test_combined_tensors():
    tensors = [torch.full((2, 2), 1.0, device="npu"), torch.full((3,), 2.0, device="npu")]
    combined = torch_npu.utils.npu_combine_tensors(tensors)
    assert combined.tolist() == [1, 1, 1, 1, 2, 2, 2]
    assert torch_npu.utils.is_combined_tensor_valid(combined, tensors)
    combined.add_(1)
    assert tensors[0].tolist() == [[2, 2], [2, 2]] and tensors[1].tolist() == [3, 3, 3]
    assert torch_npu.utils.get_part_combined_tensor(combined, 4, 3).data_ptr() == tensors[1].data_ptr()
    tensors[1] = torch.ones(3, device="npu")
    assert not torch_npu.utils.is_combined_tensor_valid(combined, tensors)
    zeros = [torch.ones(2, device="npu")]
    assert torch_npu.utils.npu_combine_tensors(zeros, require_copy_value=False).tolist() == [0, 0]
    assert torch_npu.utils.npu_combine_tensors([]) is None
    assert torch_npu.utils.get_part_combined_tensor(None, 0, 3) is None
    with pytest.raises(ValueError, match=r"types differ: torch.float32, torch.int64"):
        torch_npu.utils.npu_combine_tensors([zeros[0], zeros[0].long()])
    with pytest.raises(ValueError, match="elements 6 to 9 of a tensor of 7"):
        torch_npu.utils.get_part_combined_tensor(combined, 6, 3)


def test_counted_operations():
    counter = torch_npu.utils.FlopsCounter()
    counter.start()
    x = torch.ones(4, 8, device="npu") @ torch.ones(8, 2, device="npu")
    counter.pause()
    x @ x.t()
    counter.resume()
    torch.ones(2, 2, device="npu") @ torch.ones(2, 2, device="npu")
    counter.stop()
    assert counter.get_flops() == [2 * 4 * 8 * 2 + 2 * 8] * 2


def test_saving_in_another_thread(tmp_path: Path):

    x = torch.ones(3, device="npu")
    torch_npu.utils.save_async({"x": [x], "n": 1}, tmp_path / "x.pt")
    x.zero_()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(60)
    from torch_npu.utils.serialization import load

    loaded = load(tmp_path / "x.pt")
    assert loaded["x"][0].tolist() == [1, 1, 1] and loaded["x"][0].is_cpu and loaded["n"] == 1


def test_cores_of_a_thread():
    before = os.sched_getaffinity(0)
    first = min(before)
    torch_npu.utils.set_thread_affinity([first, first])
    assert os.sched_getaffinity(0) == {first}
    torch_npu.utils.reset_thread_affinity()
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ValueError, match="core_range is"):
        torch_npu.utils.set_thread_affinity([3, 1])


def test_extensions_are_those_of_torch():
    from torch_npu.utils.cpp_extension import NpuExtension

    assert NpuExtension("mine", ["mine.cc"]).name == "mine"


def test_tests_for_each_type_and_format():
    seen = []

    @instantiate_tests
    class Cases:
        @Formats(2, 29)
        @Dtypes(torch.float16, torch.int32)
        def test_one(self, device, dtype, npu_format):
            seen.append((device, dtype, npu_format))

        @Dtypes(torch.int8)
        def test_other(self, dtype):
            seen.append(dtype)

        def test_as_it_is(self):
            seen.append("as it is")

    names = sorted(name for name in dir(Cases) if name.startswith("test"))
    assert names[0] == "test_as_it_is" and "test_one_float16_29_npu_0" in names and len(names) == 6
    for name in names:
        getattr(Cases(), name)()
    assert ("npu:0", torch.int32, 29) in seen and torch.int8 in seen and len(seen) == 6
    with pytest.raises(ValueError, match="Dtypes: name at least one type"):
        Dtypes()
    with pytest.raises(ValueError, match="Formats: name at least one format"):
        Formats()


def test_tests_for_each_operator():
    from torch.testing._internal.common_methods_invocations import op_db

    seen = []

    @instantiate_ops_tests([one for one in op_db if one.formatted_name in ("clone", "abs")])
    class Cases:
        @Dtypes(torch.float16, torch.int32)
        @Formats(2)
        def test_one(self, device, dtype, op, npu_format):
            sample = next(iter(op.sample_inputs(device, dtype)))
            seen.append((op.formatted_name, op(sample.input).device.type, dtype, npu_format))

        def test_types_of_the_operator(self, op, dtype):
            seen.append((op.formatted_name, dtype))

        def test_without_operators(self):
            seen.append("once")

    names = [name for name in dir(Cases) if name.startswith("test")]
    assert "test_one_abs_float16_2_npu_0" in names
    for name in names:
        getattr(Cases(), name)()
    assert ("abs", "npu", torch.int32, 2) in seen and ("clone", "npu", torch.float16, 2) in seen
    assert ("abs", torch.bool) not in seen and ("clone", torch.bool) in seen and seen.count("once") == 1


def test_tests_of_torch_for_each_device():
    from torch.testing._internal import common_device_type
    from torch.testing._internal.common_methods_invocations import op_db

    class TestThings(torch.testing._internal.common_utils.TestCase):
        @common_device_type.dtypes(torch.float16, torch.int32)
        def test_types(self, device, dtype):
            self.assertEqual(torch.ones(2, device=device, dtype=dtype).device.type, "npu")

        @common_device_type.ops([one for one in op_db if one.name == "abs"], allowed_dtypes=[torch.float32])
        def test_operators(self, device, dtype, op):
            for sample in op.sample_inputs(device, dtype):
                self.assertEqual(op(sample.input).cpu(), op(sample.input.cpu()))

    scope = {"TestThings": TestThings}
    common_device_type.instantiate_device_type_tests(TestThings, scope, only_for="npu")
    (made,) = scope.values()
    suite, result = unittest.defaultTestLoader.loadTestsFromTestCase(made), unittest.TestResult()
    suite.run(result)
    assert result.testsRun == 3 and result.wasSuccessful() and not result.skipped, result


def test_types_and_samples_of_operators():
    from torch_npu.testing import common_methods_invocations as samples
    from torch_npu.testing.npu_opinfo_dtypes import NPU_OPINFO_DTYPES

    assert torch.float32 in NPU_OPINFO_DTYPES["abs"] and torch.bool not in NPU_OPINFO_DTYPES["abs"]
    given = list(samples.sample_inputs_normal_tensor_second(None, "npu", torch.float32, False))
    assert len(given) == 8
    for sample in given:
        torch.manual_seed(0)
        drawn = torch.normal(sample.input, *sample.args)
        torch.manual_seed(0)
        noise = torch.randn(drawn.shape, device="npu")
        torch.testing.assert_close(drawn, noise * sample.args[0] + sample.input)
    given = list(samples.sample_inputs_median_custom(None, "npu", torch.float32, True))
    assert len(given) == 12 and all(sample.input.requires_grad and sample.input.is_npu for sample in given)
    for sample in given:
        assert sample.input.unique().numel() == sample.input.numel()
        torch.median(sample.input, *sample.args)


def test_a_report_of_the_machine():
    from torch_npu.utils import collect_env

    of_torch = torch.utils.collect_env
    nothing = of_torch.SystemEnv(*[""] * len(of_torch.SystemEnv._fields))
    text = collect_env.pretty_str(collect_env.EnvInfo(nothing, "2.13.0", "9.9.0", 2, "A"))
    assert "torch_npu version: 2.13.0" in text and "npu devices: 2 x A" in text
    path = collect_env.get_torch_npu_install_path()
    assert collect_env.check_path_owner_consistent(path) and collect_env.check_directory_path_readable(path) is None
    assert collect_env.get_torch_npu_version() == torch_npu.__version__
    with pytest.raises(RuntimeError, match="is not a directory that can be read"):
        collect_env.check_directory_path_readable(path + "/__init__.py")


def test_the_page_of_npugraph_tells_whose_torch_npu_it_is():
    (line,) = (line for line in env.page().splitlines() if line.startswith("torch_npu"))
    assert line.split(maxsplit=1)[1] == (
        f"{npugraph.__version__}, npugraph's, which calls itself {torch_npu.__version__} as torch does"
    )


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_measures_of_collectives(monkeypatch, tmp_path: Path):
    from torch_npu.utils import collect_hccl_info as hccl

    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.delenv("MPI_HOME", raising=False)
    with pytest.raises(RuntimeError, match="hccl_test is part of Ascend's toolkit, and ASCEND_HOME_PATH is not set"):
        hccl.execute_hccl_test_single_node()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"ASCEND_HOME_PATH has no hccl_test: .*tools/hccl_test is no directory"):
        hccl.get_tool_path()
    (tmp_path / "tools" / "hccl_test").mkdir(parents=True)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert not hccl.is_compiled()
    with pytest.raises(RuntimeError, match="MPI_HOME is not set, and there is no mpirun"):
        hccl.compile_hccl_test()

    # A toolkit and an MPI that record how they are called.
    _program(tmp_path / "mpi" / "bin" / "mpirun", f'echo "$@" > {tmp_path}/called')
    monkeypatch.setenv("PATH", f"{tmp_path}/mpi/bin")
    assert hccl.get_mpi_install_path() == str(tmp_path / "mpi")
    monkeypatch.setenv("MPI_HOME", str(tmp_path / "mpi"))
    _program(tmp_path / "bin" / "make", f'echo "$@" > {tmp_path}/made')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{path}")
    hccl.execute_hccl_test_single_node()
    made = (tmp_path / "made").read_text()
    assert f"-C {hccl.get_tool_path()}" in made and f"MPI_HOME={tmp_path}/mpi ASCEND_DIR={tmp_path}" in made
    assert hccl.get_exe_hccl_test() in (tmp_path / "called").read_text()
    _program(Path(hccl.get_exe_hccl_test()), "")
    assert hccl.is_compiled()


@pytest.mark.parametrize("kind, traces", [("TORCH", 1), (None, 0)])
def test_a_profile_of_one_step(kind: str | None, traces: int, tmp_path: Path):
    from torch_npu.utils.profiler import Profile, Singleton

    profile = Profile(start_step=1, save_path=str(tmp_path), profile_type=kind)
    for _ in range(3):
        profile.start()
        _work()
        profile.end()
    assert len(_traces(tmp_path)) == traces
    one = Singleton(dict)
    assert one(a=1) is one(b=2) == {"a": 1}
    with pytest.raises(ValueError, match="profile_type is 'X', allowed are None, TORCH, CANN and GE"):
        Profile(profile_type="X")


def test_numbers_to_compare_with(tmp_path: Path):
    path = str(tmp_path / "baseline.json")
    baseline = common_utils.Baseline(path)
    assert baseline.get_baseline("speed") is None
    baseline.set_baseline("speed", 3)
    baseline.save_baseline()
    assert common_utils.Baseline(path).get_baseline("speed") == 3
    baseline.set_baseline("speed", 4)
    common_utils.dump_baseline()
    assert common_utils.Baseline(path).get_baseline("speed") == 4


def test_the_clock_of_events():
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    begin.record()
    _work()
    end.record()
    cycles = end.recorded_time() - begin.recorded_time()
    assert cycles / common_utils.get_cycles_per_ms() == pytest.approx(begin.elapsed_time(end), rel=1e-3)


def test_tests_of_several_processes(tmp_path: Path):
    from torch_npu.testing import common_distributed

    assert common_distributed.skipIfUnsupportMultiNPU(2)(lambda: "ran")() == "ran"
    with pytest.raises(unittest.SkipTest, match="only with 99 npu devices"):
        common_distributed.skipIfUnsupportMultiNPU(99)(lambda: "ran")()
    common_distributed.init_pg("gloo", file_name=f"file://{tmp_path}/meet")
    try:
        assert torch.distributed.get_world_size() == 1
    finally:
        torch.distributed.destroy_process_group()

    class Case:
        rank, world_size, file_name = 0, 1, f"{tmp_path}/other"

        @common_distributed.with_comms
        def test(self, values):
            torch.distributed.all_reduce(values)
            return torch.distributed.get_backend(), torch.npu.current_device()

    assert Case().test(torch.ones(2, device="npu")) == ("hccl", 0)
    assert not torch.distributed.is_initialized()


def test_the_code_of_the_first_page(capsys) -> None:
    readme = Path(__file__).parents[4] / "README.md"
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL) if ".npu()" in block
    )
    exec(code, {})
    assert capsys.readouterr().out.startswith("npu:0 ")
