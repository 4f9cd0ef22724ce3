# SPDX-License-Identifier: LGPL-2.1-or-later
"""D-Bus as bytes: a client that can also say what no library would let it say.

Values are Python's: ay is bytes (read without the NUL at its end, which must be there), arrays are lists, a{..} are
dicts, structs are tuples, a variant is (signature, value), h is an index into the descriptors of the message.
"""
import array
import functools
import os
import socket
import struct

CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SENDER, SIGNATURE, FDS = range(1, 10)
FIELD_TYPES = {PATH: "o", INTERFACE: "s", MEMBER: "s", ERROR_NAME: "s", REPLY_SERIAL: "u",
               DESTINATION: "s", SENDER: "s", SIGNATURE: "g", FDS: "u"}
FIXED = {kind: (struct.Struct("<" + letter), struct.calcsize("<" + letter)) for kind, letter in zip("ybnqiuxtdh", "BIhHiIqQdI")}
MOST_FDS = 253


class Error(Exception):
    """An error that was answered; name is without the prefix of reclaimd's own."""

    def __init__(self, name, text):
        super().__init__("%s: %s" % (name, text))
        self.name = name.removeprefix("org.reclaimd1.Error.")
        self.text = text


def first_type(signature):
    """Splits the first complete type off a signature."""
    if signature[0] == "a":
        return "a" + first_type(signature[1:])
    if signature[0] in "({":
        depth = 0
        for i, c in enumerate(signature):
            depth += (c in "({") - (c in ")}")
            if depth == 0:
                return signature[:i + 1]
    return signature[0]


@functools.cache
def types(signature):
    """The complete types that a signature consists of."""
    found = []
    while signature:
        found.append(first_type(signature))
        signature = signature[len(found[-1]):]
    return tuple(found)


def alignment(kind):
    if kind in FIXED:
        return FIXED[kind][1]
    return 1 if kind in "gv" else 8 if kind[0] in "({" else 4


def pad(out, to):
    out += b"\0" * (-len(out) % to)


def put(out, kind, value):
    """Appends one value of a complete type."""
    pad(out, alignment(kind))
    if kind in FIXED:
        out += FIXED[kind][0].pack(value)
    elif kind in ("s", "o"):
        raw = value if isinstance(value, bytes) else value.encode()
        out += struct.pack("<I", len(raw)) + raw + b"\0"
    elif kind == "g":
        out += bytes([len(value)]) + value.encode() + b"\0"
    elif kind == "v":
        put(out, "g", value[0])
        put(out, value[0], value[1])
    elif kind[0] == "a":
        put_array(out, kind[1:], value)
    else:
        for part, v in zip(types(kind[1:-1]), value):
            put(out, part, v)


def put_array(out, kind, value):
    at = len(out)
    out += b"\0\0\0\0"
    pad(out, alignment(kind))
    start = len(out)
    if kind == "y":
        out += value
    else:
        for v in value.items() if isinstance(value, dict) else value:
            put(out, kind, v)
    out[at:at + 4] = struct.pack("<I", len(out) - start)


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def get(self, kind):
        self.at += -self.at % alignment(kind)
        if kind == "b":
            return bool(self.get("u"))
        if kind in FIXED:
            return FIXED[kind][0].unpack(self.take(FIXED[kind][1]))[0]
        if kind in ("s", "o"):
            text = self.take(self.get("u")).decode()
            self.at += 1
            return text
        if kind == "g":
            text = self.take(self.take(1)[0]).decode()
            self.at += 1
            return text
        if kind == "v":
            return self.get(self.get("g"))
        if kind[0] == "a":
            return self.get_array(kind[1:])
        return tuple(self.get(part) for part in types(kind[1:-1]))

    def get_array(self, kind):
        length = self.get("u")
        self.at += -self.at % alignment(kind)
        if kind == "y":
            data = bytes(self.take(length))
            assert not data or data.endswith(b"\0"), data
            return data[:-1]
        end = self.at + length
        found = []
        while self.at < end:
            found.append(self.get(kind))
        return dict(found) if kind[0] == "{" else found


class Message:
    def __init__(self, head, fields, body, fds):
        self.kind, self.flags = head[1:3]
        self.serial, = struct.unpack("<I", head[8:12])
        self.fields = fields
        reader = Reader(body)
        self.body = [reader.get(t) for t in types(fields.get(SIGNATURE, ""))]
        self.fds = fds

    def __getattr__(self, name):
        return self.fields.get({"path": PATH, "interface": INTERFACE, "member": MEMBER,
                                "sender": SENDER}[name])


def message(serial, fields, signature="", *args, kind=CALL, flags=0):
    """The bytes of a message."""
    body = bytearray()
    for t, value in zip(types(signature), args):
        put(body, t, value)
    if signature:
        fields = fields | {SIGNATURE: signature}
    out = bytearray(struct.pack("<cBBBII", b"l", kind, flags, 1, len(body), serial))
    put(out, "a(yv)", [(k, (FIELD_TYPES[k], v)) for k, v in fields.items()])
    pad(out, 8)
    return bytes(out + body)


class Connection:
    """To a socket that speaks D-Bus, as the user of this thread (or the one it claims to be); with
    bus=True after a Hello."""

    def __init__(self, path, bus=False, timeout=30, claim=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.serial = 0
        self.buffer = b""
        self.fds = []
        # What has come and was not asked for yet: answers by the serial of the call, and all else.
        self.answers = {}
        self.signals = []
        uid = str(os.geteuid() if claim is None else claim).encode().hex().encode()
        self.socket.sendall(b"\0AUTH EXTERNAL " + uid + b"\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n")
        self.auth = [self.line(), self.line()]
        self.name = None
        if bus:
            self.name = self.call("Hello", path="/org/freedesktop/DBus",
                                  interface="org.freedesktop.DBus",
                                  destination="org.freedesktop.DBus").body[0]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)

    def line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def fill(self):
        data, ancillary, _, _ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(4 * MOST_FDS))
        for level, kind, raw in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self.fds += array.array("i", raw[:len(raw) - len(raw) % 4])
        if not data:
            raise ConnectionError("closed by the other side")
        self.buffer += data

    def receive(self):
        """The next message, whatever it is."""
        while len(self.buffer) < 16:
            self.fill()
        body, _, fields = struct.unpack("<III", self.buffer[4:16])
        head = 16 + fields + -fields % 8
        while len(self.buffer) < head + body:
            self.fill()
        reader = Reader(self.buffer[:head])
        reader.at = 12
        values = dict(reader.get("a(yv)"))
        found = Message(self.buffer[:12], values, self.buffer[head:head + body],
                        [self.fds.pop(0) for _ in range(values.get(FDS, 0))])
        self.buffer = self.buffer[head + body:]
        return found

    def send(self, member, signature="", *args, path="/org/reclaimd1",
             interface="org.reclaimd1.Manager", destination="org.reclaimd1", fds=(), flags=0):
        self.serial += 1
        fields = {PATH: path, INTERFACE: interface, MEMBER: member, DESTINATION: destination}
        if fds:
            fields[FDS] = len(fds)
        data = message(self.serial, fields, signature, *args, flags=flags)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self.socket.sendmsg([data], rights)
        self.socket.sendall(data[sent:])
        return self.serial

    def keep(self, m):
        if m.kind in (RETURN, ERROR):
            self.answers[m.fields.get(REPLY_SERIAL)] = m
        else:
            self.signals.append(m)

    def answer(self, serial):
        """The answer to a call; what comes before it, answers to others too, is kept."""
        while serial not in self.answers:
            self.keep(self.receive())
        m = self.answers.pop(serial)
        if m.kind == ERROR:
            raise Error(m.fields[ERROR_NAME], m.body[0] if m.body else "")
        return m

    def call(self, *args, **kw):
        return self.answer(self.send(*args, **kw))

    def signal(self, member, kind=SIGNAL):
        """The next signal of that name."""
        seen = 0
        while True:
            for i in range(seen, len(self.signals)):
                if self.signals[i].kind == kind and self.signals[i].member == member:
                    return self.signals.pop(i)
            seen = len(self.signals)
            self.keep(self.receive())

    def called(self, member):
        """The next call of that method of ours."""
        return self.signal(member, CALL)

    def reply(self, m, signature="", *args, error=None):
        """Answers a call."""
        self.serial += 1
        fields = {DESTINATION: m.sender, REPLY_SERIAL: m.serial}
        if error:
            fields[ERROR_NAME] = error
        self.socket.sendall(message(self.serial, fields, signature, *args,
                                    kind=ERROR if error else RETURN))


def unpacked(answer):
    """The jobs of ListJobsPacked as ListJobs has them."""
    numbers, texts = answer.body
    texts = texts.split(b"\0") if texts else []
    assert len(numbers) // 15 == len(texts) // 6, (len(numbers), len(texts))
    jobs = []
    for at in range(len(numbers) // 15):
        number, uid, *rest, names = numbers[15 * at:15 * at + 15]
        state, origin, priority, path, kind, message = texts[6 * at:6 * at + 6]
        jobs.append((number, state.decode(), uid, origin.decode(), priority.decode(), path, *rest[:9],
                     kind.decode(), *rest[9:], message.decode(), names))
    return jobs
