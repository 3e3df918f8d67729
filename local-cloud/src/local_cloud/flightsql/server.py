"""The child process of Flight SQL: `python -m local_cloud.flightsql.server RUN_DIR [DATA_DIR]`."""

import json
import os
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from local_cloud.lifeline import Ready, end_with_parent, remove_tree

USERNAME = "demo"


def main() -> None:
    """Serve on free ports of 127.0.0.1 until the parent ends."""
    ready = Ready()
    run_dir, *kept = map(Path, sys.argv[1:])
    folder = run_dir / "flightsql"
    folder.mkdir()
    end_with_parent(lambda: remove_tree(run_dir))
    # After the lifeline, because these imports take a while.
    import duckdb

    from local_cloud.certificates import write_certificates
    from local_cloud.flightsql.access import Access
    from local_cloud.flightsql.endpoint import ACCESS, Results
    from local_cloud.flightsql.front import Front
    from local_cloud.process import Service

    password, tls = os.environ["LOCAL_CLOUD_FLIGHTSQL_PASSWORD"], os.environ["LOCAL_CLOUD_FLIGHTSQL_TLS"]
    access = Access(USERNAME, password, secrets.token_hex(), tls, folder)
    write_certificates(folder)
    for directory in kept:
        directory.mkdir(parents=True, exist_ok=True)
    place = str(kept[0] / "data.duckdb") if kept else ":memory:"
    database = duckdb.connect(place, config={"python_enable_replacements": "false"})
    env = os.environ | {ACCESS: json.dumps(asdict(access) | {"folder": str(folder)})}

    def start(number: int, port: int) -> Service:
        command = [sys.executable, "-P", "-m", "local_cloud.flightsql.endpoint", str(folder), str(port)]
        return Service("endpoint", command, log=folder / f"endpoint-{number}.log", env=env)

    count = int(os.environ["LOCAL_CLOUD_FLIGHTSQL_ENDPOINTS"])
    with ThreadPoolExecutor(count) as pool:
        services = list(pool.map(start, range(count), [0] * count))
    ports = [int(service.facts["port"]) for service in services]

    def restart() -> None:
        while True:
            time.sleep(0.05)
            for number, service in enumerate(services):
                if not service.alive():
                    services[number] = start(number, ports[number])

    front = Front(database, Results(folder), lambda: ports, access)
    threading.Thread(target=restart, daemon=True).start()
    facts = {"uri": f"{access.scheme}://127.0.0.1:{front.port}", "token": access.token, "certificates": str(folder)}
    ready.report(facts | {"username": USERNAME, "endpoints": [service.pid for service in services]})
    front.serve()


if __name__ == "__main__":
    main()
