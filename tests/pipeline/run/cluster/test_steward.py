"""A steward in this process, with the controller's end of its socket."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from pipeline.run.cluster.messages import FromSteward, Inspect, Survey
from pipeline.run.cluster.steward import serve
from pipeline.run.messages import Channel

DAY = 24 * 3600.0


def test_a_node_prunes_its_goldens_and_says_which_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the limits of any host: what no job used for 30 days goes, and of more than 2 GiB the oldest."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    monkeypatch.setenv("PIPELINE_LOCKS", str(tmp_path / "locks"))
    folder, goldens = tmp_path / "runs" / "one", tmp_path / "goldens"
    folder.mkdir(parents=True)
    goldens.mkdir()
    for name, days in (("old.golden", 31), ("large.golden", 2), ("used.golden", 1), ("y.output", 1)):
        (goldens / name).touch()
        os.utime(goldens / name, (time.time() - days * DAY,) * 2)
    # A hole of a file: it takes no room on the disk.
    os.truncate(goldens / "large.golden", 2 * 1024**3 + 1)
    os.utime(goldens / "large.golden", (time.time() - 2 * DAY,) * 2)
    ours, theirs = socket.socketpair()
    control = Channel[FromSteward](ours, msgspec.json.Decoder(FromSteward))
    steward = Thread(target=serve, args=(theirs.detach(), str(folder)))
    steward.start()
    control.send(Inspect("targets:survey", (), None, None))
    said = control.next()
    control.close()
    steward.join()
    assert isinstance(said, Survey)
    assert said.goldens == ("used.golden", "y.output")
    assert {path.name for path in goldens.iterdir()} == {"used.golden", "y.output"}
