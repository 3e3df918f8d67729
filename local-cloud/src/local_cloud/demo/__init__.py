"""The demonstration of both pipes; `python -m local_cloud.demo` within `local-cloud run --seed --`."""
