"""Every row of the given list of configuration that must be refused, each where it may stand in a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pipeline.commands.cli import main

Edit = tuple[str, str]
"""A piece of the sound matrix and what is written in its place."""

ENABLED = ("    soc: a2a3\n", "    soc: a2a3\n    required: {}\n")
DEVICES = ("devices: [0, 1]", "devices: {}")
TIMEOUT = ("timeout: 90s", "timeout: {}")
HEIGHT = ("height: 24", "height: {}")
BAND = ("height: 24\n", "height: 24\n    band_rows: {}\n")
CHANNELS = ("cin: 64", "cin: {}")
CONV1 = ("conv1: {kernel: 3, stride: 2, padding: 1}", "conv1: {}")


def edit(place: Edit, written: str) -> Edit:
    return place[0], place[1].replace("{}", written)


EXCLUDE_NOTHING = ("lanes:\n", "exclude:\n  - {jobs: device/emu/tini/*, reason: none}\nlanes:\n")
EXPECT_NOTHING = (
    "lanes:\n",
    "expected_failures:\n  - {jobs: device/emu/tiny/fusd/small, reason: r, link: 'https://x.example/1'}\nlanes:\n",
)
UNUSED = (
    "platforms:\n",
    "  idle: {height: 24, width: 16, cin: 32, cmid: 32, cout: 32, " + CONV1[0] + ", conv2: "
    "{kernel: 3, stride: 1, padding: 1}}\nplatforms:\n",
)
BOMB = "\n".join(
    ["x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    + [f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 9)]
    + ["geometries:\n"]
)

ROWS: Mapping[str, list[tuple[Edit, list[str]]]] = {
    "the same key twice in one mapping, at any depth": [
        (("lanes:\n", "lanes: {}\nlanes:\n"), ["written again", "first on line 15", ":16: lanes"]),
        (edit(CONV1, "{kernel: 3, stride: 2, kernel: 3, padding: 1}"), ["conv1.kernel", "written again"]),
    ],
    "`band_rows: 010`": [
        (edit(BAND, "010"), ["matrix.yaml:4: geometries.tiny.band_rows", "write 10 or 0o10"]),
        (edit(BAND, "0"), ["matrix.yaml:4: geometries.tiny.band_rows", "at least 1"]),
    ],
    "`timeout: 12:30`": [
        (
            edit(TIMEOUT, "12:30"),
            ["lanes.compile.timeout", "a duration is `90s`, `5m`, `1h30m` or a number of seconds"],
        ),
    ],
    "`enabled: no`, `name: off`, a platform called `on`": [
        (edit(ENABLED, "no"), ["platforms.emu.required", "`no`", "write true or false"]),
        (edit(ENABLED, "off"), ["platforms.emu.required", "`off`", "write true or false"]),
        (("platforms: [emu]", "platforms: [on]"), ["`on` is no known platform", "`emu`"]),
    ],
    "`seed: 1_000`, `seed: 1e3`, `lower: 1e-3`": [
        (edit(HEIGHT, "1_000"), ["geometries.tiny.height", "underscores"]),
        (edit(HEIGHT, "1e3"), ["geometries.tiny.height", "expected `int`, got `float`"]),
        (edit(HEIGHT, "1e-3"), ["geometries.tiny.height", "expected `int`, got `float`"]),
    ],
    "`timeout: abc`, `-1`, `nan`, `0`": [
        (edit(TIMEOUT, written), ["matrix.yaml:17: lanes.compile.timeout", "a duration is"])
        for written in ("abc", "-1", "nan", "0", "0s", "true", "[5]")
    ],
    '`devices: 0-3`, `devices: [0, 0]`, `devices: [-1]`, `devices: "1,2"`': [
        (edit(DEVICES, "0-3"), ["platforms.emu.devices", "as a list, such as [0, 1]"]),
        (edit(DEVICES, "[0, 0]"), ["platforms.emu.devices[1]", "`0` is written again"]),
        (edit(DEVICES, "[-1]"), ["platforms.emu.devices[0]", "`-1`", "a device id, from 0"]),
        (edit(DEVICES, '"1,2"'), ["platforms.emu.devices", "as a list, such as [0, 1]"]),
        (edit(DEVICES, "[true]"), ["platforms.emu.devices[0]", "a device id, from 0"]),
    ],
    "two `<<` merge keys; an alias in a list of lists nine deep": [
        (edit(CONV1, "{<<: {kernel: 3}, <<: {stride: 2}, padding: 1}"), ["merge keys are not read"]),
        (("geometries:\n", BOMB), ["values with aliases written out"]),
    ],
    "a geometry nobody uses, an exclusion or expected failure that matches nothing, "
    "an unknown key with a near miss (`kernals`)": [
        (UNUSED, ["matrix.yaml:10: geometries.idle", "no lane uses it"]),
        (EXCLUDE_NOTHING, ["exclude[0].jobs", "matches no job", "device/emu/tiny/"]),
        (EXPECT_NOTHING, ["expected_failures[0].jobs", "matches no job", "`device/emu/tiny/fused/small`"]),
        (("kernels: [fused]", "kernals: [fused]"), ["include[0].kernals", "closest known name is `kernels`"]),
    ],
    "a geometry with 48 channels, stride 0, pad >= kernel, height smaller than the kernel, 10**9 wide": [
        (edit(CHANNELS, "0"), ["matrix.yaml:5: geometries.tiny.cin", "1..65504"]),
        (edit(CONV1, "{kernel: 3, stride: 0, padding: 1}"), ["geometries.tiny.conv1.stride", "1..255"]),
        (
            edit(CONV1, "{kernel: 3, stride: 2, padding: 3}"),
            ["geometries.tiny.conv1.padding", "below the kernel"],
        ),
        (
            edit(CONV1, "{kernel: 25, stride: 2, padding: 0}"),
            ["geometries.tiny.conv1", "height is 24", "at least the kernel"],
        ),
        (("width: 16", "width: 1000000000"), ["geometries.tiny.width", "1..65535"]),
    ],
}

FILES = "an empty file, a list at the top, a tab indent, a non-UTF-8 byte, a BOM"


@pytest.fixture
def said_by_the_command_line(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What a user reads who lists the matrix that was written last: one line, and exit code 4."""

    def call() -> str:
        code = main(["list"])
        written = capsys.readouterr()
        assert (code, written.out) == (4, "")
        return written.err.removesuffix("\n")

    return call


def test_every_given_row_is_covered(cases: Path) -> None:
    rows = [line.split(" | ")[0].strip("| ") for line in (cases / "config.md").read_text().splitlines()]
    given = {row for row in rows if row and not row.startswith(("#", "written", "-"))}
    assert given == {*ROWS, FILES}


@pytest.mark.parametrize(
    ("change", "said"), [case for cases_of_row in ROWS.values() for case in cases_of_row]
)
def test_it_is_refused_with_file_line_and_key(
    change: Edit,
    said: list[str],
    sound: str,
    refusal: Callable[..., str],
    said_by_the_command_line: Callable[[], str],
) -> None:
    assert change[0] in sound
    message = refusal(sound.replace(change[0], change[1], 1))
    assert message.startswith("matrix.yaml:")
    assert said_by_the_command_line() == message
    for part in said:
        assert part in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "matrix.yaml:1: is empty"),
        (b"- geometries\n", "matrix.yaml:1: the top must be a mapping"),
        (b"lanes:\n\tcompile: {}\n", "matrix.yaml:2: there is a tab"),
        (b"lanes: \xe9\n", "matrix.yaml:1: byte 0xe9 is not UTF-8"),
        (b"\xef\xbb\xbflanes: {}\n", "matrix.yaml:1: starts with a byte order mark"),
    ],
)
def test_files_that_are_no_matrix(
    text: bytes, said: str, refusal: Callable[..., str], said_by_the_command_line: Callable[[], str]
) -> None:
    message = refusal(text)
    assert message.startswith(said)
    assert said_by_the_command_line() == message
