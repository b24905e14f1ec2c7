"""Processes that use Ray before and after a look at a cluster, such as a notebook's."""

import os
from pathlib import Path

from tests.commands import python
from tests.orchestrator.cluster.fake_job_server import TOKEN, serving

LOOK_AT_A_CLUSTER = """
import os, sys
from pathlib import Path
from ray._raylet import AuthenticationTokenLoader, get_authentication_mode
from orchestrator.cluster.jobs import Cluster

before = get_authentication_mode(), dict(os.environ)
cluster = Cluster(sys.argv[1])
Path.home().joinpath(".ray", "auth_token").unlink()
assert (get_authentication_mode(), dict(os.environ)) == before
assert not AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True)
assert cluster.starts() == []  # it keeps the token that it was made with
"""


def test_a_look_at_a_cluster_leaves_rays_authentication_as_it_was(tmp_path: Path) -> None:
    token_file = tmp_path / ".ray" / "auth_token"
    token_file.parent.mkdir()
    token_file.write_text(TOKEN, "ascii")
    with serving() as server:
        server.token = TOKEN
        environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        python("-c", LOOK_AT_A_CLUSTER, server.address, environ=environ).expect()
