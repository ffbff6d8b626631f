"""Records what a Redis server answers to lines: record.py PORT < lines > redis-7.0.15.txt"""

import socket
import sys


def answer(stream):
    """One answer, as it came."""
    line = stream.readline()
    count = int(line[1:]) if line[:1] in b"$*" else -1
    if line[:1] == b"$" and count >= 0:
        return line + stream.read(count + 2)
    return line + b"".join(answer(stream) for _ in range(max(count, 0)))


def escaped(data):
    """As `escape_default` of Rust has it."""
    plain = {"\r": "\\r", "\n": "\\n", "\t": "\\t", "'": "\\'", '"': '\\"', "\\": "\\\\"}
    text = data.decode("utf-8", "replace")
    return "".join(plain.get(c, c if " " <= c <= "~" else "\\u{%x}" % ord(c)) for c in text)


connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
stream = connection.makefile("rb")
print("# Lines sent to Redis 7.0.15, and its answers. Made by record.py.")
for line in sys.stdin.read().splitlines():
    if line and not line.startswith("#"):
        connection.sendall(line.encode() + b"\r\n")
        print(f"> {line}\n< {escaped(answer(stream))}")
