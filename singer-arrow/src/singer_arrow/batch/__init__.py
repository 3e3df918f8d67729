"""BATCH messages and the files that their manifests name."""
