#!/usr/bin/env python3
"""What the dearest heads cost: CPU time of the process per request, beside an ordinary head of the same length.

    cargo build --release && python3 benches/heads.py [BINARY] [--only KIND] [--rounds N]

The policy reads a head in every way there is: keys by cookie, parameter and field, routes by expression, parameter and folded
path, edits, the access log. Each head is sent to a gate that refuses by a limit, where the head is most of the cost, and the
HTTP/2 ones through the table of the compression too, so that some bytes on the wire are kilobytes in the gate; the ordinary
one has the same length when it is unpacked. A head and its ordinary one take turns, and each counts by its cheapest turn: a
neighbour on the machine can only make a turn dearer. Exits with 1 if a head costs more than three ordinary ones.
"""
import argparse, glob, os, re, socket, struct, subprocess, sys, tempfile, time

MOST = 3.0
LENGTH = 7500
TABLE = 3900  # what the table of the compression, of 4096 bytes, holds in one entry

POLICY = """
listeners:
  main: { address: "127.0.0.1:0", protocols: [h2, http/1.1], connections: { requests: 1000000 } }
server: { threads: 1 }
trusted_proxies: { header: %(header)s, from: [127.0.0.0/8] }
responses: { ratelimit_headers: draft }
telemetry: { access_log: { to: %(directory)s/access.log } }
limits:
  by_cookie: { rate: 1/h, burst: 1, key: "cookie:sid", missing: allow }
  by_query: { rate: 1/h, burst: 1, key: "query:token", missing: allow }
  by_field: { rate: 1/h, burst: 1, key: "header:x-key", missing: allow }
  all: { rate: 1/h, burst: 1, key: global }
routes:
  - { name: login, match: { path: =/login ignore all }, limits: [all], origin: "127.0.0.1:1" }
  - { name: admin, match: { path: { prefix: /admin, ignore: all } }, limits: [all], origin: "127.0.0.1:1" }
  - { name: case, match: { path: { prefix: /%(long)s, ignore: [case, trailing_slash] } }, limits: [all], origin: "127.0.0.1:1" }
  - { name: path, match: { path: { regex: "/x(a|b)*[0-9]+.*(foo|bar)+/z" } }, limits: [all], origin: "127.0.0.1:1" }
  - name: values
    match: { query: { a: { regex: ".*(x|y)*(z+w)*[0-9]{1,50}" } }, headers: { x-a: { regex: "(a|b)*c{1,40}d" } } }
    limits: [all]
    origin: 127.0.0.1:1
  - { name: mode, match: { path: /, query: { mode: x } }, limits: [all], origin: "127.0.0.1:1" }
  - { name: rest, limits: [by_cookie, by_query, by_field, all], origin: "127.0.0.1:1" }
"""


def fill(piece, length=LENGTH):
    return (piece * (length // len(piece) + 1))[: length // len(piece) * len(piece)]


def path(target):
    return (target, [])


def query(text):
    return (b"/?" + text, [])


def fields(*lines):
    return (b"/", list(lines))


def line(name, piece, length=LENGTH):
    return fields((name, fill(piece, length)))


KINDS = {
    "path": (path(b"/" + fill(b"abcdefghij/")), {
        piece: path(b"/" + fill(piece.encode()))
        for piece in [".a%2Fa", ".a/", "%2F", "/", "//.a", "/..a", ".a;", ";a", "a%5C", "%C3", "%61", "%2e%2e%2e", "|", "\"", "%20", ".%20a/",
                      "%C5%BF", "%40", "a|", "/%61", "%c3|", "ab|%2f"]
    } | {"one slash": path(fill(b"/")), "folded name": path(b"/" + fill(b"Ab.%20") + b"/x"), "soft name": path(b"/login" + fill(b"%20") + b"x")}),
    "fields": (fields((b"x-long", b"a" * (LENGTH // 2)), (b"x-b", b"b" * (LENGTH // 2))), {
        "many": fields(*[(b"x-%03d" % n, b"v" * 68) for n in range(97)]),
        "equal names": fields(*[(b"x-a", b"v" * 70) for n in range(97)]),
        "short": fields(*[(b"a%d" % n, b"") for n in range(96)], (b"x-long", b"a" * 6900)),
        "folded names": fields(*[(b"x_%03d" % n, b"v" * 68) for n in range(97)]),
        "many forwarded": fields(*[(b"x-forwarded-%03d" % n, b"v" * 58) for n in range(97)]),
        "expression": fields((b"x-a", fill(b"ab", 4000)), (b"x-b", b"b" * 3400)),
        "expressions": (b"/?a=1", [(b"x-a", fill(b"ab", 3900)), (b"x-a", fill(b"abc", 3400))]),
        "accept": line(b"accept", b"a/b;q=0.1,"), "tabs": fields((b"x-a", b"a" + b"\t" * LENGTH + b"a")),
        "high bytes": line(b"x-b", b"\xff"), "quotes": line(b"user-agent", b"\""), "escapes": line(b"user-agent", b"\\"),
        "user agent": line(b"user-agent", b"\xc3\xa9"), "accept *": line(b"accept", b","), "encoding": line(b"accept-encoding", b"gzip,"),
        "key": fields((b"x-key", b"k" * LENGTH)), "host": fields((b"x-b", b"b" * LENGTH)), "referer": line(b"referer", b"\"\\"),
        "long name": fields((b"x-" + b"a" * LENGTH, b"b")), "long folded name": fields((b"x-" + b"_" * LENGTH, b"b")),
        "connection": fields((b"connection", b"a" + b"," * LENGTH + b"b")), "connection, blanks": fields((b"connection", b"a," + b" " * LENGTH + b",b")),
        "connection, both": line(b"connection", b", "), "connections": fields(*[(b"connection", b"," * 66) for n in range(97)]),
        "te": fields(*[(b"accept", b"text/html;q=0.%d, */*;q=0.1, application/problem+json" % n) for n in range(97)]),
    }),
    "cookies": (line(b"cookie", b"vvvvvvvvvv"), {
        piece: line(b"cookie", piece.encode())
        for piece in ["a=b; ", "a=b;", ";", "; ", "sid=a; ", "sid=a;", "sid=\"a;", "sid=\"\\141\";", "sid=%61;", "s%69d=a;", "%73%69%64=a;", "s;", "sid;", "sid",
                      " ;", " sid ;", "=", "%;", "%73;", "+sid=a;", "si=a;", "sid=vvv;", "%73id=vv;", "+sid=vv;", "%73i=vvv;", "sid=%61;", "vvvvvvv;", "+++++++;"] + [
                      # few enough to be read
                      *[begin.ljust(31, "+" if begin.endswith("+") else "v") + ";" for begin in
                        ["sid=", "%73id=", "+sid=", "%73%69%64=", "sid=%61%61%61", "+%73i=", "+++++++"]]]
    } | {"lines": fields(*[(b"cookie", b"sid=a; " * 9) for n in range(97)]), "value": fields((b"cookie", b"sid=" + fill(b"%61"))),
         "quoted value": fields((b"cookie", b"sid=\"" + fill(b"\\141") + b"\"")), "two values": fields((b"cookie", b"sid=" + fill(b"%61", 3700) + b";sid=" + fill(b"%61", 3600) + b"bc")),
         "four values": fields((b"cookie", b";".join(b"sid=" + fill(b"%61", 1800) + b"%6" + b"%d" % n for n in range(4))))}),
    "query": (query(b"a=" + b"v" * LENGTH), {
        piece: query(fill(piece.encode()))
        for piece in ["a=&", "&", ";", "=", "token=a&", "token=;", "t%6fken=%41&", "%74%6f%6b%65%6e=a&", "t;", "t&", "token;", "token&", "%&", "%;", "%74;",
                      "+token;", "+;", "%20;", "\"", "<>", "a=;", "m;", "mode=;", "mode=x;", "mode=x&", "a=1;", "a=1&", "%61=1;", "a%3d;", "?", "token=%61;",
                      "\"<&", "\"&\"", "+mode;", "+a;", "+a&", "%61=%;", "+mode=v;", "+a=vvvv;", "+a=vvvv&", "%61=%vv;", "a=vvvvv;", "mode=vv;", "token=v;", "+++++++;"] + [
                      *[begin.ljust(31, "+" if begin.endswith("+") else "v") + ";" for begin in
                        ["token=", "+token=", "token=%61%61%61", "t%6fken=%41", "mode=", "+mode=", "%6dode=", "mode=%61%61%61", "+a=", "%61=%76%76%76", "a=", "a=%61%61%61", "+++++++"]]]
    } | {"value": query(b"token=" + fill(b"%61")), "semicolons": query(b"token=" + fill(b";")), "expression": query(b"a=" + fill(b"xyzw", 4000) + b"&" + b"b" * 3400),
         "escaped expression": query(b"a=" + fill(b"%78")), "pluses": query(b"token=" + fill(b"+")),
         "four values": query(b"&".join(b"token=" + fill(b"%61", 1800) + b"%6" + b"%d" % n for n in range(4))), "mode": query(b"mode=" + fill(b"%78"))}),
    "forwarding": (fields((b"x-b", b"v" * LENGTH)), {
        piece: line(b"x-forwarded-for", piece.encode())
        for piece in ["10.0.0.1,", "127.0.0.1,", "127.0.0.1, ", "127.0.0.1:80,", "[::1]:80,", "::ffff:127.0.0.1,", "0:0:0:0:0:0:0:1,", ",", ", ", " \t,", "unknown,", "a,", "a", "1.",
                      "127.000.000.001,", "[", "%"]
    } | {"lines": fields(*[(b"x-forwarded-for", b"127.0.0.1, 127.0.0.1, 127.0.0.1, 127.0.0.1, 127.0.0.1") for n in range(97)]),
         "others": fields(*[(b"x-real-ip" if n % 2 else b"forwarded", b"for=127.0.0.1;by=127.0.0.1") for n in range(97)])}),
    "forwarded": (fields((b"x-b", b"v" * LENGTH)), {
        piece: line(b"forwarded", piece.encode() + b",", LENGTH - 20) if False else fields((b"forwarded", fill(piece.encode()) + b"for=127.0.0.1"))
        for piece in ["for=127.0.0.1,", "for=\"127.0.0.1\",", "for=\"[::1]:80\";a=b,", "for=\"\\1\\2\\7.0.0.1\",", ";", ",", "; ", "a=b;", "a=b,", "a=\"\\\"\",",
                      "a=b;b=c;c=d;d=e;e=f;g=h;i=j;k=l;m=n;for=127.0.0.1,", "for=[::1],", "for=unknown,", "for=_a;by=_b,"]
    } | {"quoted": fields((b"forwarded", b"a=\"" + fill(b"\\a") + b"\";for=127.0.0.1")), "lines": fields(*[(b"forwarded", b"for=\"127.0.0.1\", for=127.0.0.1;by=b, for=127.0.0.1;a=\"b\"") for n in range(97)])}),
    "table": (path(b"/" + fill(b"abcdefghij/", TABLE)), {
        "path " + piece: path(b"/" + fill(piece.encode(), TABLE))
        for piece in [".a%2Fa", ".a/", "/", "%61", "|", "%2F", "/%61", "a|"]
    } | {"query " + piece: query(fill(piece.encode(), TABLE)) for piece in ["token=;", "token;", "t;", "&", "a=;"]}
      | {"cookie " + piece: (b"/", [(b"cookie", fill(piece.encode(), TABLE))]) for piece in ["sid=a;", "s;", "%73;"]}),
    "many indices": (fields(*[(b"x-long", fill(b"abcdefgh", 900)) for n in range(8)]), {
        "empty cookies": fields(*[(b"cookie", b"") for n in range(190)]), "crumbs": fields(*[(b"cookie", b"sid=a") for n in range(160)]),
        "small fields": fields(*[(b"x-%02d" % (n % 50), b"v") for n in range(97)]), "equal fields": fields(*[(b"x-a", b"ab") for n in range(97)]),
        "forwarding": fields(*[(b"x-forwarded-for", b"127.0.0.1") for n in range(97)]),
    }),
}
HTTP2 = {"table": TABLE, "many indices": 0}


def http1(head):
    target, lines = head
    return b"GET %s HTTP/1.1\r\nhost: a\r\n%s\r\n" % (target, b"".join(b"%s: %s\r\n" % field for field in lines))


def integer(value, bits, first):
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = [first | most], value - most
    while value >= 128:
        out, value = out + [value & 127 | 128], value >> 7
    return bytes(out + [value])


def text(value):
    return integer(len(value), 7, 0) + value


class Http2:
    """One connection, whose heads stand in the table of the compression once they were sent."""

    def __init__(self, address, head):
        self.socket = socket.create_connection(address, 5)
        self.buffer, self.stream = b"", 1
        target, lines = head
        pairs = [(b":path", target)] + lines
        inserted = []
        for pair in pairs:
            if pair not in inserted:
                inserted.append(pair)
        newest = {pair: 62 + len(inserted) - 1 - at for at, pair in enumerate(inserted)}
        plain = bytes([0x82, 0x86]) + b"\x01" + text(b"a")
        first = plain + b"".join(b"\x40" + text(name) + text(value) for name, value in inserted)
        self.again = plain + b"".join(integer(newest[pair], 7, 0x80) for pair in pairs)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(8, 0, 0, struct.pack(">I", 1 << 30)))
        self.ask_with(first)

    def ask(self):
        self.ask_with(self.again)

    def ask_with(self, block):
        self.socket.sendall(frame(1, 5, self.stream, block))
        stream, self.stream, status = self.stream, self.stream + 2, None
        while True:
            while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
                more = self.socket.recv(65536)
                if not more:
                    raise OSError("closed")
                self.buffer += more
            length, kind, flags = int.from_bytes(self.buffer[:3], "big"), self.buffer[3], self.buffer[4]
            of = int.from_bytes(self.buffer[5:9], "big")
            payload, self.buffer = self.buffer[9 : 9 + length], self.buffer[9 + length :]
            if kind == 4 and not flags & 1:
                self.socket.sendall(frame(4, 1, 0, b""))
            if kind == 7 or (kind == 3 and of == stream):
                raise OSError("refused: frame %d, %r" % (kind, payload))
            if of == stream and kind in (0, 1) and flags & 1:
                return


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class Http1:
    def __init__(self, address, head):
        self.address, self.head, self.socket = address, http1(head), socket.create_connection(address, 5)

    def ask(self):
        self.socket.sendall(self.head)
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = self.socket.recv(65536)
            if not more:
                raise OSError("closed")
            answer += more
        head, body = answer.split(b"\r\n\r\n", 1)
        self.status = head[9:12].decode()
        missing = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1)) - len(body)
        while missing > 0:
            missing -= len(self.socket.recv(65536))
        if b"connection: close" in head.lower():
            self.socket = socket.create_connection(self.address, 5)


class Gate:
    def __init__(self, binary, header):
        self.directory = tempfile.TemporaryDirectory()
        directory = self.directory.name
        file, said = os.path.join(directory, "policy.yaml"), os.path.join(directory, "stderr")
        with open(file, "w") as out:
            out.write(POLICY % {"directory": directory, "header": header, "long": "a" * 200})
        with open(said, "w") as out:
            self.process = subprocess.Popen([binary, "run", "-c", file], stdout=subprocess.DEVNULL, stderr=out)
        until = time.time() + 20
        while True:
            text = open(said).read()
            found = re.search(r"listening on ([0-9.]+):(\d+)", text)
            if found:
                self.address = (found.group(1), int(found.group(2)))
                return
            if self.process.poll() is not None or time.time() > until:
                sys.exit("the gate did not start:\n" + text)
            time.sleep(0.02)

    def cpu(self):
        tasks = glob.glob("/proc/%d/task/*/schedstat" % self.process.pid)
        return sum(int(open(task).read().split()[0]) for task in tasks) / 1000

    def cost(self, connection, requests):
        before = self.cpu()
        for _ in range(requests):
            connection.ask()
        return (self.cpu() - before) / requests

    def stop(self):
        self.process.kill()
        self.process.wait()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("binary", nargs="?", default="target/release/tidegate")
    options.add_argument("--only", default="", metavar="KIND")
    options.add_argument("--rounds", type=int, default=7)
    options = options.parse_args()
    over = []
    for kind, (ordinary, heads) in KINDS.items():
        if options.only not in kind:
            continue
        gate = Gate(options.binary, "forwarded" if kind == "forwarded" else "x-forwarded-for")
        way = Http2 if kind in HTTP2 else Http1
        rows = []
        for name, head in heads.items():
            pair = [way(gate.address, one) for one in (ordinary, head)]
            turns = [[gate.cost(one, 50) for one in pair] for _ in range(options.rounds)]
            usual, cost = (min(turn[at] for turn in turns) for at in (0, 1))
            rows.append((cost / usual, name, cost, usual, getattr(pair[1], "status", "")))
        gate.stop()
        rows.sort(reverse=True)
        print("%s: ordinary %.0f µs" % (kind, min(row[3] for row in rows)))
        for ratio, name, cost, _, status in rows:
            print("  %5.2f  %4.0f µs  %s  %s" % (ratio, cost, status, name))
            if ratio > MOST:
                over.append("%s %s" % (kind, name))
        sys.stdout.flush()
    sys.exit("above %s: %s" % (MOST, ", ".join(over)) if over else 0)


if __name__ == "__main__":
    main()
