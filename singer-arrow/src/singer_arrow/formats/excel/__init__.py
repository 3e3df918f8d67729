"""Workbooks: xlsx, xlsm, xlsb, xls, ods.

excel_format   Sheets of Excel workbooks: .xlsx, .xlsm, .xlsb, .xls, and .ods
sheet_process  A program
"""
