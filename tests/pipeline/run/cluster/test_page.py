"""The first section of docs/cluster.md, followed on two hosts as far as it can be without a network."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.ground.jobs import State
from tests.pipeline.run.cluster.conftest import namespaces, rest, results

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[4]

HOSTS = """
ip link add cable type veth peer name plug
ip address add 10.0.0.1/24 dev cable
ip link set cable up
ip route add default via 10.0.0.2
unshare --net sh -ec '
  nsenter --target 1 --net ip link set plug netns $$
  ip link set lo up
  ip address add 10.0.0.2/24 dev plug
  ip link set plug up
  ip route add default via 10.0.0.1
  echo $$ > {second}
  exec sleep 3600' &
while ! [ -s {second} ]; do sleep 0.1; done
"""
"""Makes 10.0.0.1 of the namespace, and beside it the host 10.0.0.2: that of a process in a file."""


def test_two_hosts_come_to_a_night_as_the_page_says(tmp_path: Path, torch_installed: Any) -> None:
    """To one of a few jobs; both hosts have this environment already, so that Nox need not make it."""
    _, section, *_ = (ROOT / "docs/cluster.md").read_text().split("\n## ")
    programs = f"{Path(sys.executable).parent}/"
    section = section.replace(".nox/environment/bin/", programs)
    set_up, token, head, node, first, night = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert set_up.rstrip().endswith(".venv/bin/nox -s environment")
    second = tmp_path / "second"
    with namespaces(before=HOSTS.format(second=second)) as cluster:

        def do(script: str, host: str = "") -> list[str]:
            shell = [*host.split(), "sh", "-ec", f"cd {ROOT}\n{script}"]
            with cluster.popen(shell, HOME=str(tmp_path), PIPELINE_LOCKS=str(tmp_path / "locks")) as done:
                said = rest(done)
                assert done.returncode == 0, said
            return said

        do(token)
        assert (tmp_path / ".ray/auth_token").stat().st_mode & 0o777 == 0o600
        do(head)
        do(node, f"nsenter --target {second.read_text().strip()} --net")
        few = "--platform emu-a2a3 --profile small"
        do(f"{first.rstrip()} {few} --output {tmp_path}/first")
        said = do(f"{night.rstrip()} --geometry mc62 {few} --output {tmp_path}/out")
    ended = results(tmp_path / "out/runs")
    assert {one.state for one in ended} == {State.PASSED}
    used = {line.split()[2] for line in said if line.startswith("note: node ")}
    assert used == {"10.0.0.1", "10.0.0.2"}, "\n".join(said)
