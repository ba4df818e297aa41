"""Finding a declaration: by its name, or in a user's file, whose mistakes end in one line."""

from __future__ import annotations

import importlib
import os
import types
from pathlib import Path

import msgspec
import pytest

import golden.gemm
from golden.geometry import GemmGeometry
from workloads import probe
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
    assert found.definition.sources == ()
    assert workload_named(name) is found


def test_the_default_is_the_pair() -> None:
    assert DEFAULT == "conv-pair"
    assert DEFAULT in SHIPPED


def test_an_unknown_name_is_refused_with_the_closest() -> None:
    assert refusal("", "conv_pair") == "unknown workload 'conv_pair': the closest known name is `conv-pair`"
    assert refusal("", "gem") == "unknown workload 'gem': the closest known name is `gemm`"
    assert refusal("", "stride-2-2").startswith("unknown workload 'stride-2-2': write one of conv-pair, ")


def test_a_users_file_is_read_and_is_the_source_of_its_goldens(tmp_path: Path) -> None:
    file = written(tmp_path, MINE)
    found = workload_named("mine", file)
    assert found.name == "mine"
    assert found.definition.sources == (Path(file),)
    assert found.kernel_names == ("gemm",)


def test_types_of_two_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    """A geometry's annotations are looked up in its module, long after the other file was loaded."""
    one = workload_named("mine", written(tmp_path, MINE, "one/mine.py"))
    other = workload_named("mine", written(tmp_path, MINE.replace("Size", "Depth"), "other/mine.py"))
    for workload in (one, other):
        shapes = msgspec.convert({"m": 3, "k": 4}, workload.definition.geometry)
        assert (shapes.m, shapes.k) == (3, 4)


def test_a_missing_file(tmp_path: Path) -> None:
    assert refusal(f"{tmp_path}/none.py") == f"{tmp_path}/none.py: there is no such file: name a Python file"
    assert refusal(f"{tmp_path}/none") == f"{tmp_path}/none" + ": there is no such file: name a Python file"


def test_a_file_that_misses_another_is_told_from_a_missing_one(tmp_path: Path) -> None:
    file = written(tmp_path, "from pathlib import Path\nPath('/no/such/weights').read_bytes()\n")
    assert refusal(file) == (
        f"{file}:2: cannot be loaded: FileNotFoundError: "
        "[Errno 2] No such file or directory: '/no/such/weights'"
    )


def test_a_folder_and_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert refusal(f"{tmp_path}/folder.py") == (
        f"{tmp_path}/folder.py: is not a regular file: name a Python file"
    )
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
        ("\nraise KeyboardInterrupt\n", 2, "KeyboardInterrupt"),
        ("raise GeneratorExit\n", 1, "GeneratorExit"),
        ("raise BaseException('no')\n", 1, "BaseException: no"),
        (
            "class Odd(Exception):\n    def __str__(self):\n        return 1 / 0\n\nraise Odd\n",
            5,
            "Odd",
        ),
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos._exit(0)\n", "cannot be loaded: it ended the process with exit code 0"),
        ("import os\nos._exit(3)\n", "cannot be loaded: it ended the process with exit code 3"),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
            "cannot be loaded: it ended the process with SIGKILL",
        ),
        (
            MINE + "import sys\nsys.stdout.close()\n",
            "closes sys.stdout or sys.stderr: leave both open",
        ),
        (
            MINE + "import sys\nsys.__stderr__.close()\n",
            "closes sys.stdout or sys.stderr: leave both open",
        ),
    ],
)
def test_a_file_that_ends_its_process_or_closes_its_streams(text: str, said: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    assert refusal(file) == f"{file}: {said}"


def test_a_file_that_never_ends_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in this process, where it would hang; and no job tries it again."""
    monkeypatch.setattr(probe, "LIMIT", 2.0)
    tries = tmp_path / "tries"
    tries.touch()
    file = written(tmp_path, f"open({str(tries)!r}, 'a').write('x')\nwhile True:\n    pass\n")
    assert refusal(file) == f"{file}: did not load within 2 s"
    assert refusal(file) == f"{file}: did not load within 2 s"
    assert len(tries.read_text()) <= 1  # the limit may have passed before the file was reached


def test_a_pipe_a_device_and_a_name_that_is_too_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    for path in (tmp_path / "pipe.py", Path("/dev/zero")):
        assert refusal(str(path)) == f"{path}: is not a regular file: name a Python file"
    long = f"{tmp_path}/{'long' * 100}.py"
    assert refusal(long) == f"{long}: cannot be read: File name too long: name another file"
    assert refusal(f"{tmp_path}/a\0b.py").endswith(": cannot be read: embedded null byte: name another file")


def test_what_a_file_prints_is_dropped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = MINE + "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\n"
    assert workload_named("mine", written(tmp_path, text)).name == "mine"
    assert capfd.readouterr() == ("", "")


def test_a_process_that_inherits_the_verdict_does_not_try_the_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, MINE)
    sources = probe.probed("mine", file)
    monkeypatch.setattr(probe, "_CODE", "raise AssertionError('tried again')")
    assert probe.probed("mine", file) == sources
    written(tmp_path, MINE + "changed = True\n")
    with pytest.raises(WorkloadError, match="ended the process with exit code 1"):
        probe.probed("mine", file)


@pytest.mark.parametrize("odd", ["", "[", "[" * 9999, "[]", "7", '{"a": 1}', '{"a": ["", [1]]}'])
def test_another_value_of_the_variable_is_no_verdict(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(probe.VARIABLE, odd)
    assert probe.probed("mine", written(tmp_path, MINE)) == (tmp_path / "mine.py",)


def test_helpers_in_the_folder_are_sources_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this process imported one before, so that all processes come to the same sources."""
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("own/registry_helper.py", "own/registry_parts/__init__.py", "own/registry_parts/one.py"):
        written(tmp_path, "", name)
    written(tmp_path, "", "registry_outside.py")
    written(tmp_path, "", "own/registry_unused.py")
    importlib.import_module("registry_helper")
    text = "import registry_helper, registry_outside\nfrom registry_parts import one\n" + MINE.replace(
        "from __future__ import annotations\n", ""
    ).replace("Size", "int").replace("int = int\n", "")
    file = written(tmp_path, text, "own/mine.py")
    assert workload_named("mine", file).definition.sources == (
        Path(file),
        tmp_path / "own/registry_helper.py",
        tmp_path / "own/registry_parts/__init__.py",
        tmp_path / "own/registry_parts/one.py",
    )


def test_neither_the_project_nor_installed_packages_are_sources_of_a_file_above_them() -> None:
    above = Path(golden.__file__).parents[1] / "mine.py"
    installed = types.ModuleType("installed")
    installed.__file__ = str(above.parent / "environment/lib/site-packages/installed.py")
    unknown = types.ModuleType("unknown")
    assert probe.helpers(str(above), [golden.gemm, installed, unknown]) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise SystemExit(0)", ":{line}: specs of workload mine: SystemExit: 0"),
        ("return geometry.nothing", ":{line}: specs of workload mine: AttributeError: "),
        ("return None", ": specs of workload mine: returns NoneType: must be a tuple of TensorSpec"),
        ("return (1, 2)", ": specs of workload mine: returns tuple: must be a tuple of TensorSpec"),
    ],
)
def test_specs_that_fail_for_a_geometry(body: str, said: str, tmp_path: Path) -> None:
    """Of the example they are right, so that the file can be loaded."""
    text = f"""\
from dataclasses import replace
from workloads.gemm import WORKLOAD as GEMM

def specs(geometry):
    if geometry == GEMM.example:
        return GEMM.definition.specs(geometry)
    {body}

WORKLOAD = replace(GEMM, definition=replace(GEMM.definition, name="mine", specs=specs))
"""
    file = written(tmp_path, text)
    definition = workload_named("mine", file).definition
    with pytest.raises(WorkloadError) as caught:
        definition.specs(GemmGeometry(16, 64, 96))
    assert str(caught.value).startswith(file + said.format(line=7))
