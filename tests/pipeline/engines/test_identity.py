from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.engines.identity import Framework, identify


def install(site: Path, version: str, *, files: tuple[str, ...] = (), listed: bool = True) -> None:
    """What pip leaves of a package called pypto: its metadata, its list of files, the files."""
    info = site / f"pypto-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pypto\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files if listed))
    for file in files:
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).touch()


@pytest.mark.parametrize(
    ("files", "framework"),
    [
        (("pypto/__init__.py", "pypto/frontend/__init__.py", "pypto/lib/configs/A2A3.ini"), Framework.CANN),
        (("pypto/__init__.py", "pypto/language/__init__.py"), Framework.HW_NATIVE_SYS),
        (("pypto/__init__.py", "pypto/other.py"), Framework.UNKNOWN),
    ],
)
def test_frameworks_of_one_version_are_told_apart_by_their_files(
    tmp_path: Path, files: tuple[str, ...], framework: Framework
) -> None:
    install(tmp_path, "0.1.0", files=files)

    found = identify([str(tmp_path)])

    assert (found.framework, found.version) == (framework, "0.1.0")


def test_an_editable_installation_is_known_by_its_folder(tmp_path: Path) -> None:
    install(tmp_path, "0.1.0", files=("pypto/language/__init__.py",), listed=False)

    assert identify([str(tmp_path)]).framework is Framework.HW_NATIVE_SYS


def test_no_package_is_named_as_such(tmp_path: Path) -> None:
    assert str(identify([str(tmp_path)])) == "no package called pypto"


def test_identifying_imports_nothing_of_the_package() -> None:
    before = set(sys.modules)
    identify()

    assert not any(name.split(".")[0] == "pypto" for name in set(sys.modules) - before)
