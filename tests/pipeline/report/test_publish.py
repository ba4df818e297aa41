from __future__ import annotations

import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pipeline.report.document import ReportError, Totals, publish

ONE = (
    b'<testsuites tests="1" failures="0" errors="0" skipped="0"><testsuite name="s" tests="1" failures="0" '
    b'errors="0" skipped="0"><testcase classname="c" name="n"/></testsuite></testsuites>'
)


def test_a_proved_report_stands_alone_in_its_folder_and_can_be_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "junit.xml"
    publish(path, lambda file: file.write(ONE), Totals(tests=1))
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o044
    assert ET.parse(path).getroot().get("tests") == "1"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (ONE, "it says 1 case, 0 failures, 0 errors, 0 skipped; the run says 2 cases"),
        (ONE[:-5], "not well-formed"),
        (ONE.replace(b'tests="1"', b'tests="2"', 1), "declares tests=2, but holds 1"),
    ],
)
def test_a_report_that_is_not_what_the_run_says_is_not_published(
    tmp_path: Path, data: bytes, why: str
) -> None:
    with pytest.raises(ReportError, match=why) as caught:
        publish(tmp_path / "junit.xml", lambda file: file.write(data), Totals(tests=2))
    assert len(str(caught.value).splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_half_file_and_says_so_in_one_line(tmp_path: Path) -> None:
    # A real refusal by the system: the process may write no file beyond 64 KiB.
    script = f"""
        import resource
        from pathlib import Path
        from pipeline.report.document import ReportError, Totals, publish
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        try:
            path = Path({str(tmp_path / "junit.xml")!r})
            publish(path, lambda file: file.write(b"x" * 1_000_000), Totals())
        except ReportError as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert (
        ran.stdout
        == f"{tmp_path / 'junit.xml'}: the report cannot be written: File too large; name another place\n"
    )
    assert ran.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ReportError, match=r"junit.xml: the report cannot be written: (Not a dir|File exists)"
    ):
        publish(tmp_path / "file" / "junit.xml", lambda file: file.write(ONE), Totals(tests=1))
