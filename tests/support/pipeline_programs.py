"""A tap and a target of a few lines, for what ours do rarely."""

SENDS = """
import json, sys, time
def send(**message): print(json.dumps(message), flush=True)
send(type="SCHEMA", stream="a", schema={"type": "object", "properties": {"id": {"type": "integer"}}}, key_properties=[])
for i in range(5): send(type="RECORD", stream="a", record={"id": i})
send(type="STATE", value={"bookmarks": {"a": {"x": 5}}})
open("sent", "w").close()
time.sleep(60)
"""

TWO_STATES = """
import signal, sys
state = '{"bookmarks": {"%s": {}}}' % ("x" * 400_000)
def end(*_):
    for _ in range(2): print(state, flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
for line in sys.stdin: print(state, flush=True)
"""
