"""Started with the Python of the local BigQuery's environment: `python launch.py RUN_DIR DATA_DIR`.

This environment has the server's packages and not ours, and must not see ours: so the package local_cloud is made
known by its folder alone, without its own dependencies and without the site-packages around it.
"""

import sys
import types
from pathlib import Path

if __name__ == "__main__":
    package = types.ModuleType("local_cloud")
    package.__path__ = [str(Path(__file__).resolve().parents[1])]
    sys.modules["local_cloud"] = package
    sys.path.pop(0)

    from local_cloud.bigquery.server.main import main

    main()
