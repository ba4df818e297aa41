from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.matrix import strict_yaml
from pipeline.matrix.strict_yaml import MatrixError, read_yaml


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here runs on the C parser and on the one written in Python, which must agree."""
    if not hasattr(yaml, request.param):
        pytest.skip(f"PyYAML has no {request.param} here")
    monkeypatch.setattr(strict_yaml, "_LOADER", getattr(yaml, request.param))


def read(text: str | bytes) -> object:
    return read_yaml(text if isinstance(text, bytes) else text.encode(), "m.yaml").plain()


def refused(text: str | bytes) -> str:
    with pytest.raises(MatrixError) as caught:
        read(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-17", -17),
        ("+17", 17),
        ("0o10", 8),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1e-3", 0.001),
        ("-.5", -0.5),
        ("no", "no"),
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("y", "y"),
        ("True", "True"),
        ("2026-12-31", "2026-12-31"),
        ("0-3", "0-3"),
        ("'010'", "010"),
        ('"12:30"', "12:30"),
        ('"true"', "true"),
        ('""', ""),
        ("'<<'", "<<"),
        ("[1, [two, 3.0]]", [1, ["two", 3.0]]),
        ("{}", {}),
        (">-\n  folded\n  text", "folded text"),
    ],
)
def test_values_are_what_they_look_like(written: str, value: object) -> None:
    read_value = read(f"key: {written}\n")
    assert read_value == {"key": value}
    assert type(read_value["key"]) is type(value)  # type: ignore[index]


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("010", "write 10 or 0o10"),
        ("-010", "write -10"),
        ("089", "write 89"),
        ("007.5", "write 7.5"),
        ("12:30", "a duration is `90s`"),
        ("1:2:3.5", "a duration is `90s`"),
        ("1_000", "write it without them"),
        ("0x1_0", "write it without them"),
        ("0b101", "write it in decimal"),
        (".inf", "finite"),
        ("-.INF", "finite"),
        (".NaN", "finite"),
        ("1e999", "write a finite number"),
        ("9" * 19, "at most 18 digits"),
        ("9" * 5000, "at most 18 digits"),
        ("", "write one or remove the key"),
        ("~", "write one or remove the key"),
        ("null", "write one or remove the key"),
        ("!!int '8'", "the tag"),
        ("!!python/object:os.system x", "the tag"),
        ('"bell \\a"', "one line of printable characters"),
        ("|\n  two\n  lines", "one line of printable characters"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_with_a_remedy(written: str, remedy: str) -> None:
    message = refused(f"first: 1\nkey: {written}\n")
    assert message.startswith("m.yaml:2: key: ")
    assert remedy in message


def test_a_duplicate_key_names_both_lines_at_any_depth() -> None:
    message = refused("a:\n  - b: 1\n    c:\n      d: 1\n      e: 2\n      'd': 3\n")
    assert message == "m.yaml:6: a[0].c.d: is written again (first on line 4); keep one of them"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (b"", 1, "is empty"),
        (b"# nothing but a comment\n", 1, "is empty"),
        (b"- a\n- b\n", 1, "the top must be a mapping"),
        (b"\n\nplain\n", 3, "the top must be a mapping"),
        (b"a: 1\n\tb: 2\n", 2, "there is a tab in the indentation"),
        (b"a:\n  \tb: 2\n", 2, "there is a tab in the indentation"),
        (b"a: 1\nb: \xff\n", 2, "byte 0xff is not UTF-8"),
        ("a: 1\n".encode("utf-16"), 1, "is not UTF-8"),
        (b"\xef\xbb\xbfa: 1\n", 1, "byte order mark"),
        (b"a: 1\nb: \x1b[31m\n", 2, "U+001B"),
        (b"a: 1\nb: \x00\n", 2, "U+0000"),
        ("a: 1\nb: \u2028\n".encode(), 2, "U+2028"),
        (b"a: 1\rb: 2\n", 1, "U+000D"),
        (b"a: 1\n---\nb: 2\n", 2, "a second document"),
        (b"a: 1\nb: [1, 2\nc: 3\n", 3, "is not YAML"),
        (b"a: 1\n  b: 2\n", 2, "is not YAML"),
        (b"a: 1\n? [x]\n: 2\n", 2, "a key must be"),
        (b'a: 1\n"b\\a": 2\n', 2, "a key must be"),
        (b"a: 1\n<<: {b: 2}\n", 2, "merge keys"),
        (b"a: &x {b: 1}\nc:\n  <<: *x\n  <<: *x\n", 3, "merge keys"),
        (b"a: *gone\n", 1, "has no anchor"),
        (b"a: &x [*x]\n", 1, "has no anchor"),
        (b"a: &x 1\nb: &x 2\n", 2, "is written again"),
    ],
)
def test_broken_files_are_refused_with_their_line(text: bytes, line: int, what: str) -> None:
    message = refused(text)
    assert message.startswith(f"m.yaml:{line}: ")
    assert what in message


def test_windows_line_ends_are_read() -> None:
    assert read("a: 1\r\nb: [2]\r\n") == {"a": 1, "b": [2]}


def test_an_alias_stands_for_its_value_at_its_own_line() -> None:
    node = read_yaml(b"a: &list [1, 2]\nb: *list\n", "m.yaml")
    assert node.plain() == {"a": [1, 2], "b": [1, 2]}
    assert node.at(("b",)).line == 2


def test_an_alias_bomb_is_refused_before_it_is_expanded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "values with aliases written out" in refused("\n".join(lines))


def test_too_many_values_and_too_deep_ones_are_refused() -> None:
    assert "more than" in refused("a: [" + "1, " * 30_000 + "1]")
    assert "levels deep" in refused("a: " + "[" * 200 + "]" * 200)
    assert refused("a: " + "[" * 100_000).startswith("m.yaml:1: a")


@given(st.binary(max_size=60) | st.text("ab:-[]{}&*!|>'\"#%@`,? \n\t0159_.~<é", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused_on_one_line(data: bytes) -> None:
    message = ""
    try:
        node = read_yaml(data, "m.yaml")
    except MatrixError as error:
        message = str(error)
    else:
        assert isinstance(node.value, dict)
    assert message.isprintable()
