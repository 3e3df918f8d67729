"""Start the server with the Python of the local BigQuery's environment: `python launch.py RUN_DIR DATA_DIR`.

This environment contains the server's packages only. The package local_cloud is therefore imported from its folder
alone, without its dependencies and without the site-packages directory around it.
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
