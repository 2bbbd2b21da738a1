# SPDX-License-Identifier: Apache-2.0
"""Plants small faults into sources. A fault does nothing until the environment variable PLANTED_FAULTS, a list
with commas, has its number, so that one build holds all of them. If PLANTED_FAULTS_REACHED names a file, each test
that comes to the place of a fault writes a line there: the number, and the file of the test or the name of the program.

A fault is a line that does something else: a condition is negated, a call or `continue` is left out, a truth value is
turned round, a 1 that is added or subtracted becomes a 0. Lines are chosen by a generator of random numbers, from the
sources as they are."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator
from pathlib import Path

CPP_SWITCH = """\
#pragma once
#include <errno.h>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
inline void reach_planted_fault(const char* log, int number) {
  static std::mutex mutex;
  static auto* said = new std::set<std::string>;
  const char* current = std::getenv("PYTEST_CURRENT_TEST");
  std::string test = current != nullptr ? current : program_invocation_short_name;
  std::string line = std::to_string(number) + " " + test.substr(0, test.find("::")) + "\\n";
  std::lock_guard lock(mutex);
  if (!said->insert(line).second) return;
  std::FILE* file = std::fopen(log, "a");
  std::fputs(line.c_str(), file);
  std::fclose(file);
}
inline const std::set<int>* chosen_faults() {
  auto* chosen = new std::set<int>;
  const char* text = std::getenv("PLANTED_FAULTS");
  std::istringstream list(text != nullptr ? text : "");
  for (std::string number; std::getline(list, number, ',');) chosen->insert(std::stoi(number));
  return chosen;
}
inline bool planted_fault(int number) {
  static const std::set<int>* chosen = chosen_faults();
  static const char* log = std::getenv("PLANTED_FAULTS_REACHED");
  if (log != nullptr) reach_planted_fault(log, number);
  return chosen->count(number) != 0;
}
"""
PYTHON_SWITCH = '''\
"""Says whether a fault is on."""
import os
_chosen = set(os.environ.get("PLANTED_FAULTS", "").split(","))
_said = set()
def planted_fault(number):
    if log := os.environ.get("PLANTED_FAULTS_REACHED"):
        line = f"{number} {os.environ.get('PYTEST_CURRENT_TEST', 'python').partition('::')[0]}\\n"
        if line not in _said:
            _said.add(line)
            with open(log, "a") as file:
                file.write(line)
    return str(number) in _chosen
'''

# Path of a file that is there while faults are -> its text.
SWITCHES = {"src/planted_fault.h": CPP_SWITCH, "python/npugraph/planted_fault.py": PYTHON_SWITCH}

# Each matches a whole line; `@@` is the call that says whether the fault is on.
_CPP = (
    (
        r"(\s*(?:\} else )?if )\((?!.*;.*\{)([^=;]*(?:[=!<>]=[^=;]*)*)\)( \{|\s.*;|)",
        r"\1(static_cast<bool>(\2) != @@)\3",
    ),
    (r"(\s+)([a-z_][\w.\[\]]*(?:->\w+)?\(.*\);)", r"\1if (!@@) \2"),
    (r"(\s+(?:if \(.*\) )?)(continue;)", r"\1if (!@@) \2"),
    (r"(\s+(?:if \(.*\) )?)return true;", r"\1return !@@;"),
    (r"(\s+(?:if \(.*\) )?)return false;", r"\1return @@;"),
    (r"(\s+.* [+-] )1((?:[ ;)\]]).*)", r"\1(1 - static_cast<int>(@@))\2"),
)
_PYTHON = (
    (r"(\s+(?:el)?if )([^:]*):", r"\1bool(\2) != @@:"),
    (r"(\s+)([a-z_][\w.\[\]]*\(.*\))", r"\1if not @@: \2"),
    (r"(\s+)(continue)", r"\1if not @@: \2"),
    (r"(\s+)return True", r"\1return not @@"),
    (r"(\s+)return False", r"\1return @@"),
    (r"(\s+.* [+-] )1((?:[ )\]]).*|)", r"\1(1 - @@)\2"),
)


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int
    path: Path
    line: int  # counted from 0
    before: str
    after: str


def candidates(path: Path) -> Iterator[tuple[int, str, str]]:
    """The lines of a file that can be changed: their index, how they read, and what they become."""
    is_cpp = path.suffix == ".cc"
    inside_text = False
    for index, line in enumerate(path.read_text().splitlines()):
        marks = line.count('R"(') + line.count(')"') if is_cpp else line.count('"""')
        if marks % 2:
            inside_text = not inside_text
        if inside_text or marks or "//" in line or "#" in line or "constexpr" in line or not _is_balanced(line):
            continue
        for pattern, replacement in _CPP if is_cpp else _PYTHON:
            found = re.fullmatch(pattern, line)
            if found:
                yield index, line, found.expand(replacement)
                break


def _is_balanced(line: str) -> bool:
    return line.count("(") == line.count(")") and line.count("[") == line.count("]")


def choose(folders: list[Path], count: int, seed: int, refused: set[tuple[Path, int]]) -> list[Fault]:
    """Chooses `count` faults, as many from each folder as from the others. `refused` are places that do not compile."""
    chosen = []
    for folder in folders:
        files = sorted(path for path in folder.rglob("*") if path.suffix in (".cc", ".py"))
        places = [(path, *place) for path in files for place in candidates(path)]
        random.Random(f"{seed} {folder.name}").shuffle(places)
        free = [place for place in places if place[:2] not in refused]
        chosen += free[: count // len(folders)]
    return [Fault(number, *place) for number, place in enumerate(chosen, 1)]


def plant(faults: list[Fault], root: Path) -> None:
    """Writes the faults into the files, which become one line longer at their first import or include."""
    for switch, text in SWITCHES.items():
        (root / switch).write_text(text)
    for path in {fault.path for fault in faults}:
        lines = path.read_text().splitlines(keepends=True)
        for fault in faults:
            if fault.path == path:
                lines[fault.line] = fault.after.replace("@@", f"planted_fault({fault.number})") + "\n"
        if path.suffix == ".cc":
            lines.insert(first_line(lines, "#include"), '#include "planted_fault.h"\n')
        else:
            lines.insert(first_line(lines, "from __future__") + 1, "from npugraph.planted_fault import planted_fault\n")
        path.write_text("".join(lines))


def first_line(lines: list[str], start: str) -> int:
    return next(index for index, line in enumerate(lines) if line.startswith(start))
