"""The format `excel`: workbooks in .xlsx, .xlsm, .xlsb, .xls and .ods.

excel_format   Read a sheet of a workbook, and infer the types of its columns
sheet_process  Program that writes the cells of one sheet to an Arrow file, in a process with limited memory
"""
