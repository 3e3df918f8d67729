"""Look at objects and streams without a run: `--plan`, `--preview` and `init`.

plan_table     What a run would read, as a table: `--plan`
load_cost      What a target needs to load it: `--plan --target`
shard_table    How even the shards of a plan are: `--plan --shard-count`. Pure
preview        The first rows of streams, as tables: `--preview`
sample_rows    The first rows of some objects
text_table     Cells in aligned columns. Pure
init_command   The command `tap-s3-files init`
folders        Objects -> streams with paths. Pure
survey         The columns, keys and unsure types of a stream's sample
config_text    Settings with comments, as a configuration file or a meltano.yml. Pure
"""
