"""Loads through the Storage Write API.

load_method  Load methods that stream rows: requests and streams
client       Connections to the Storage Write API, and its errors
"""
