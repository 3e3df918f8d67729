"""A proxy in front of a service that delays requests and makes them fail.

client      starts a fault proxy and sets its rules
connection  one client's connection and its connection to the upstream
http        the parts of HTTP/1.1 that a proxy needs
proxy       the child process
rules       the rules, and the decision on a request
"""
