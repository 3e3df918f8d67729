"""Reading of objects: one version, by planned ranges, within a memory budget.

object_reader    `ObjectReader`: one version of an object, read by ranges; groups of small objects, fetched ahead
random_access    Files over fetched ranges, for libraries that seek
text_blocks      Text of an object: decompressed, in UTF-8, in blocks of whole records
sliding_windows  Columns of a large row group, read side by side through windows
range_planner    Which ranges to request. Pure
memory_budget    Limits for bytes in flight
ordered_map      Parallel work on blocks, with results in order
"""
