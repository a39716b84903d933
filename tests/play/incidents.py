#!/usr/bin/env python3
"""Plays incidents against real gates and writes down, minute by minute, what each place says that an operator looks at.

    incidents.py TIDEGATE [PROMETHEUS] [--out FILE] [SCENE...]

All scenes run side by side, each with a gate, an origin and clients of its own: calm until 0:30, then the incident until 3:50, then
mended. It takes 4 min 55 s. What is said is compared with what the clients counted; a difference is a fault, and the exit code 1.
Alerts are those of conf/prometheus/alerts.yml in a real Prometheus, if there is one. A full disk needs root, for a disk of its own.
"""

import contextlib
import html
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, MEND = 30, 230
LOOKS = [25, 60, 120, 180, 225, 290]
WINDOW = 10


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Origin:
    """An origin that is `ok`, `slow`, `errors` or `down`."""

    def __init__(self):
        self.port, self.mode, self.server = free_port(), "ok", None
        self.up()

    def up(self):
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if origin.mode == "down":
                    self.close_connection = True
                    return
                if origin.mode == "slow":
                    time.sleep(4)
                body = b"ok\n"
                self.send_response(500 if origin.mode == "errors" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

            def handle(self):
                with contextlib.suppress(OSError):
                    super().handle()

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def turn(self, mode):
        self.mode = mode
        if mode == "down":
            self.server.shutdown()
            self.server.server_close()
            self.server = None
        elif self.server is None:
            self.up()


class Clients:
    """Clients that ask so often in a second together, over some connections. A `*` in the address makes them 200."""

    def __init__(self, port, address, per_second, connections):
        self.port, self.address, self.stop = port, address, False
        self.seen, self.lock = [], threading.Lock()
        self.pause = connections / per_second
        for number in range(connections):
            threading.Thread(target=self.ask, args=(random.random() * self.pause, number), daemon=True).start()

    def ask(self, offset, number):
        connection, due = None, time.monotonic() + offset
        while not self.stop:
            number += 1
            address = self.address.replace("*", str(number % 200 + 1))
            due = max(due + self.pause, time.monotonic() - self.pause)
            time.sleep(max(0, due - time.monotonic()))
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                connection.request("GET", "/", headers={"X-Forwarded-For": address})
                answer = connection.getresponse()
                answer.read()
                status = answer.status
                if answer.will_close:
                    connection = None
            except (OSError, http.client.HTTPException):
                connection, status = None, 0
            with self.lock:
                self.seen.append((time.monotonic(), status))

    def lately(self, seconds=WINDOW):
        """The statuses of the last seconds, and how often each came."""
        since, counts = time.monotonic() - seconds, {}
        with self.lock:
            for at, status in reversed(self.seen):
                if at < since:
                    break
                counts[status] = counts.get(status, 0) + 1
        return counts


class Scene:
    """A gate before an origin, with clients, and an incident."""

    health, cap, limits, limit_names = "", 40, "", ""
    # clients: address, requests a second, connections
    clients = [("203.0.113.*", 15, 6)]

    def __init__(self, tidegate):
        self.tidegate, self.name = tidegate, type(self).__name__.lower()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tidegate-play-{self.name}-"))
        self.log_folder = self.folder
        self.prepare()
        self.origin = Origin()
        self.port, self.page_port, self.metrics_port = free_port(), free_port(), free_port()
        self.file = self.folder / "tidegate.yaml"
        self.file.write_text(self.policy())
        self.said = open(self.folder / "stderr", "w+")
        environment = {**os.environ, "RUNTIME_DIRECTORY": str(self.folder)}
        command = [tidegate, "run", "-c", str(self.file)]
        self.gate = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.said, env=environment)
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            time.sleep(0.1)
        self.load = [Clients(self.port, *client) for client in self.clients]
        self.rows, self.faults = [], []

    def prepare(self):
        pass

    def policy(self):
        return f"""listen: "127.0.0.1:{self.port}"
admin: {{ address: "127.0.0.1:{self.page_port}", open: true }}
trusted_proxies: [127.0.0.0/8]
origins:
  shop: {{ addresses: ["127.0.0.1:{self.origin.port}"], inflight: {self.cap}{self.health} }}
{self.limits}routes:
  - {{ name: site, origin: shop{self.limit_names} }}
telemetry:
  metrics: {{ address: "127.0.0.1:{self.metrics_port}" }}
  access_log: {{ to: "{self.log_folder / 'access.json'}" }}
# seven gates and their clients on one machine: what it cannot do is none of these incidents
server: {{ overload: "off" }}
"""

    def begin(self):
        raise NotImplementedError

    def mend(self):
        self.origin.turn("ok")

    def turn(self, second):
        """Called each second of the incident."""

    # ── what is told ──

    def verb(self, *arguments):
        command = [self.tidegate, *arguments, "--admin", str(self.folder / "private/admin.sock")]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    def state(self):
        return json.loads(self.verb("status", "--format", "json").stdout)

    def page(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/", timeout=20).read().decode()
        notices = re.findall(r'class="notice[^"]*">\s*<p>(.*?)</p>', text, re.S)
        badges = re.findall(r'class="tag bad">(✕[^<]*)<', text)
        plain = lambda words: html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"\s*</?code>\s*", " ", words)))
        told = [" ".join(plain(words).split()) for words in notices] + [f"`shop` {badge}" for badge in badges]
        return "; ".join(told) or "nothing wrong"

    def top(self):
        lines = self.verb("top", "--once", "--width", "100").stdout.splitlines()
        head = next((number for number, line in enumerate(lines) if line.startswith("ORIGINS")), None)
        told = [self.limit_row(lines)] if self.limits else [lines[head + 1]] if head is not None else []
        return " ".join(" ".join(told).split()) + f"; {sum(line.startswith('!') for line in lines)} notices"

    def limit_row(self, lines):
        rows = [line[: line.find("▁")] if "▁" in line else line for line in lines]
        wanted = [re.sub(r"[▁▂▃▄▅▆▇█]+", "", row) for row in rows if row.startswith(("per_client ", "fair "))]
        return " | ".join(row.rstrip() for row in wanted if "/" not in row)

    def status(self):
        lines = self.verb("status").stdout.splitlines()
        told = [line for line in lines if line.startswith(("origin ", "! ", "per_client ", "fair "))]
        return "; ".join(" ".join(line.split()) for line in told)

    def log(self):
        self.said.flush()
        lines = pathlib.Path(self.said.name).read_text().splitlines()
        told = [line for line in lines if "notice" in line or "WARN" in line or "ERROR" in line]
        last = re.sub(r"^\S+ +", "", told[-1])[:110] if told else "quiet"
        return f"{len(told)} lines; last: {last}" if told else last

    def metrics(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=20).read().decode()
        series = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                series[name] = float(value)
        return series

    def counted(self):
        """The metrics that matter, since the start."""
        series = self.metrics()
        total = lambda name, *labels: sum(
            value for key, value in series.items() if key.startswith(name + "{") and all(one in key for one in labels)
        )
        answers = {code: int(total("tidegate_origin_answers_total", f'code="{code}"')) for code in
                   ("2xx", "5xx", "failed", "cut")}
        told = ", ".join(f"{code} {count}" for code, count in answers.items() if count)
        notices = [re.search(r'notice="(\w+)"', key)[1] for key, value in series.items()
                   if key.startswith("tidegate_notice{") and value]
        return f"answers {told or 0}; shed {int(total('tidegate_origin_shed_requests_total'))}; notice {notices or 'none'}"

    def look(self, second, alerts):
        clients = self.heard()
        row = {"minute": f"{second // 60}:{second % 60:02}", "clients": clients, "page": self.page(), "top": self.top(),
               "status": self.status(), "log": self.log(), "metrics": self.counted(), "alerts": alerts}
        self.rows.append(row)
        during = BEGIN + WINDOW <= second <= MEND
        notices = [notice["kind"] for notice in self.state()["notices"]]
        for what, holds in self.truths(during, second, notices, row):
            if not holds:
                self.faults.append(f"{self.name} at {row['minute']}: {what}")

    def heard(self):
        return "; ".join(f"{one.address}: " + ", ".join(f"{count} × {status or 'no answer'}" for status, count in
                                                       sorted(one.lately().items())) for one in self.load)

    def truths(self, during, second, notices, row):
        """What has to hold: pairs of words and whether it does."""
        counts = self.load[0].lately()
        total = sum(counts.values())
        failed = sum(count for status, count in counts.items() if status >= 500 or status == 0)
        origin = self.state()["origins"][0]["recent"]["answers"]
        ended = sum(origin.values())
        share = (origin["5xx"] + origin["failed"] + origin["cut"]) / max(1, ended)
        if self.cap >= 40:
            yield "status tells the share of errors that clients saw", abs(share - failed / max(1, total)) < 0.15
        yield f"calm or mended, and nothing is wrong: {notices}", during or second == BEGIN or not notices

    def end(self):
        for one in self.load:
            one.stop = True
        self.gate.terminate()
        self.gate.wait()
        self.said.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Flood(Scene):
    """One client asks 300 times a second on 80 connections, beside ten that ask twice; the fair share leaves it less than its own limit."""

    limits = "limits:\n  per_client: { rate: 100/s, burst: 25 }\n  fair: { type: fair_share, capacity: 100/s }\n"
    limit_names = ", limits: [fair, per_client]"
    clients = [(f"203.0.{number}.9", 2, 1) for number in range(10)]

    def begin(self):
        # more than can wait for a unit: those that wait ask for nothing meanwhile
        self.load.append(Clients(self.port, "198.51.100.66", 300, 80))

    def mend(self):
        self.load[-1].stop = True

    def heard(self):
        modest = {}
        for one in self.load[:10]:
            for status, count in one.lately().items():
                modest[status] = modest.get(status, 0) + count
        told = "ten clients: " + ", ".join(f"{count} × {status}" for status, count in sorted(modest.items()))
        hot = self.load[10].lately() if len(self.load) > 10 else {}
        return told + ("; the flood: " + ", ".join(f"{n} × {status}" for status, n in sorted(hot.items())) if hot else "")

    def truths(self, during, second, notices, row):
        modest, total = 0, 0
        for one in self.load[:10]:
            counts = one.lately()
            modest, total = modest + counts.get(200, 0), total + sum(counts.values())
        yield "the other clients are served", modest >= 0.95 * total
        if during:
            hot = self.load[10].lately()
            yield "the flood is told its own limit", hot.get(429, 0) > 5 * hot.get(503, 0) + 100
            limits = {limit["name"]: limit["decisions"]["limited"] for limit in self.state()["limits"]}
            yield "per_client shows the refusals", limits["per_client"] > 4 * limits["fair"] + 100
        yield "an origin that is well is told as well", "✕" not in row["page"] + row["top"]
        yield f"nothing else is noticed: {notices}", not notices


class Down(Scene):
    """The origin closes its socket; health checks find out."""

    health = ", health: { path: /, every: 1s, timeout: 500ms }"

    def begin(self):
        self.origin.turn("down")

    def truths(self, during, second, notices, row):
        yield from super().truths(during, second, notices, row)
        yield f"the notice says so: {notices}", ("origin_down" in notices) == during
        yield "the page says so", ("no address of it is in use" in row["page"]) == during


class Slow(Scene):
    """The origin takes 4 s for each answer; eight places are soon taken."""

    cap, clients = 8, [("203.0.113.*", 15, 60)]

    def begin(self):
        self.origin.turn("slow")

    def truths(self, during, second, notices, row):
        yield from super().truths(during, second, notices, row)
        p99 = self.state()["origins"][0]["recent"].get("p99_seconds", 0)
        yield f"p99 is what it takes: {p99}", (2.5 < p99 <= 5) == during
        yield f"the notice says so: {notices}", ("origin_full" in notices) == during


class Errors(Scene):
    """The origin answers 500 to everything; no health check finds out."""

    def begin(self):
        self.origin.turn("errors")

    def truths(self, during, second, notices, row):
        yield from super().truths(during, second, notices, row)
        yield f"the notice says so: {notices}", ("origin_fails" in notices) == during
        for place in ("page", "top", "status"):
            yield f"{place} marks the origin", (("✕" in row[place]) or ("FAILS" in row[place])) == during


class Flapping(Scene):
    """The origin answers 500 for ten seconds, then is well for ten."""

    def begin(self):
        self.turn(BEGIN)

    def turn(self, second):
        self.origin.turn("errors" if (second - BEGIN) // 10 % 2 == 0 else "ok")

    def truths(self, during, second, notices, row):
        yield from super().truths(during, second, notices, row)


class Reload(Scene):
    """A policy with a fault is reloaded; the one before stays in force."""

    def begin(self):
        self.file.write_text(self.policy().replace("inflight: 40", "inflihgt: 40"))
        if self.verb("reload").returncode != 1:
            self.faults.append("reload: a wrong policy is not refused")

    def mend(self):
        self.file.write_text(self.policy())
        if self.verb("reload").returncode != 0:
            self.faults.append("reload: the mended policy is refused")

    def truths(self, during, second, notices, row):
        yield from super().truths(during, second, notices, row)
        yield f"the notice says so: {notices}", ("reload_refused" in notices) == during
        yield "the page says so", ("refused" in row["page"]) == during


class Disk(Scene):
    """The disk of the access log is full."""

    def prepare(self):
        self.log_folder = self.folder / "log"
        self.log_folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(self.log_folder)], check=True)

    def begin(self):
        with contextlib.suppress(OSError), open(self.log_folder / "filler", "wb") as filler:
            while True:
                filler.write(bytes(4096))
                filler.flush()

    def mend(self):
        (self.log_folder / "filler").unlink()

    def truths(self, during, second, notices, row):
        yield from super().truths(during, second, notices, row)
        yield f"the notice says so: {notices}", ("log_fails" in notices) == during
        yield "the page says so", ("cannot be written" in row["page"]) == during

    def end(self):
        super_end = super().end
        for one in self.load:
            one.stop = True
        self.gate.terminate()
        self.gate.wait()
        subprocess.run(["umount", str(self.log_folder)], check=False)
        super_end()


class Prometheus:
    """A real Prometheus with the shipped rules, which looks at all gates."""

    def __init__(self, program, scenes):
        self.folder, self.port = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-play-prometheus-")), free_port()
        targets = [{"targets": [f"127.0.0.1:{scene.metrics_port}"], "labels": {"scene": scene.name}} for scene in scenes]
        settings = {
            "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
            "rule_files": [str(ROOT / "conf/prometheus/alerts.yml")],
            "scrape_configs": [{"job_name": "tidegate", "static_configs": targets}],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(settings))
        self.of = {f"127.0.0.1:{scene.metrics_port}": scene.name for scene in scenes}
        command = [program, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                   f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def alerts(self):
        """By scene: which alerts fire, and which wait for their time."""
        url = f"http://127.0.0.1:{self.port}/api/v1/alerts"
        told = {}
        for alert in json.load(urllib.request.urlopen(url, timeout=20))["data"]["alerts"]:
            scene = self.of.get(alert["labels"].get("instance"), "?")
            told.setdefault(scene, {})[alert["labels"]["alertname"]] = alert["state"]
        return told

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


# By the last look of the incident these must fire.
FIRING = {"errors": "TidegateOriginFails", "down": "TidegateOriginDown", "reload": "TidegateReloadFailed",
          "disk": "TidegateLogNotWritten", "flapping": "TidegateOriginFails"}


def written(scenes):
    """The tables in Markdown."""
    columns = ["minute", "clients", "page", "top", "status", "log", "metrics", "alerts"]
    text = ""
    for scene in scenes:
        text += f"## {scene.name}\n\n{scene.__doc__}\n\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"
        for row in scene.rows:
            text += "| " + " | ".join(row[column].replace("|", "\\|") for column in columns) + " |\n"
        text += "\n"
    return text


def main():
    arguments = sys.argv[1:]
    out = ROOT / "target/play/incidents.md"
    if "--out" in arguments:
        at = arguments.index("--out")
        out = pathlib.Path(arguments[at + 1])
        del arguments[at:at + 2]
    tidegate, rest = arguments[0], arguments[1:]
    program = rest.pop(0) if rest and os.access(rest[0], os.X_OK) and "/" in rest[0] else shutil.which("prometheus")
    kinds = {kind.__name__.lower(): kind for kind in (Flood, Down, Slow, Errors, Flapping, Reload, Disk)}
    scenes, faults = [], []
    for name in rest or kinds:
        try:
            scenes.append(kinds[name](tidegate))
        except subprocess.CalledProcessError:
            print(f"skipped: {name} needs root, to mount a disk of its own", file=sys.stderr)
    prometheus = Prometheus(program, scenes) if program else None
    if not prometheus:
        print("skipped: alerts, as there is no prometheus", file=sys.stderr)
    start = time.monotonic()
    try:
        for second in range(1, LOOKS[-1] + 1):
            time.sleep(max(0, start + second - time.monotonic()))
            for scene in scenes:
                if second == BEGIN:
                    scene.begin()
                elif second == MEND:
                    scene.mend()
                elif BEGIN < second < MEND:
                    scene.turn(second)
            if second in LOOKS:
                alerts = prometheus.alerts() if prometheus else {}
                for scene in scenes:
                    mine = alerts.get(scene.name, {})
                    told = ", ".join(f"{name} {state}" for name, state in sorted(mine.items()))
                    scene.look(second, told or ("none" if prometheus else "not asked"))
                    expected = FIRING.get(scene.name)
                    if prometheus and second == LOOKS[-2] and expected and mine.get(expected) != "firing":
                        scene.faults.append(f"{scene.name}: {expected} does not fire: {mine}")
                    if prometheus and second == LOOKS[0] and mine:
                        scene.faults.append(f"{scene.name}: alerts while all is calm: {mine}")
                print(f"looked at {second // 60}:{second % 60:02}", file=sys.stderr)
        faults = [fault for scene in scenes for fault in scene.faults]
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(written(scenes))
    finally:
        for scene in scenes:
            scene.end()
        if prometheus:
            prometheus.end()
    print("\n".join(faults) or f"all of it is true; the tables are in {out}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
