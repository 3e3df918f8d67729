"""A process of the Dask cluster: `python -m local_cloud.dask.node FOLDER HOST scheduler|worker [ADDRESS]`."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from local_cloud.lifeline import Ready, end_with_parent, remove_tree


def main() -> None:
    """Serve on a free port of a host address until the parent ends."""
    ready = Ready()
    folder, host, role = sys.argv[1:4]
    # The folder of the cloud is removed by one process of the cluster, which outlives the workers.
    end_with_parent((lambda: remove_tree(Path(folder).parent)) if role == "scheduler" else lambda: None)
    # After the lifeline, because these imports take a while.
    from distributed import Scheduler, Security, Worker

    pair = {"key": f"{folder}/server.key", "cert": f"{folder}/server.pem"}
    roles = {f"tls_{r}_{name}": file for r in ("scheduler", "worker", "client") for name, file in pair.items()}
    security = Security(require_encryption=True, tls_ca_file=f"{folder}/ca.pem", **roles)  # type: ignore[no-untyped-call] # distributed types its API in part
    common: dict[str, Any] = {"host": host, "protocol": "tls://", "security": security, "dashboard": False}

    async def serve() -> None:
        if role == "scheduler":
            node: Any = Scheduler(**common, port=0)
        else:
            node = Worker(sys.argv[4], **common, nthreads=1, local_directory=f"{folder}/{os.getpid()}")
        async with node:
            ready.report({"address": node.address})
            await node.finished()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
