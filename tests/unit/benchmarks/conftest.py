"""Add the repository's root to the import path, because the benchmarks are not an installed package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
