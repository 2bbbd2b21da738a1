# SPDX-License-Identifier: Apache-2.0
"""``after_import`` calls a function once a module has been imported, with any finder and loader."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from npugraph.after_import import after_import

PACKAGE = "npugraph_test_package"


class OneLoaderForAll(importlib.machinery.SourceFileLoader):
    """Finds and loads all modules of a package, as the loader of pytest does, which rewrites assertions."""

    def __init__(self, folder: Path) -> None:
        super().__init__(PACKAGE, str(folder / PACKAGE / "__init__.py"))
        self.folder = folder
        self.executed: list[str] = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None):
        if not name.startswith(PACKAGE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path or [str(self.folder)])
        spec.loader = self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        self.executed.append(module.__name__)
        exec(Path(module.__spec__.origin).read_text(), vars(module))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text(f"from {PACKAGE} import part\nvalue = part.value + 1\n")
    (package / "part.py").write_text("value = 1\n")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


def test_a_loader_of_many_modules_stays_as_it_is(folder: Path) -> None:
    loader = OneLoaderForAll(folder)
    sys.meta_path.insert(0, loader)
    seen: list[int] = []
    for _ in range(2):
        after_import(PACKAGE, lambda module: seen.append(module.value))
    before = dict(vars(loader))
    module = importlib.import_module(PACKAGE)
    assert seen == [2, 2] and loader.executed == [PACKAGE, f"{PACKAGE}.part"]
    assert vars(loader) == before and module.__loader__ is module.__spec__.loader is loader
    after_import(PACKAGE, lambda module: seen.append(-module.value))
    importlib.reload(module)
    assert seen == [2, 2, -2]


def test_what_cannot_be_done_after_an_import_is_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the function fails, the import fails with its error, and the next import calls the function again."""
    monkeypatch.syspath_prepend(str(folder))
    tries: list[int] = []

    def second_time(module: ModuleType) -> None:
        tries.append(module.value)
        if len(tries) == 1:
            raise ImportError("not yet")

    after_import(PACKAGE, second_time)
    with pytest.raises(ImportError, match="not yet"):
        importlib.import_module(PACKAGE)
    importlib.import_module(PACKAGE)
    assert len(tries) == 2
    importlib.reload(sys.modules[PACKAGE])
    assert len(tries) == 2


def test_who_only_looks_for_a_module_takes_nothing_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    seen: list[int] = []
    after_import(PACKAGE, lambda module: seen.append(module.value))
    assert importlib.util.find_spec(PACKAGE).loader.get_source(PACKAGE).startswith("from")
    (folder / PACKAGE / "part.py").write_text("raise ImportError('not yet')\n")
    with pytest.raises(ImportError, match="not yet"):
        importlib.import_module(PACKAGE)
    assert seen == []
    (folder / PACKAGE / "part.py").write_text("value = 11111\n")
    module = importlib.import_module(PACKAGE)
    assert seen == [11112] and inspect.getsource(module).startswith("from")
    assert isinstance(module.__loader__, importlib.machinery.SourceFileLoader)


def test_dynamo_is_imported_under_the_assertion_rewriting_of_pytest(tmp_path: Path) -> None:
    """The loader of pytest then loads torch._dynamo and its submodules."""
    (tmp_path / "conftest.py").write_text("import pytest\npytest.register_assert_rewrite('torch._dynamo')\n")
    (tmp_path / "test_import.py").write_text(
        "import torch\n"
        "import npugraph.counters\n"
        "npugraph.counters.install()\n"
        "def test_import():\n"
        "    import torch._dynamo.utils\n"
        "    assert type(torch._dynamo.utils.counters['npugraph_ex']) is npugraph.counters.ProcessCounts\n"
    )
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    run = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
