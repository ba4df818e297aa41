from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from golden.geometry import Conv, Geometry
from pipeline.ground.jobs import Platform, PlatformKind, WorkloadName
from pipeline.ground.subject import geometry_of
from pipeline.matrix.load import load
from pipeline.matrix.schema import Matrix
from pipeline.matrix.strict_yaml import MatrixError
from workloads.registry import workload_named

LoadText = Callable[..., Matrix]
Refusal = Callable[..., str]


def test_facts_are_those_written(load_text: LoadText, sound: str) -> None:
    matrix = load_text(sound)
    assert set(matrix.geometries) == {"tiny"}
    tiny = matrix.geometries["tiny"]
    assert (tiny.workload, tiny.plan_options) == (WorkloadName("conv-pair"), {})
    assert tiny.declaration is workload_named("conv-pair")
    expected = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
    assert geometry_of(tiny.declaration, tiny.shapes) == expected
    assert matrix.platforms == {"emu": Platform("emu", "emulator", "a2a3", "vreq8", (0, 1), required=False)}
    assert matrix.document.lanes.compile.timeout == 90
    assert matrix.document.lanes.device.timeout == 300


def test_what_is_not_written_has_a_limit_all_the_same(load_text: LoadText, sound: str) -> None:
    matrix = load_text(sound.replace("    timeout: 90s\n", ""))
    assert matrix.document.lanes.compile.timeout == matrix.document.lanes.compare.timeout == 600


@pytest.mark.parametrize(
    ("piece", "instead", "said"),
    [
        ("    soc: a2a3\n", "", "matrix.yaml:11: platforms.emu: has no `soc`"),
        (
            "soc: a2a3",
            "soc: a2a4",
            "platforms.emu.soc: `a2a4` is no known soc; the closest known name is `a2a3`",
        ),
        ("backend: emulator", "backend: emulater", "the closest known name is `emulator`"),
        ("soc: a2a3", "soc: a2a3\n    variant: half-awry", "the closest known name is `half-away`"),
        (
            "[fused, two-pass]",
            "[fused, twopass]",
            "kernels[1]: `twopass` is no known kernel; the closest known name is",
        ),
        (
            "[fused, two-pass]",
            "[fused, gemm]",
            "kernels[1]: `gemm` is a kernel of workload gemm, and geometry tiny is one of conv-pair; "
            "write it in a block whose geometries are of gemm",
        ),
        ("geometries: [tiny]", "geometries: [tinny]", "`tinny` is no known geometry"),
        (
            "height: 24",
            "height: 24\n    band_rows: [1]",
            "geometries.tiny.band_rows: expected `int`, got `array`; write output rows",
        ),
        (
            "profiles: [small, small@7]",
            "verify: small",
            "lanes.device.include[0].verify: is not a key of this mapping; "
            "write one of `platforms`, `geometries`, `kernels`, `profiles`",
        ),
        (
            "timeout: 90s",
            "verify: small",
            "lanes.compile.verify: is not a key of this mapping; write one of `timeout`, `include`",
        ),
        ("timeout: 90s", "timeuot: 90s", "is not a key of this mapping; the closest known name is `timeout`"),
        (
            "[small, small@7]",
            "[smal]",
            "matrix.yaml:28: lanes.device.include[0].profiles[0]: unknown profile",
        ),
        ("[small, small@7]", "[small@seven]", "the seed must be a plain number"),
        ("[small, small@7]", "[small, small]", "profiles[1]: `small` is written again"),
        ("tiny:", "Tiny!:", "matrix.yaml:2: geometries.Tiny!: `Tiny!`: expected `str` matching"),
        ("platforms: [emu]", "platforms: []", "expected `array` of length >= 1; write a list of names"),
        (
            "lanes:",
            "retries: {patterns: ['(']}\nlanes:",
            "retries.patterns[0]: `(` is not a regular expression",
        ),
        ("lanes:", "retries: {patterns: ['a{1001}']}\nlanes:", "is not a regular expression"),
        (
            "lanes:",
            "retries: {patterns: ['EL0004', '507018(?!\\d)']}\nlanes:",
            r"matrix.yaml:15: retries.patterns[1]: `507018(?!\d)` is not a regular expression: "
            "invalid perl operator: (?!; look-around and back-references are not supported, "
            "because a search must take linear time",
        ),
        ("lanes:", "retries: {patterns: ['a*']}\nlanes:", "matches empty text and so every job"),
        (
            "height: 24",
            "height: 24\n    band_rows: 50",
            "matrix.yaml:4: geometries.tiny.band_rows: `50` cannot be tiled on a2a3: band_rows is 50: ",
        ),
        ("lanes:", "retries: {limit: -1}\nlanes:", "retries.limit: `-1`: expected `int` >= 0"),
        ("lanes:", "timeouts: [{jobs: x, timeout: 5m}]\nlanes:", "timeouts[0].jobs: `x` matches no job"),
        (
            "lanes:",
            "expected_failures: [{jobs: '*', reason: r, link: nowhere}]\nlanes:",
            "expected_failures[0].link: `nowhere`: expected `str` matching",
        ),
        (
            "lanes:",
            "expected_failures: [{jobs: '*', reason: r, link: 'http://x', cause: bias-mising-2}]\nlanes:",
            "expected_failures[0].cause: `bias-mising-2` is no known fault; the closest known "
            "name is `bias-missing-2`",
        ),
        (
            "lanes:",
            "expected_failures: [{jobs: '*', reason: r, link: 'http://x', fingerprint: ''}]\nlanes:",
            "expected_failures[0].fingerprint: ",
        ),
        *(
            (
                "lanes:",
                "expected_failures: [{jobs: '*', reason: r, link: 'http://x', "
                f"{cause}fingerprint: '{written}'}}]\nlanes:",
                f"expected_failures[0].fingerprint: `{written}` is that of no failure that can be excused; "
                f"it must be {wanted}",
            )
            for cause, written, wanted in (
                ("", "passed", "`mismatch ...` or `refuted ...` or `compile-error ...` or `performance ...`"),
                ("", "crashed exit code #", "`mismatch ...` or `refuted ...` or "),
                ("", "mismatch", "`mismatch ...` or `refuted ...` or "),
                ("", "Mismatch fused", "`mismatch ...` or `refuted ...` or "),
                (
                    "cause: bias-missing-2, ",
                    "compile-error x",
                    "`mismatch ...`, as its entry has a cause",
                ),
            )
        ),
        (
            "lanes:",
            "expected_failures: [{jobs: '*', reason: r, link: 'http://x', until: 2026-02-30}]\nlanes:",
            "expected_failures[0].until: `2026-02-30`:",
        ),
        (
            "platforms:\n",
            "platforms:\n  idle: {backend: emulator, soc: a5}\n",
            "matrix.yaml:11: platforms.idle: no lane uses it",
        ),
    ],
)
def test_refusals_name_file_line_key_and_remedy(
    piece: str, instead: str, said: str, sound: str, refusal: Refusal
) -> None:
    message = refusal(sound.replace(piece, instead, 1))
    assert message.startswith("matrix.yaml:")
    assert said in message


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("smal", "unknown profile 'smal': did you mean 'small'?"),
        ("small@seven", "profile 'small@seven': the seed must be a plain number"),
        ("", "has no value; write one or remove the key"),
        ("null", "has no value; write one or remove the key"),
        ("7", "`7`: expected `str`, got `int`; write one data profile, such as full-range@7"),
        ("[small]", "expected `str`, got `array`; write one data profile, such as full-range@7"),
    ],
)
def test_verification_is_on_one_known_profile(
    written: str, said: str, verifying: Callable[[str], str], refusal: Refusal
) -> None:
    assert refusal(verifying(written)).startswith(f"matrix.yaml:22: lanes.compile.include[0].verify: {said}")


def test_the_compile_lane_verifies_nothing_on_cards(
    verifying: Callable[[str], str], refusal: Refusal, load_text: LoadText
) -> None:
    on_cards = verifying("small").replace("backend: emulator", "backend: pypto\n    kind: card")
    assert refusal(on_cards) == (
        "matrix.yaml:23: lanes.compile.include[0].verify: "
        "emu runs on cards, and the compile lane uses none; verify it in the device lane"
    )
    simulated = on_cards.replace("kind: card", "kind: simulator")
    assert load_text(simulated).document.lanes.compile.include[0].verify == "small"


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("backend: emulator", PlatformKind.HOST),
        ("backend: emulator\n    kind: host", PlatformKind.HOST),
        ("backend: cann", PlatformKind.HOST),
        ("backend: pypto\n    kind: card", PlatformKind.CARD),
        ("backend: pypto\n    kind: simulator", PlatformKind.SIMULATOR),
    ],
)
def test_a_platform_is_of_the_kind_that_is_written_whatever_its_name(
    written: str, kind: PlatformKind, load_text: LoadText, sound: str
) -> None:
    for name in ("emu", "my-sim", "cards"):
        matrix = load_text(
            sound.replace("backend: emulator", written)
            .replace("emu:", f"{name}:")
            .replace("[emu]", f"[{name}]")
        )
        assert matrix.platforms[name].kind is kind
        assert matrix.platforms[name].on_cards == (kind is PlatformKind.CARD)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            "pypto",
            "11: platforms.emu: has no `kind`, which backend `pypto` needs; "
            "write `kind: card` or `kind: simulator`",
        ),
        (
            "pypto\n    kind: host",
            "13: platforms.emu.kind: backend `pypto` does not run on `host`; "
            "write `kind: card` or `kind: simulator`",
        ),
        (
            "emulator\n    kind: card",
            "13: platforms.emu.kind: backend `emulator` does not run on `card`; write `kind: host`",
        ),
        (
            "cann\n    kind: sim",
            "13: platforms.emu.kind: backend `cann` does not run on `sim`; write `kind: host`",
        ),
        (
            "pypto\n    kind: [card]",
            "13: platforms.emu.kind: expected `str`, got `array`; write what its jobs run on: "
            "card or simulator; only backend pypto needs it written",
        ),
    ],
)
def test_a_kind_that_is_missing_or_not_the_backends_is_refused(
    written: str, said: str, sound: str, refusal: Refusal
) -> None:
    assert refusal(sound.replace("backend: emulator", f"backend: {written}")) == f"matrix.yaml:{said}"


def test_a_night_may_draw_the_seed(load_text: LoadText, sound: str) -> None:
    matrix = load_text(sound.replace("small@7", "small@nightly"))
    assert matrix.document.lanes.device.include[0].profiles == ("small", "small@nightly")


def test_a_job_that_two_blocks_make_is_refused(sound: str, refusal: Refusal) -> None:
    block = "      - {platforms: [emu], geometries: [tiny], kernels: [two-pass, fused]}\n"
    message = refusal(sound.replace("  device:\n", block + "  device:\n"))
    assert message == (
        "matrix.yaml:22: lanes.compile.include[1]: compile/emu/tiny/fused is also made by the block at "
        "matrix.yaml:19; keep it in one of them"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match=r"gone\.yaml: cannot be read: No such file"):
        load([tmp_path / "gone.yaml"])


def test_an_overlay_replaces_values_and_adds_keys_and_rules(load_text: LoadText, sound: str) -> None:
    matrix = load_text(
        sound,
        "platforms:\n  emu: {devices: [3]}\n  second: {backend: emulator, soc: a5}\n"
        "lanes:\n  device:\n    timeout: 7s\n"
        "    include:\n"
        "      - {platforms: [second], geometries: [tiny], kernels: [fused], profiles: [small]}\n"
        "exclude:\n  - {jobs: '*/two-pass/*', reason: slow}\n",
        "exclude:\n  - {jobs: '*@7', reason: slow too}\n",
    )
    assert matrix.platforms["emu"].devices == (3,)
    assert matrix.platforms["emu"].soc == "a2a3"
    assert matrix.platforms["second"].soc == "a5"
    assert matrix.document.lanes.device.timeout == 7
    assert [block.platforms for block in matrix.document.lanes.device.include] == [("emu",), ("second",)]
    assert [rule.reason for rule in matrix.document.exclude] == ["slow", "slow too"]


def test_a_fault_of_an_overlay_is_named_in_the_overlay(sound: str, refusal: Refusal) -> None:
    message = refusal(
        sound, "exclude:\n  - {jobs: '*/two-pass/*', reason: slow}\n", "lanes:\n  device: {tmeout: 1s}\n"
    )
    assert message.startswith("extra2.yaml:2: lanes.device.tmeout: is not a key of this mapping;")


def test_what_a_later_overlay_leaves_idle_is_no_fault_of_the_earlier_file(
    load_text: LoadText, sound: str
) -> None:
    excluding = "exclude:\n  - {jobs: '*', reason: none of it}\n"
    other = "expected_failures:\n  - {jobs: device/*, reason: r, link: 'https://x.example/1'}\n"
    load_text(sound, other, excluding)


def test_an_overlay_must_be_of_use_itself(sound: str, refusal: Refusal) -> None:
    assert refusal(sound, "exclude:\n  - {jobs: '*/a5/*', reason: r}\n").startswith(
        "extra1.yaml:2: exclude[0].jobs: "
    )


def test_two_jobs_of_one_name_in_reports_are_refused(sound: str, load_text: LoadText) -> None:
    """Class names are joined by dots, and so may names be."""
    geometry, platform = (
        sound.partition("  tiny:")[2].partition("platforms:")[0],
        sound.partition("  emu:")[2],
    )
    text = (
        f"geometries:\n  c:{geometry}  b.c:{geometry}"
        f"platforms:\n  a.b:{platform.partition('lanes:')[0]}  a:{platform.partition('lanes:')[0]}"
        "lanes:\n  compile:\n    include:\n"
        "      - {platforms: [a.b], geometries: [c], kernels: [fused]}\n"
        "      - {platforms: [a], geometries: [b.c], kernels: [fused]}\n"
    )
    with pytest.raises(MatrixError, match=r"compile/a/b\.c/fused and compile/a\.b/c/fused .* rename one"):
        load_text(text)
