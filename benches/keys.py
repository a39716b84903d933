#!/usr/bin/env python3
"""Ten million keys: who still holds? The picture and the table of docs/performance.md.

    keys.py TIDEGATE [--keys N] [--rate N] [--picture FILE]

tidegate, nginx and HAProxy each hold every client to ten requests a minute, ten of them at once, by the address that a trusted proxy says, in a table
of 8 MiB. A flood of new clients comes, each with one request. A hundred patient clients ask for more than their limit again and again, as who knows
that a table forgets would do. What they get is divided by what the limit promises them in that time: burst + rate × time. All three at the same time.
Nothing here is a test, since the machine's other work is in it: it changes how fast the flood is, not what a promise is.
"""

import contextlib
import multiprocessing
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from door import find, free_port

# of one client; how many ask again and again, and how often each time
BURST, PER_SECOND, PATIENT, ASKS = 10, 10 / 60, 100, (8, 8)
# how many of the flood are sent at once, and how often the patient ones come
PIPELINED, LOOKS = 100, 40
MEMORY_MIB = 8


def tidegate(port, folder):
    return f"""listeners: {{ main: {{ address: "127.0.0.1:{port}", connections: {{ per_client: none, requests: 1000000 }} }} }}
trusted_proxies: [127.0.0.0/8]
responses: {{ ratelimit_headers: "off" }}
routes: [{{ name: all, respond: {{ status: 200, body: ok }}, limit: 10/m burst 10 }}]
# the flood takes all of the machine
server: {{ threads: 1, overload: "off" }}
"""


def nginx(port, folder):
    (folder / "ok").write_text("ok")
    return f"""daemon off; master_process off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 64; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_time 24h;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For;
  limit_req_zone $binary_remote_addr zone=clients:{MEMORY_MIB}m rate=10r/m;
  server {{
    listen 127.0.0.1:{port};
    location / {{ root {folder}; try_files /ok =404; limit_req zone=clients burst={BURST - 1} nodelay; limit_req_status 429; }}
  }}
}}
"""


def haproxy(port, folder):
    # an entry with one rate takes some 170 bytes
    return f"""global
  nbthread 1
defaults
  mode http
  timeout client 1h
  timeout server 1h
  timeout connect 5s
frontend main
  bind 127.0.0.1:{port}
  stick-table type ip size {MEMORY_MIB * 1024 * 1024 // 170} expire 1m store http_req_rate(1m)
  http-request track-sc0 req.hdr_ip(x-forwarded-for,-1)
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {BURST} }}
  http-request return status 200 content-type text/plain string ok
"""


# where two lines are one, both are seen
NGINX, DASHED = "#c44536", ' stroke-dasharray="8 6"'

PROXIES = [
    ("tidegate", tidegate, lambda program, folder, file: [program, "run", "-c", file, "--admin", f"{folder}/admin.sock"], "#0b6e4f"),
    ("nginx limit_req", nginx, lambda program, folder, file: [program, "-p", f"{folder}", "-c", file, "-e", f"{folder}/error.log"], NGINX),
    ("HAProxy stick table", haproxy, lambda program, folder, file: [program, "-f", file], "#3d5a80"),
]


class Client:
    """One connection, on which requests are sent many at a time."""

    def __init__(self, port):
        self.port, self.sock = port, None

    def ask(self, addresses):
        """A request of each address, one behind the other; how many were served."""
        if self.sock is None:
            self.sock = socket.create_connection(("127.0.0.1", self.port), 60)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(b"".join(b"GET / HTTP/1.1\r\nHost: keys\r\nX-Forwarded-For: %d.%d.%d.%d\r\n\r\n" % address for address in addresses))
        answers = served = 0
        rest, closes = b"", False
        while answers < len(addresses):
            data = self.sock.recv(65536)
            if not data:
                raise SystemExit("a connection ended in the middle")
            whole = rest + data
            # a status line may be cut
            end = max(whole.rfind(b"HTTP/1.1 "), 0)
            ready, rest = (whole, b"") if len(whole) - end >= 12 else (whole[:end], whole[end:])
            answers += ready.count(b"HTTP/1.1 ")
            served += ready.count(b"HTTP/1.1 200")
            closes |= b"onnection: close" in ready
        # the body of the last one
        self.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self.sock.recv(65536):
                pass
        self.sock.settimeout(60)
        if closes:
            self.sock.close()
            self.sock = None
        return served


def address(number):
    """The address of a client, in an order without a pattern; no two of the first 2^24 are the same."""
    mixed = number * 0x9E3779B1 % (1 << 24)
    return 45, mixed >> 16, mixed >> 8 & 255, mixed & 255


def play(number, program, keys, rate, to):
    """Floods one proxy; sends (keys, got ÷ promised) at each look, and at the end the share of the flood that was served."""
    _, config, command, _ = PROXIES[number]
    with tempfile.TemporaryDirectory(prefix="tidegate-keys-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o700)
        port, file = free_port(), folder / "config.yaml"
        file.write_text(config(port, folder))
        with open(folder / "said", "wb") as said:
            process = subprocess.Popen(command(program, folder, str(file)), stdout=said, stderr=said)
        try:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                time.sleep(0.05)
            else:
                raise SystemExit(f"{PROXIES[number][0]} did not start:\n{(folder / 'said').read_text()}")
            flood, patient = Client(port), Client(port)
            got = came = served = 0
            began = time.monotonic()
            while True:
                for who in range(PATIENT):
                    got += sum(patient.ask([(46, 1, 1, who)] * asks) for asks in ASKS)
                promised = PATIENT * (BURST + PER_SECOND * (time.monotonic() - began))
                to.send((came, got / promised))
                if came >= keys:
                    break
                for _ in range(keys // LOOKS // PIPELINED):
                    served += flood.ask([address(came + at) for at in range(PIPELINED)])
                    came += PIPELINED
                    time.sleep(max(0.0, began + came / rate - time.monotonic()))
            to.send(served / came)
        finally:
            process.kill()
            process.wait()


def draw(curves, keys):
    """Got ÷ promised over the keys that came."""
    width, height, left, right, top, bottom = 720, 360, 56, 176, 40, 48
    most = max(2.0, *(ratio for _, points, _ in curves for _, ratio in points)) * 1.05
    x = lambda at: left + at / keys * (width - left - right)
    y = lambda ratio: height - bottom - ratio / most * (height - top - bottom)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#222">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           f'<text x="{left}" y="20" font-size="14">What a patient client gets, in times of its limit, as new clients come</text>']
    step = 1 if most < 8 else 2
    for ratio in range(0, int(most) + 1, step):
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio}×</text>')
    for part in range(6):
        at = keys * part / 5
        out.append(f'<text x="{x(at):.1f}" y="{height - bottom + 20}" text-anchor="middle">{at / 1e6:g} M</text>')
    out.append(f'<text x="{x(keys / 2):.1f}" y="{height - 10}" text-anchor="middle">new clients</text>')
    last = -1e9
    for name, points, colour in sorted(curves, key=lambda curve: -curve[1][-1][1]):
        line = " ".join(f"{x(at):.1f},{y(ratio):.1f}" for at, ratio in points)
        last = max(last + 16, y(points[-1][1]) + 4)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"{DASHED if colour == NGINX else ""}/>'
                   f'<text x="{x(keys) + 8:.1f}" y="{last:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    arguments = sys.argv[1:]

    def value(word, default):
        if word not in arguments:
            return default
        at = arguments.index(word)
        found = arguments[at + 1]
        del arguments[at:at + 2]
        return found

    keys, rate = int(value("--keys", 10_000_000)), float(value("--rate", 20_000))
    picture = value("--picture", None)
    if len(arguments) != 1 or keys < LOOKS * PIPELINED:
        raise SystemExit(__doc__)
    programs = [arguments[0], find("nginx"), find("haproxy")]
    running = []
    for number, program in enumerate(programs):
        if not program:
            print(f"{PROXIES[number][0]} is not installed: without it", file=sys.stderr)
            continue
        ours, theirs = multiprocessing.Pipe(duplex=False)
        worker = multiprocessing.Process(target=play, args=(number, program, keys, rate, theirs), daemon=True)
        worker.start()
        theirs.close()
        running.append((number, ours))
    curves = []
    print("| | " + " | ".join(f"{keys * part / 5e6:g} M" for part in range(6)) + " | new clients served |\n|---" + "|--:" * 7 + "|")
    for number, ours in running:
        points = [ours.recv() for _ in range(LOOKS + 1)]
        share = ours.recv()
        cells = " | ".join(f"{points[LOOKS * part // 5][1]:.2f}" for part in range(6))
        print(f"| {PROXIES[number][0]} | {cells} | {100 * share:.2f} % |", flush=True)
        curves.append((PROXIES[number][0], points, PROXIES[number][3]))
    if picture:
        pathlib.Path(picture).write_text(draw(curves, keys))


if __name__ == "__main__":
    main()
