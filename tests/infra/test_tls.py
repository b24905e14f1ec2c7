"""TLS between nodes: the certificates of `infra/tls`, and a Ray cluster that demands them."""

import json
import os
import socket
from pathlib import Path

import pytest

from tests.commands import Command
from tests.infra.files import INFRA, check_shell
from tests.integration.sweeping import COMMAND, Home, cluster, kill_whole

SCRIPT = INFRA / "tls/certificates.sh"
NAMES = ("127.0.0.1", "localhost", socket.gethostname(), "head", "mlflow.example.org")


def make(folder: Path, *words: str) -> dict[str, str]:
    """Make a node's certificate, with a CA of its own; return Ray's variables."""
    node = folder / "node"
    Command([SCRIPT, folder / "ca", node, *words], os.environ).done().expect()
    files = {"CA_CERT": "ca.crt", "SERVER_CERT": "node.crt", "SERVER_KEY": "node.key"}
    return {"RAY_USE_TLS": "1"} | {f"RAY_TLS_{key}": str(node / files[key]) for key in files}


def test_certificates_are_valid_for_their_names_and_their_ca_alone(tmp_path: Path) -> None:
    def is_valid(made: dict[str, str], name: str, purpose: str) -> bool:
        options = ["-x509_strict", "-purpose", purpose, "-CAfile", ours["RAY_TLS_CA_CERT"]]
        options.append(f"-verify_{'ip' if name[0].isdigit() else 'hostname'}")
        words = ["openssl", "verify", *options, name, made["RAY_TLS_SERVER_CERT"]]
        return Command(words, os.environ).done().code == 0

    check_shell(SCRIPT.read_text())
    make(tmp_path / "ours")
    words = ("head", "mlflow.example.org:5000", "--", "touch", str(tmp_path / "started"))
    ours, others = make(tmp_path / "ours", *words), make(tmp_path / "others")
    assert (tmp_path / "started").exists()
    for name in NAMES:
        assert is_valid(ours, name, "sslserver") and is_valid(ours, name, "sslclient")
    assert not is_valid(ours, "elsewhere", "sslserver")
    assert not is_valid(others, "localhost", "sslclient")
    assert {key.stat().st_mode & 0o777 for key in tmp_path.glob("*/*/*.key")} == {0o600}


@pytest.mark.full
def test_a_cluster_with_tls_refuses_whoever_has_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, others = Home(tmp_path / "home"), make(tmp_path / "others")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 32}
    for name, value in {**make(tmp_path), **token}.items():
        monkeypatch.setenv(name, value)
    with cluster() as (address, _):
        words = ["start", "--block", "--node-ip-address=127.0.0.1", f"--address={address}"]
        join = [COMMAND.with_name("ray"), *words, "--num-cpus=1", "--disable-usage-stats"]
        changes = (dict[str, str](), {"RAY_USE_TLS": "0"}, others)
        nodes = [Command(join, {**os.environ, **change}) for change in changes]
        try:
            nodes[0].until("Ray runtime started")
            listed = ("hardware", "--address", address, "--format", "json")
            (here,) = json.loads(home.run(*listed).expect().out)["classes"]
            assert len(here["nodes"]) == 2  # each was probed by a task
            assert not [node for node in nodes[1:] if "Ray runtime started" in node.printed()]
            home.run(*listed, RAY_USE_TLS="0").refused("uses TLS: set RAY_USE_TLS")
        finally:
            for node in nodes:
                kill_whole(node.pid)
                node.wait()
