"""`ray up` with the file of `infra/machines`, over ssh; hosts link to the present environment."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster import hosts
from tests.cluster.hosts import ROOT, Host, Switch
from tests.commands import wait_for
from tests.lacking import skip_here

FILE = ROOT / "infra/machines/cluster.yaml"
README = FILE.with_name("README.md")
TOKEN = "0123456789abcdef0123456789abcdef"
KEY = "/root/.ssh/rnnsweep"
VENV = "~/rnnsweep-node/venv"
SSHD = (ROOT / "tests/cluster/sshd.sh").read_text()
TLS = {
    name: path.replace("$HOME", "/root")
    for name, path in re.findall(r'(RAY_(?:USE|TLS)_\w+)="?([^";\s]+)', FILE.read_text())
}
NODES = """
import json, ray
ray.init("auto", log_to_driver=False, logging_level="error")
print(json.dumps({
    node["NodeManagerHostname"]: node["Resources"].get("CPU", 0)
    for node in ray.nodes() if node["Alive"]
}))
"""


@pytest.fixture
def switch() -> Iterator[Switch]:
    if (reason := hosts.obstacle("sshd", "rsync")) is not None:
        skip_here(reason)
    switch = Switch()
    try:
        yield switch
    finally:
        switch.close()


def launcher_file() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(FILE.read_text())
    config["provider"]["head_ip"] = Host.address_of("head")
    config["provider"]["worker_ips"] = [Host.address_of("steady")]
    config["auth"] = {"ssh_user": "root", "ssh_private_key": KEY}
    install = [command for command in config["setup_commands"] if "venv" in command]
    assert len(install) == 2, "one command creates the environment, one installs the packages"
    config["setup_commands"] = [
        *(command for command in config["setup_commands"] if command not in install),
        f"ln -sfn {sys.prefix} {VENV}",
    ]
    return config


def test_machines_become_a_cluster(switch: Switch) -> None:
    laptop, head, worker = (switch.plug(name) for name in ("laptop", "head", "steady"))
    laptop.run("mkdir", "-p", "/root/.ssh").expect()
    laptop.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", KEY).expect()
    public = laptop.run("cat", f"{KEY}.pub").expect().out
    for host in (head, worker):
        host.write("/root/.ssh/authorized_keys", public)
        host.start("bash", "-c", SSHD).until("Server listening")
    laptop.write("/root/.ray/auth_token", TOKEN)
    laptop.run(ROOT / "infra/tls/certificates.sh", "/root/.ray/ca").expect()
    laptop.write("/root/cluster.yaml", yaml.safe_dump(launcher_file()))

    up = ("ray", "up", "--yes", "--no-config-cache", "/root/cluster.yaml")
    laptop.run(*up).expect()

    def nodes() -> dict[str, float]:
        done = head.run("python", "-c", NODES, environ=TLS)
        lines = done.out.splitlines()  # none, if it could not connect
        cpus_by_host: dict[str, float] = yaml.safe_load(lines[-1]) if lines else {}
        return cpus_by_host

    cpus = float(worker.run("nproc").expect().out)
    wait_for(lambda: nodes() == {"head": 0, "steady": cpus}, 300, nodes, every_s=0.3)
    for host in (head, worker):
        assert host.run("cat", "/root/.ray/auth_token").out == TOKEN
        assert host.run("stat", "-c", "%a", "/root/.ray/auth_token").out.strip() == "600"
    stranger = head.run("python", "-c", NODES, environ={**TLS, "RAY_AUTH_TOKEN": "f" * 32})
    assert stranger.code != 0

    stop = re.findall(r"^ +ray exec \S+ '(.*)'$", README.read_text(), re.MULTILINE)
    laptop.run("ray", "exec", "/root/cluster.yaml", *stop).expect()
    for host, program in ((head, "gcs_server"), (worker, "raylet")):
        wait_for(lambda: host.run("pgrep", program).code == 1, every_s=0.3)  # noqa: B023
    laptop.run("ray", "down", "--yes", "/root/cluster.yaml").expect()
