from __future__ import annotations

import pytest

from pipeline.run.verdict import DEFAULT_MARKS


@pytest.mark.parametrize(
    "text",
    [
        "507018",
        "aclrtSynchronizeStream failed: 507018",
        "E507899: driver internal error",
        "line\n507901\nline",
        "code=507010,device=3",
        "OSError: [Errno 28] No space left on device: 'y.npy'",
    ],
)
def test_what_a_sick_device_or_a_full_disk_prints_is_known(text: str) -> None:
    assert any(mark.pattern.occurs(text) for mark in DEFAULT_MARKS)


@pytest.mark.parametrize("text", ["", "1507018", "5070180", "offset 0x507018507018", "507 018"])
def test_other_numbers_that_hold_a_code_are_not_taken_for_it(text: str) -> None:
    assert not any(mark.pattern.occurs(text) for mark in DEFAULT_MARKS)
