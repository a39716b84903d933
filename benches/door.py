#!/usr/bin/env python3
"""The attack table of docs/door.md through sockets: floods of every form at an origin with few places, beside honest clients.

    door.py TIDEGATE [--seconds N] [--only WORD] [ROW...]        ROW: connections,1,8 (attack, hosts, places)

Four proxies stand before an origin each: tidegate, tidegate with `order: arrival`, nginx with `limit_conn` and `limit_req`, HAProxy with `maxconn`, a queue
and `set-priority-class`. All four have the same row at the same time; nginx or HAProxy that is not installed is left out, and said.
Clients are addresses of 127.0.0.0/8: light and heavy ones in a /16 each, two hundred hostile ones in one /24. A request takes TAKES at the origin, whose own
counter says how many it had at once: work goes on when a client has left. Nothing here is a test, since the machine's other work is in it.
"""

import asyncio
import contextlib
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ATTACKS = ["connections", "streams", "slow", "abandoned", "bursts"]
ROWS = [("connections", 1, 8), ("connections", 8, 8), ("connections", 200, 20), ("connections", 1, 400), ("streams", 1, 8), ("streams", 1, 20),
        ("slow", 1, 20), ("slow", 8, 20), ("slow", 200, 20), ("abandoned", 1, 8), ("abandoned", 8, 20), ("bursts", 1, 8), ("bursts", 200, 20)]
# seconds: a request, a slow one, until the flood begins, from when on requests count
TAKES, SLOW, FLOOD, COUNT = 0.2, 4.0, 2.0, 3.0
QUEUE_SECONDS = 1


def again(many):
    """When one of so many asks again after a refusal: all of them together 500 times a second, so that one process can do it."""
    return max(0.1, many / 500)


def takes(places):
    """How long a request takes: at many places longer, so that one process can be all clients."""
    return 1.0 if places > 100 else TAKES


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Origin:
    """An origin that says how many requests it has at once."""

    def __init__(self):
        self.now, self.most, self.busy, self.since = 0, 0, 0.0, None

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        self.port = self.server.sockets[0].getsockname()[1]

    def count(self, more):
        at = time.monotonic()
        if self.since is not None:
            self.busy += self.now * (at - self.since)
            self.since = at
        self.now += more
        self.most = max(self.most, self.now)

    async def work(self, seconds):
        self.count(1)
        await asyncio.sleep(seconds)
        self.count(-1)

    async def serve(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                seconds = float(head.split(b" ", 2)[1].lstrip(b"/"))
                # a task of its own: who leaves does not end the work
                await asyncio.shield(asyncio.ensure_future(self.work(seconds)))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()


class Proxy:
    """A proxy before an origin of its own."""

    def __init__(self, name, program, command, config, ending):
        self.name, self.program, self.command, self.config, self.ending = name, program, command, config, ending

    async def start(self, folder, places):
        self.origin, self.port, self.h2_port = Origin(), free_port(), free_port()
        await self.origin.start()
        self.folder = folder / self.name.replace(" ", "-").replace(":", "")
        self.folder.mkdir()
        self.folder.chmod(0o700)
        file = self.folder / ("config" + self.ending)
        file.write_text(self.config(self, places))
        self.said = open(self.folder / "said", "wb")
        self.process = subprocess.Popen([self.program, *self.command(self, file)], stdout=self.said, stderr=self.said)
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            await asyncio.sleep(0.05)
        raise SystemExit(f"{self.name} did not start:\n{(self.folder / 'said').read_text()}")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.said.close()
        self.origin.server.close()


def queue(places):
    return min(max(2 * places, 32), 4096)


def tidegate(order):
    def config(self, places):
        return f"""listeners: {{ main: {{ address: "127.0.0.1:{self.port}", protocols: [h2, http/1.1],
  connections: {{ per_client: none }} }} }}
origins:
  app: {{ addresses: ["127.0.0.1:{self.origin.port}"], inflight: {{ max: {places}, queue_timeout: {QUEUE_SECONDS}s{order} }} }}
routes: [{{ name: all, origin: app }}]
# the clients are on the same machine
server: {{ overload: "off" }}
"""
    return config


def nginx(self, places):
    capacity = places / takes(places)
    return f"""daemon off; master_process off; worker_processes 1; pid {self.folder}/pid; error_log {self.folder}/error.log crit;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {self.folder}/body; proxy_temp_path {self.folder}/proxy; fastcgi_temp_path {self.folder}/fastcgi;
  uwsgi_temp_path {self.folder}/uwsgi; scgi_temp_path {self.folder}/scgi;
  limit_conn_zone $binary_remote_addr zone=client:1m; limit_conn_zone $server_port zone=all:1m;
  limit_req_zone $binary_remote_addr zone=rate:1m rate={max(1, int(capacity / 2))}r/s;
  upstream app {{ server 127.0.0.1:{self.origin.port}; keepalive 400; }}
  server {{
    listen 127.0.0.1:{self.port} backlog=4096; listen 127.0.0.1:{self.h2_port} http2 backlog=4096; http2_max_concurrent_streams 128;
    # all places, and of one client half of them; a rate of half of the capacity, {QUEUE_SECONDS} s of it may wait
    limit_conn all {places}; limit_conn client {max(1, places // 2)};
    limit_req zone=rate burst={max(1, int(QUEUE_SECONDS * capacity / 2))};
    proxy_ignore_client_abort on;
    location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""


def haproxy(self, places):
    return f"""global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 1m
  timeout server 1m
  timeout queue {QUEUE_SECONDS}s
frontend main
  bind 127.0.0.1:{self.port} backlog 4096
  stick-table type ip size 100k expire 1m store conn_cur,http_req_rate(10s)
  http-request track-sc0 src
  # who has more than a place asks later than the others, by how many
  http-request set-priority-class int(1) if {{ sc0_conn_cur gt 1 }}
  http-request set-priority-class int(2) if {{ sc0_conn_cur gt {max(2, places // 4)} }}
  default_backend app
backend app
  server app 127.0.0.1:{self.origin.port} maxconn {places} maxqueue {queue(places)}
"""


def find(name):
    return shutil.which(name) or next((path for path in (f"/usr/sbin/{name}", f"/usr/local/sbin/{name}") if pathlib.Path(path).exists()), None)


def proxies(program, only):
    run = lambda self, file: ["run", "-c", str(file), "--admin", str(self.folder / "admin.sock")]
    all_of_them = [
        Proxy("tidegate", program, run, tidegate(""), ".yaml"),
        Proxy("order: arrival", program, run, tidegate(", order: arrival"), ".yaml"),
        Proxy("nginx", find("nginx"), lambda self, file: ["-p", str(self.folder), "-c", str(file), "-e", str(self.folder / "error.log")], nginx, ".conf"),
        Proxy("HAProxy", find("haproxy"), lambda self, file: ["-f", str(file)], haproxy, ".cfg"),
    ]
    for proxy in all_of_them:
        if not proxy.program:
            print(f"{proxy.name} is not installed: without it", file=sys.stderr)
    return [proxy for proxy in all_of_them if proxy.program and (not only or only in proxy.name)]


class Asked:
    """What honest clients got."""

    def __init__(self):
        self.sent, self.served, self.waits = 0, 0, []

    def share(self):
        return self.served / max(1, self.sent)

    def p99(self):
        waits = sorted(self.waits)
        return waits[min(len(waits) - 1, int(len(waits) * 0.99))] if waits else None


async def connect(port, host):
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, 0))
    try:
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return await asyncio.open_connection(sock=sock)


async def answer(reader):
    """The status of an answer, which is read to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1]), b"connection: close" in head.lower()


def request(seconds):
    return f"GET /{seconds} HTTP/1.1\r\nHost: app\r\n\r\n".encode()


FAULTS = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError)


async def honest(port, host, per_second, seconds, until, asked):
    """Asks so often, at random, each time on a connection of its own."""
    async def one(counts):
        began = time.monotonic()
        asked.sent += counts
        with contextlib.suppress(*FAULTS):
            reader, writer = await connect(port, host)
            writer.write(request(seconds))
            with contextlib.suppress(asyncio.TimeoutError):
                status, _ = await asyncio.wait_for(answer(reader), 10)
                if counts and status == 200:
                    asked.served += 1
                    asked.waits.append(max(0.0, time.monotonic() - began - seconds))
            writer.close()

    begun, tasks = time.monotonic(), []
    while True:
        await asyncio.sleep(random.expovariate(per_second))
        now = time.monotonic()
        # the last ones could not be answered before the end
        if now > until - seconds - QUEUE_SECONDS:
            break
        tasks.append(asyncio.ensure_future(one(now - begun >= COUNT)))
    await asyncio.gather(*tasks)


async def again_and_again(port, host, seconds, until, leaves, pause):
    """A connection that asks again as soon as it is answered; `leaves`: it goes away so soon instead, and comes again."""
    while time.monotonic() < until:
        try:
            reader, writer = await connect(port, host)
            while time.monotonic() < until:
                writer.write(request(seconds))
                if leaves:
                    await asyncio.sleep(leaves)
                    break
                status, closes = await asyncio.wait_for(answer(reader), 15)
                if status != 200:
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                if closes:
                    break
            writer.close()
        except (*FAULTS, asyncio.TimeoutError):
            await asyncio.sleep(pause)


async def at_once(port, host, many, seconds, until):
    """So many at one instant, once a second."""
    async def one():
        with contextlib.suppress(*FAULTS, asyncio.TimeoutError):
            reader, writer = await connect(port, host)
            writer.write(request(seconds))
            await asyncio.wait_for(answer(reader), 15)
            writer.close()

    tasks = []
    while time.monotonic() < until:
        tasks += [asyncio.ensure_future(one()) for _ in range(many)]
        await asyncio.sleep(1)
    await asyncio.gather(*tasks)


async def streams(port, host, many, seconds, until, pause):
    """One HTTP/2 connection with so many streams, each asked again as soon as it ends."""
    import h2.config
    import h2.connection
    import h2.events

    head = [(":method", "GET"), (":scheme", "http"), (":authority", "app"), (":path", f"/{seconds}")]
    while time.monotonic() < until:
        with contextlib.suppress(*FAULTS, asyncio.TimeoutError, h2.exceptions.ProtocolError):
            reader, writer = await connect(port, host)
            state = h2.connection.H2Connection(config=h2.config.H2Configuration(header_encoding="utf-8"))
            state.initiate_connection()
            writer.write(state.data_to_send())
            due, refused, back = many, set(), []
            while time.monotonic() < until:
                room = min(due, int(state.remote_settings.max_concurrent_streams) - state.open_outbound_streams)
                for _ in range(max(0, room)):
                    state.send_headers(state.get_next_available_stream_id(), head, end_stream=True)
                    due -= 1
                writer.write(state.data_to_send())
                with contextlib.suppress(asyncio.TimeoutError):
                    data = await asyncio.wait_for(reader.read(65536), pause)
                    if not data:
                        break
                    for event in state.receive_data(data):
                        if isinstance(event, h2.events.ResponseReceived) and dict(event.headers).get(":status") != "200":
                            refused.add(event.stream_id)
                        elif isinstance(event, h2.events.DataReceived):
                            state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                        elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                            if event.stream_id in refused or isinstance(event, h2.events.StreamReset):
                                refused.discard(event.stream_id)
                                asyncio.get_running_loop().call_later(pause, back.append, 1)
                            else:
                                due += 1
                due += len(back)
                back.clear()
            writer.close()


async def flood(port, attack, hosts, places, seconds):
    """The hostile ones."""
    each, until = takes(places), time.monotonic() + seconds
    connections = max(3 * places // hosts, 2 if hosts > 100 else 6)
    pause = again(hosts * (100 if attack == "streams" else connections))
    sources = [f"127.200.0.{at + 1}" if hosts > 100 else f"127.{at + 200}.1.1" for at in range(hosts)]
    floods = []
    for source in sources:
        if attack == "streams":
            floods.append(streams(port, source, 100, each, until, pause))
        elif attack == "bursts":
            floods.append(at_once(port, source, 2 * connections, each, until))
        else:
            leaves = 0.02 if attack == "abandoned" else None
            floods += [again_and_again(port, source, SLOW if attack == "slow" else each, until, leaves, pause) for _ in range(connections)]
    await asyncio.gather(*floods)


async def play(proxy, attack, hosts, places, seconds):
    """One row before one proxy."""
    each, until = takes(places), time.monotonic() + COUNT + seconds
    capacity = places / each
    many = 50 if places > 100 else 8
    light, heavy = Asked(), Asked()
    work = [honest(proxy.port, f"127.{at + 10}.1.1", 0.2 * capacity / many, each, until, light) for at in range(many)]
    work.append(honest(proxy.port, "127.99.1.1", 0.3 * capacity, each, until, heavy))

    async def flooded():
        await asyncio.sleep(FLOOD)
        proxy.origin.most, proxy.origin.busy, proxy.origin.since = 0, 0.0, time.monotonic()
        # nginx has a port for HTTP/2 alone where there is no TLS
        port = proxy.h2_port if (proxy.name, attack) == ("nginx", "streams") else proxy.port
        words = ["flood", str(port), attack, str(hosts), str(places), str(until - time.monotonic())]
        # a process of its own, and behind the others: what it costs is not to delay the honest ones
        process = await asyncio.create_subprocess_exec("nice", "-n", "5", sys.executable, __file__, *words)
        await process.wait()

    await asyncio.gather(flooded(), *work)
    # the max-min share of the heavy one: what the light ones leave, divided among it and the hostile ones; a /24 counts as sixteen
    due = min(1.0, 0.8 / (1 + min(hosts, 16)) / 0.3)
    return light.share(), light.p99(), min(1.0, heavy.share() / due), proxy.origin.most


async def row(program, only, attack, hosts, places, seconds):
    with tempfile.TemporaryDirectory(prefix="tidegate-door-bench-") as folder:
        there = proxies(program, only)
        try:
            for proxy in there:
                await proxy.start(pathlib.Path(folder), places)
            outcomes = await asyncio.gather(*(play(proxy, attack, hosts, places, seconds) for proxy in there))
        finally:
            for proxy in there:
                if hasattr(proxy, "process"):
                    proxy.end()
    cells = []
    for light, p99, heavy, most in outcomes:
        wait = "–" if p99 is None else f"{1000 * p99:.0f} ms"
        cells.append(f"{100 * light:.1f} / {100 * heavy:.0f} %, {wait}, {most}")
    print(f"| {attack} | {hosts} | {places} | " + " | ".join(cells) + " |", flush=True)


def main():
    arguments, seconds, only = sys.argv[1:], 12, None
    if arguments[:1] == ["flood"]:
        port, attack, hosts, places, length = arguments[1:]
        asyncio.run(flood(int(port), attack, int(hosts), int(places), float(length)))
        return
    if "--seconds" in arguments:
        at = arguments.index("--seconds")
        seconds = float(arguments[at + 1])
        del arguments[at:at + 2]
    if "--only" in arguments:
        at = arguments.index("--only")
        only = arguments[at + 1]
        del arguments[at:at + 2]
    program, rows = arguments[0], [(word.split(",")[0], *map(int, word.split(",")[1:])) for word in arguments[1:]] or ROWS
    names = [proxy.name for proxy in proxies(program, only)]
    print(f"| attack | hosts | places | {' | '.join(names)} |\n|---|--:|--:|{'---|' * len(names)}", flush=True)
    for one in rows:
        asyncio.run(row(program, only, *one, seconds))


if __name__ == "__main__":
    main()
