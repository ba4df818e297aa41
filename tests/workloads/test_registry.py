"""Finding a declaration: by its name, or in a user's file, whose mistakes end in one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from workloads.base import Workload, WorkloadError
from workloads.registry import DEFAULT, SHIPPED, workload_named

MINE = """\
from __future__ import annotations

from dataclasses import dataclass, replace

from golden import gemm
from workloads.base import Kernel
from workloads.gemm import WORKLOAD as GEMM


@dataclass(frozen=True)
class Shapes:
    m: int
    k: Size


Size = int

WORKLOAD = replace(GEMM, definition=replace(gemm.DEFINITION, name="mine", geometry=Shapes))
"""


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(file: str, name: str = "mine") -> str:
    """The message of a refusal, which is one line."""
    with pytest.raises(WorkloadError) as caught:
        workload_named(name, file)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 4
    return message


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_workload_is_found_by_its_name(name: str) -> None:
    found = workload_named(name)
    assert isinstance(found, Workload)
    assert found.name == name
    assert found.definition.source is None
    assert workload_named(name) is found


def test_the_default_is_the_pair() -> None:
    assert DEFAULT == "conv-pair"
    assert DEFAULT in SHIPPED


def test_an_unknown_name_is_refused_with_the_closest() -> None:
    assert refusal("", "conv_pair") == "unknown workload 'conv_pair': the closest known name is `conv-pair`"
    assert refusal("", "gem") == "unknown workload 'gem': the closest known name is `gemm`"
    assert refusal("", "").startswith("unknown workload '': the closest known name is `")


def test_a_users_file_is_read_and_is_the_source_of_its_goldens(tmp_path: Path) -> None:
    file = written(tmp_path, MINE)
    found = workload_named("mine", file)
    assert found.name == "mine"
    assert found.definition.source == Path(file)
    assert found.kernel_names == ("gemm",)


def test_types_of_two_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    """A geometry's annotations are looked up in its module, long after the other file was loaded."""
    one = workload_named("mine", written(tmp_path, MINE, "one/mine.py"))
    other = workload_named("mine", written(tmp_path, MINE.replace("Size", "Depth"), "other/mine.py"))
    for workload in (one, other):
        shapes = msgspec.convert({"m": 3, "k": 4}, workload.definition.geometry)
        assert (shapes.m, shapes.k) == (3, 4)


def test_a_missing_file(tmp_path: Path) -> None:
    assert refusal(f"{tmp_path}/none.py") == f"{tmp_path}/none.py: there is no such file"
    assert refusal(f"{tmp_path}/none") == f"{tmp_path}/none: there is no such file"


def test_a_file_that_misses_another_is_told_from_a_missing_one(tmp_path: Path) -> None:
    file = written(tmp_path, "from pathlib import Path\nPath('/no/such/weights').read_bytes()\n")
    assert refusal(file) == (
        f"{file}:2: cannot be loaded: FileNotFoundError: "
        "[Errno 2] No such file or directory: '/no/such/weights'"
    )


def test_a_folder_and_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert refusal(f"{tmp_path}/folder.py").startswith(f"{tmp_path}/folder.py: cannot be loaded: ")
    file = written(tmp_path, MINE, "mine.txt")
    assert refusal(file) == f"{file}: is not a Python file: give it a name that ends in .py"


@pytest.mark.parametrize(
    ("text", "line"),
    [("x = 1\ny = (\n", 2), ("def f():\nreturn 1\n", 2), ("WORKLOAD = not a workload\n", 1)],
)
def test_a_file_that_is_not_python(text: str, line: int, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    assert refusal(file).startswith(f"{file}:{line}: is not Python: ")


def test_a_file_of_other_bytes_is_not_python(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    for content in (b"\0" * 20, b"x = '\xff'\n"):
        path.write_bytes(content)
        message = refusal(str(path))
        assert message.startswith(f"{path}:")
        assert "is not Python: " in message or "cannot be loaded: " in message
        assert "None" not in message


@pytest.mark.parametrize(
    ("text", "line", "error"),
    [
        ("import no_such_module\n", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f(n):\n    return 1 // n\n\nx = f(0)\n", 2, "ZeroDivisionError: "),
        ("raise ValueError('first line\\nsecond line')\n", 1, "ValueError: first line"),
        ("raise ValueError\n", 1, "ValueError"),
        ("import json\n\njson.loads('{')\n", 3, "JSONDecodeError: "),
        ("import sys\nsys.exit(0)\n", 2, "SystemExit: 0"),
        ("import ast\nast.parse('x = (')\n", 2, "SyntaxError: "),
    ],
)
def test_a_file_that_raises_is_refused_with_its_own_line(
    text: str, line: int, error: str, tmp_path: Path
) -> None:
    """The last line of the user's own that led to the error, wherever that was raised."""
    file = written(tmp_path, text)
    assert refusal(file).startswith(f"{file}:{line}: cannot be loaded: {error}")


def test_a_declaration_that_breaks_a_rule_is_refused_with_its_line(tmp_path: Path) -> None:
    text = MINE.replace(
        "WORKLOAD = replace(GEMM,", 'WORKLOAD = replace(GEMM, kernels=(Kernel("k", ("p",)),),'
    )
    file = written(tmp_path, text)
    line = 1 + text[: text.index("WORKLOAD = ")].count("\n")
    assert refusal(file) == (
        f"{file}:{line}: workload mine: kernel 'k' runs program 'p', which is not declared: declared are gemm"
    )
    file = written(tmp_path, "from golden.geometry import GemmGeometry\n\nGemmGeometry(24, 32, 32)\n", "g.py")
    assert refusal(file) == f"{file}:3: m is 24: must be a positive multiple of 16"


@pytest.mark.parametrize("text", ["", "WORKLOAD = 'mine'\n", "workload = None\n", "WORKLOAD = None\n"])
def test_a_file_that_declares_none(text: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    assert refusal(file) == f"{file}: declares no workload: it must assign a Workload to WORKLOAD"


def test_a_file_whose_workload_has_another_name(tmp_path: Path) -> None:
    file = written(tmp_path, MINE)
    assert refusal(file, "yours") == (
        f"{file}: declares the workload 'mine': name it so in the matrix, or call it 'yours'"
    )


def test_a_file_that_was_broken_is_read_again(tmp_path: Path) -> None:
    file = written(tmp_path, "WORKLOAD = (\n")
    assert "is not Python" in refusal(file)
    written(tmp_path, MINE)
    assert workload_named("mine", file).name == "mine"
