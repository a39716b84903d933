#!/usr/bin/env python3
"""Takes the pictures of the admin page and of a report that stand in docs: starts a gate for each state, sends it traffic for a minute, and
looks at it in headless Chromium.

    pictures.py TIDEGATE FOLDER

Says the height of each picture in screens.
"""

import asyncio
import http.client
import http.server
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gate/clients"))
from page_browser import FLAGS, Tab, tab  # noqa: E402, F401

SECONDS = 75
LOG = "tests/data/shop-2019-combined.log.gz"


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Origin(http.server.ThreadingHTTPServer):
    """Answers after some milliseconds; from a moment on some of its answers are errors."""

    daemon_threads, request_queue_size = True, 512

    def __init__(self, fails):
        self.fails, self.begun, self.served = fails, time.monotonic(), 0
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.server_port}"

    def handle_error(self, request, client_address):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        origin = self.server
        origin.served += 1
        sick = origin.fails and time.monotonic() - origin.begun > SECONDS / 2
        time.sleep((0.15 if sick else 0.004) * (1 + origin.served % 7))
        body = b"sick" if sick and origin.served % 5 < 2 else b"well"
        self.send_response(500 if body == b"sick" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Gate:
    """A gate with an origin of two addresses."""

    def __init__(self, tidegate, folder, fails=False):
        self.folder = folder
        folder.mkdir()
        origin, second = Origin(fails), free_port() if fails else Origin(False).address.split(":")[1]
        self.port, self.page = free_port(), free_port()
        (folder / "tidegate.yaml").write_text(f"""
listen: 127.0.0.1:{self.port}
admin: {{ address: "127.0.0.1:{self.page}", open: true }}
trusted_proxies: [127.0.0.0/8]
server: {{ threads: 1 }}
telemetry: {{ access_log: {{ to: "{folder}/access.log" }} }}
origins:
  shop:
    addresses: ["{origin.address}", "127.0.0.1:{second}"]
    inflight: {{ max: 40, queue: 40, queue_timeout: 1s }}
    health: {{ path: /, every: 2s, timeout: 1s }}
  media: {{ addresses: ["{Origin(False).address}"], inflight: 100 }}
limits:
  per_client: {{ key: client_ip, rate: 20/s, burst: 40 }}
  search: {{ key: client_ip, rate: 2/s, burst: 5 }}
  breadth: {{ key: client_ip, rate: 3/s, burst: 6, mode: shadow }}
  fair: {{ type: fair_share, capacity: 60/s }}
routes:
  - {{ name: search, match: {{ path: /search }}, limits: [search], origin: shop }}
  - {{ name: media, match: {{ path: /media }}, limits: [per_client], origin: media }}
  - {{ name: site, limits: [breadth, fair], origin: shop }}
""")
        command = [tidegate, "run", "-c", folder / "tidegate.yaml", "--admin", folder / "private/admin.sock"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(folder / "said", "wb"))
        for _ in range(200):
            with socket.socket() as it:
                if it.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.1)

    def load(self, clients):
        """Sends requests of each of (address, path, requests a second, from the second on) until the end."""
        self.ended = threading.Event()
        for address, path, a_second, begins in clients:
            threading.Thread(target=self.send, args=(address, path, a_second, begins), daemon=True).start()

    def send(self, address, path, a_second, begins):
        self.ended.wait(begins)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        while not self.ended.wait(1 / a_second):
            try:
                connection.request("GET", path, headers={"X-Forwarded-For": address})
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()


def usual():
    """What honest clients ask for: (address, path, requests a second, from when)."""
    site = [(f"203.0.{number}.7", "/", 0.4, 0) for number in range(24)]
    media = [(f"203.0.{number}.9", "/media/a", 0.6, 0) for number in range(12)]
    return site + media + [(f"203.0.{number}.8", "/search", 0.3, 0) for number in range(6)]


def flood():
    """Three clients of one network, and thirty of another that ask for less each."""
    three = [(f"198.51.100.{number}", "/", 60, SECONDS / 3) for number in (9, 9, 66, 66, 67)]
    return three + [(f"192.0.2.{number}", "/", 1.2, SECONDS / 3) for number in range(30)] + [("198.51.100.66", "/search", 20, 30)]


async def look(tidegate, folder, pictures):
    gates = {name: Gate(tidegate, pictures / name, fails=name == "sick") for name in ("calm", "flood", "sick", "empty")}
    gates["calm"].load(usual())
    gates["sick"].load(usual())
    gates["flood"].load(usual() + flood())
    await asyncio.sleep(SECONDS)
    report = pictures / "report.html"
    subprocess.run([tidegate, "suggest", "--format", "yaml", LOG], check=True, stdout=open(pictures / "suggested.yaml", "wb"),
                   stderr=subprocess.DEVNULL)
    subprocess.run([tidegate, "replay", "-c", pictures / "suggested.yaml", "--html", report, LOG], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    command = ["chromium", *FLAGS, f"--user-data-dir={pictures}/chromium", "about:blank"]
    browser = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        told = pictures / "chromium/DevToolsActivePort"
        while not (told.exists() and "\n" in told.read_text()):
            await asyncio.sleep(0.1)
        port = told.read_text().split("\n")[0]
        page = lambda name: f"http://127.0.0.1:{gates[name].page}/"
        views = [("page", page("flood"), "light", 1280, 900), ("page-dark", page("flood"), "dark", 1280, 900),
                 ("page-phone", page("flood"), "light", 390, 844), ("page-calm", page("calm"), "light", 1280, 900),
                 ("page-sick", page("sick"), "light", 1280, 900), ("page-empty", page("empty"), "light", 1280, 900),
                 ("report", report.as_uri(), "light", 1280, 900), ("report-phone", report.as_uri(), "light", 390, 844)]
        for name, url, theme, width, height in views:
            it = await tab(port)
            await it.wear(theme, width, height)
            await it.open(url)
            await asyncio.sleep(1.5)
            high = await it.ask("document.documentElement.scrollHeight")
            # as high as it is, so that nothing blank is below
            await it.do("Emulation.setDeviceMetricsOverride", width=width, height=high, deviceScaleFactor=1, mobile=width < 500)
            await it.shoot(folder / f"{name}.png")
            print(f"{name:12} {high:5} px, {high / height:.1f} screens of {width} × {height}")
            await it.do("Page.close")
    finally:
        browser.terminate()
        browser.wait()
        for gate in gates.values():
            gate.process.terminate()
            gate.process.wait()


def main(tidegate, folder):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as pictures:
        asyncio.run(look(str(pathlib.Path(tidegate).resolve()), pathlib.Path(folder), pathlib.Path(pictures)))


if __name__ == "__main__":
    main(*sys.argv[1:])
