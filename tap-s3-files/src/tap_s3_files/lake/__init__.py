"""Tables of a lake as the source of a stream.

table    Settings, versions, the files of a version; columns whose names are other ones in files
delta    Tables of Delta Lake
deletion_vector  How far the deletion vectors of Delta Lake reach
iceberg  Tables of Apache Iceberg
"""
