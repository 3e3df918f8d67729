"""Reading objects: pinned to one version, by planned ranges, within a budget of bytes."""
