"""A small matrix that is right, and ways to load it with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.matrix.load import load
from pipeline.matrix.schema import Matrix
from pipeline.matrix.strict_yaml import MatrixError

SOUND = """\
geometries:
  tiny:
    height: 24
    width: 16
    cin: 64
    cmid: 64
    cout: 64
    conv1: {kernel: 3, stride: 2, padding: 1}
    conv2: {kernel: 3, stride: 1, padding: 1}
platforms:
  emu:
    backend: emulator
    soc: a2a3
    devices: [0, 1]
lanes:
  compile:
    timeout: 90s
    include:
      - platforms: [emu]
        geometries: [tiny]
        kernels: [fused]
  device:
    timeout: 5m
    include:
      - platforms: [emu]
        geometries: [tiny]
        kernels: [fused, two-pass]
        profiles: [small, small@7]
"""

LoadText = Callable[..., Matrix]
Refusal = Callable[..., str]


@pytest.fixture
def sound() -> str:
    return SOUND


@pytest.fixture
def verifying() -> Callable[[str], str]:
    """The sound matrix, its compile job verified on this profile; that is written in line 22."""
    return lambda profile: SOUND.replace(
        "kernels: [fused]\n", f"kernels: [fused]\n        verify: {profile}\n"
    )


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadText:
    """Load `matrix.yaml` and overlays `extra1.yaml`, `extra2.yaml` ... of these texts (or bytes)."""
    monkeypatch.chdir(tmp_path)

    def load_them(*texts: str | bytes) -> Matrix:
        paths = [Path("matrix.yaml"), *(Path(f"extra{number}.yaml") for number in range(1, len(texts)))]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        return load(paths)

    return load_them


@pytest.fixture
def refusal(load_text: LoadText) -> Refusal:
    """Load what must be refused and return the message, which is one line."""

    def refuse(*texts: str | bytes) -> str:
        with pytest.raises(MatrixError) as caught:
            load_text(*texts)
        message = str(caught.value)
        assert message.isprintable()
        return message

    return refuse
