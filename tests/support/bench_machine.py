"""A machine that benchmarks ran on, as results describe it."""

MACHINE = {
    "date": "2030-01-02",
    "system": "Linux x86_64",
    "processor": "A processor",
    "cores": 2,
    "memory_gb": 8.0,
    "python": "3.13.0",
    "libraries": {"pyarrow": "26.0.1"},
}
