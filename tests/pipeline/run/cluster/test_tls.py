"""Runs on a real cluster whose hosts speak TLS, and the way to it without: `nox -s cluster`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.ground.jobs import State
from tests.pipeline.run.cluster.conftest import a_cluster, certificate, compile_lane, rest, results

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(variables: dict[str, str]) -> Iterator[Any]:
    with a_cluster(**variables) as cluster:
        cluster.add_node()
        yield cluster


def test_a_run_works_with_tls(cluster: Any, tmp_path: Path) -> None:
    lines = rest(cluster.run(tmp_path, "passes*6", "writes:1000,mismatch"))
    assert lines[-1] == "end 1", lines
    ended = results(tmp_path)
    assert Counter(one.state for one in ended) == {State.PASSED: 6, State.MISMATCH: 1}
    assert {one.facts["node"] for one in ended} == {"127.0.0.1", "127.0.0.2"}


def test_a_controller_without_tls_is_told_so_in_one_line(cluster: Any) -> None:
    code, (line,), seconds = compile_lane(cluster, RAY_USE_TLS="0")
    assert code == 4
    assert (
        "6380: it speaks TLS, and this host is not told to do so; set RAY_USE_TLS, RAY_TLS_CA_CERT, " in line
    )
    assert seconds < 15


def test_a_controller_with_another_certificate_is_told_so_in_one_line(cluster: Any, tmp_path: Path) -> None:
    code, (line,), seconds = compile_lane(cluster, **certificate(tmp_path))
    assert code == 4
    assert "what answers there does not speak TLS as this host does (" in line
    assert seconds < 15


def test_a_cluster_without_tls_is_told_in_one_line(variables: dict[str, str]) -> None:
    with a_cluster() as cluster:
        code, (line,), seconds = compile_lane(cluster, **variables)
    assert code == 4
    assert "what answers there does not speak TLS as this host does (" in line
    assert seconds < 15
