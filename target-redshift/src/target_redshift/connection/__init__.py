"""Sessions of Redshift, and the meaning of its errors.

client       Client of one schema and the catalog of its tables
connection   Log-in, sessions, and a pool of them
resources    Rows and tables; translates the errors of the driver and of AWS
error_kinds  Classifies errors: which are worth a retry
"""
