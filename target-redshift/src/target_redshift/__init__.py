"""A Singer target that loads BATCH files, each exactly once, and RECORD messages into Amazon Redshift.

target          The target: its settings, and the end of a run
stream_table    The table of one stream: its columns and its load method
run             What the streams of a run share: clients, uploads, ledgers
load            The load methods: from batch files into the table by COPY
ledger          The table `_sdc_batches`: which batches a table holds
conversion      Checks and conversion of the values of batches
nul_characters  NUL characters in text: replaced, removed or refused
long_texts      Texts that are too long for VARCHAR, kept in a SUPER column
merge_pruning   Bounds that keep a MERGE from reading the whole table
tables          Schemas and tables: names, types, columns and their evolution
connection      Sessions of Redshift, retries, errors
settings        The settings: declared, defaulted and checked
sql             The text of every SQL statement
"""
