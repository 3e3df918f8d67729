"""Reading of objects: one version, by planned ranges, within a memory budget.

objects   `ObjectReader`: one version of an object, read by ranges; groups of small objects, fetched ahead
chunks    Files over fetched ranges, for libraries that seek; blocks of whole lines
parallel  Parallel work in order, within a budget of memory
"""
