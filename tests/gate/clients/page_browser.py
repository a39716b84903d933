#!/usr/bin/env python3
"""Opens the admin page in headless Chromium and tells what it saw, as JSON on standard output.

    page_browser.py PAGE METRICS SCREENSHOTS [AXE]

AXE is axe-core's script; with it the page's violations of its rules are told, too.

Says `looked` once everything that needs traffic has been seen; reads a line from standard input when the traffic has ended, and
then compares the page with the metrics. Chromium is driven by its DevTools protocol, without further packages.
"""

import asyncio
import base64
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

import websockets

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
]
PATIENCE = 60

# What the page says, by class of the <data> element and the row or card that it stands in.
NUMBERS = """
[...document.querySelectorAll("section[id] data")].map((data) => {
  const row = data.closest("[data-name]"), section = data.closest("section[id]");
  return [section.id.slice(2), row ? row.dataset.name : "", data.className, Number(data.value)];
})"""

# What the trends say in words, by the row or card that they stand in.
TRENDS = """
[...document.querySelectorAll("section[id] svg[role=img]")].map((svg) => {
  const row = svg.closest("[data-name]"), section = svg.closest("section[id]");
  return [section.id.slice(2), row ? row.dataset.name : "", svg.getAttribute("aria-label")];
})"""

# Who has the focus, and whether that can be seen.
FOCUS = """
(() => {
  const it = document.activeElement, style = getComputedStyle(it), box = it.getBoundingClientRect();
  const words = it.getAttribute("aria-label") || (it.labels && it.labels[0] && it.labels[0].textContent) || it.textContent;
  return { tag: it.tagName, id: it.id, words: words.trim().slice(0, 40),
           outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
           seen: box.width > 0 && box.right > 0 && box.left < innerWidth };
})()"""

# Everything that a keyboard must reach.
CONTROLS = """[...document.querySelectorAll("a[href], button, select, input")]
    .filter((it) => it.offsetParent !== null || it.className === "skip").length"""

# What is wider than the window, so that one would have to scroll sideways; and what a screen reader could not name.
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# What hangs over the edge of its card, also beside a long name; and headings of tables that are narrower than these.
CUT = """(() => {
    for (const heading of document.querySelectorAll(".card h3")) {
        heading.insertAdjacentHTML("beforeend", "<code>_of_the_whole_company</code><span class='tag bad'>✕ fails 100 %</span>");
    }
    const over = [...document.querySelectorAll(".card *, tbody tr *, .three section *")].filter((it) => it.offsetParent && !it.closest(".icicle")).filter((it) =>
        it.getBoundingClientRect().right > it.closest(".card, tr, .three section").getBoundingClientRect().right + 1);
    const narrow = [...document.querySelectorAll("caption")].filter((it) =>
        it.getBoundingClientRect().width < 0.9 * it.closest("table").getBoundingClientRect().width);
    return [...over, ...narrow].map((it) => it.outerHTML.slice(0, 80));
})()"""
NAMELESS = """[...document.querySelectorAll("[role=img], button, select, nav, section, table")].filter((it) =>
    !(it.getAttribute("aria-label") || it.getAttribute("aria-labelledby") || it.textContent.trim() || it.labels?.length))
    .map((it) => it.outerHTML.slice(0, 80))"""

# What axe-core's rules say against it, with every fold open.
AXE = """(async () => {
  document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  const found = await axe.run(document, { resultTypes: ["violations"] });
  document.querySelectorAll("details").forEach((fold) => { fold.open = false; });
  return found.violations.map((one) => one.id + ": " + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | "));
})()"""

# Contrast of each text with what is behind it, by the formula of WCAG 2.2; the least one.
CONTRAST = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parts = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                              return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (rgb) => { const [r, g, b] = rgb.map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                           return .2126 * r + .7152 * g + .0722 * b; };
  let least = [99, ""];
  for (const it of document.querySelectorAll("body *")) {
    if (![...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || !it.offsetParent) continue;
    let behind = it, paper;
    do { paper = parts(getComputedStyle(behind).backgroundColor); behind = behind.parentElement; } while (paper[3] === 0 && behind);
    const [a, b] = [light(parts(getComputedStyle(it).color).slice(0, 3)), light(paper.slice(0, 3))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least[0]) least = [ratio, it.outerHTML.slice(0, 80)];
  }
  return least;
})()"""


class Tab:
    """A page of the browser: commands and what it reports by itself."""

    def __init__(self, socket, session):
        self.socket, self.session, self.next, self.waiting, self.events = socket, session, 0, {}, []
        self.reader = asyncio.ensure_future(self.read())

    async def read(self):
        while True:
            try:
                message = json.loads(await self.socket.recv())
            except websockets.exceptions.ConnectionClosed:
                return
            if "id" in message:
                self.waiting.pop(message["id"]).set_result(message)
            else:
                self.events.append(message)

    async def do(self, method, **parameters):
        self.next += 1
        answer = self.waiting[self.next] = asyncio.get_event_loop().create_future()
        await self.socket.send(json.dumps({"id": self.next, "method": method, "params": parameters}))
        message = await asyncio.wait_for(answer, PATIENCE)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    async def ask(self, expression):
        result = await self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    async def until(self, what, expression):
        for _ in range(PATIENCE * 10):
            if await self.ask(expression):
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"waited in vain for {what}")

    async def open(self, url):
        await self.do("Page.navigate", url=url)
        await self.until("the page", "document.readyState === 'complete'")

    async def wear(self, theme, width, height, motion="no-preference"):
        features = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": motion}]
        await self.do("Emulation.setEmulatedMedia", features=features)
        phone = width < 500
        await self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone
        )

    async def shoot(self, path):
        picture = await self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    async def press(self, key):
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("rawKeyDown", "char", "keyUp") if key == "Enter" else ("rawKeyDown", "keyUp"):
            await self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                          **({"text": "\r"} if kind == "char" else {}))

    def complaints(self):
        """Everything that would stand in red in the console."""
        found = []
        for event in self.events:
            method, told = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            if method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
                found.append(str(told["args"]))
            if method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(str(told["entry"]))
        return found

    def asked_for(self):
        """The addresses of everything that it loaded."""
        sent = (event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent")
        return sorted({told["request"]["url"] for told in sent})


@contextlib.asynccontextmanager
async def browser():
    """A headless Chromium, as the port of its DevTools."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = ["chromium", *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            told = pathlib.Path(folder, "DevToolsActivePort")
            for _ in range(PATIENCE * 10):
                if told.exists() and "\n" in told.read_text():
                    break
                await asyncio.sleep(0.1)
            yield told.read_text().split("\n")[0]
        finally:
            process.terminate()
            process.wait()


async def tab(port):
    def new():
        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        return json.load(urllib.request.urlopen(request, timeout=PATIENCE))

    target = await asyncio.get_event_loop().run_in_executor(None, new)
    socket = await websockets.connect(target["webSocketDebuggerUrl"], max_size=None, ping_interval=None)
    it = Tab(socket, target["id"])
    for domain in ("Page", "Runtime", "Log", "Network"):
        await it.do(f"{domain}.enable")
    return it


async def keyboard(it):
    """Goes through the page by the tabulator alone."""
    await it.ask("(document.activeElement.blur(), scrollTo(0, 0))")
    # decisions come and go meanwhile, so that their number would not stay; one of them is tried below
    wanted, reached = await it.ask(CONTROLS), []
    for _ in range(wanted):
        await it.press("Tab")
        reached.append(await it.ask(FOCUS))
    # an explanation, which stays open while the page goes on
    await it.ask("document.querySelector('#decisions summary').focus()")
    await it.press("Enter")
    opened = await it.ask("document.querySelector('#decisions details[open] pre').textContent")
    # freezing and going on, by keyboard; the element keeps the focus while the page changes around it
    await it.ask("document.getElementById('freeze').focus()")
    await it.press("Enter")
    frozen = await it.ask("document.getElementById('freeze').getAttribute('aria-pressed')")
    await it.press("Enter")
    thawed = await it.ask("document.getElementById('freeze').getAttribute('aria-pressed')")
    return {"controls": wanted, "reached": reached, "opened": opened, "frozen": frozen, "thawed": thawed}


def scraped(url):
    """The metrics page as a map of series."""
    text = urllib.request.urlopen(url, timeout=PATIENCE).read().decode()
    lines = (re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line) for line in text.splitlines())
    return [
        [line[1], dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', line[2] or "")), float(line[3])] for line in lines if line
    ]


async def main(page, metrics, screenshots, axe=None):
    screenshots = pathlib.Path(screenshots)
    screenshots.mkdir(parents=True, exist_ok=True)
    seen = {}
    async with browser() as port:
        # before any script: the first paint, which is also all there is without scripts
        still = await tab(port)
        await still.do("Emulation.setScriptExecutionDisabled", value=True)
        await still.wear("light", 1280, 900)
        await still.open(page)
        seen["first_paint"] = {"text": await still.ask("document.body.innerText"), "trends": await still.ask(TRENDS)}
        await still.do("Page.close")

        looks = [("light", "light", 1280, 900), ("dark", "dark", 1280, 900), ("phone", "light", 390, 844),
                 ("tablet", "dark", 820, 1100), ("narrow", "dark", 320, 700)]
        tabs = {}
        for name, theme, width, height in looks:
            it = tabs[name] = await tab(port)
            await it.wear(theme, width, height)
            await it.open(page)
            await it.until("the stream", "document.getElementById('state').textContent === 'live'")
            ended = ("Number(document.querySelector('#routes svg[role=img]').getAttribute('aria-label')"
                     ".match(/([0-9,]+) limited/)[1].replace(/,/g, ''))")
            before = await it.ask(ended)
            await it.until("an update", f"{ended} > {before}")
            seen[name] = {
                "paper": await it.ask("getComputedStyle(document.body).backgroundColor"),
                "too_wide": await it.ask(TOO_WIDE),
                "nameless": await it.ask(NAMELESS),
                "contrast": await it.ask(CONTRAST),
                "screens": await it.ask("document.documentElement.scrollHeight / innerHeight"),
            }
            if axe:
                await it.ask(pathlib.Path(axe).read_text() + "; undefined")
                seen[name]["violations"] = await it.ask(AXE)
            await it.shoot(screenshots / f"page-{name}.png")
            seen[name]["cut"] = await it.ask(CUT)
        light = tabs["light"]
        seen["keyboard"] = await keyboard(light)
        await light.ask("(theme.value = 'dark', theme.dispatchEvent(new Event('change')))")
        seen["chosen_dark"] = await light.ask("getComputedStyle(document.body).backgroundColor")
        await light.wear("light", 1280, 900, "reduce")
        seen["smooth"] = await light.ask("getComputedStyle(document.documentElement).scrollBehavior")

        print("looked", flush=True)
        await asyncio.get_event_loop().run_in_executor(None, sys.stdin.readline)
        # the page follows by a second, so it is asked until nothing changes any more
        for _ in range(PATIENCE):
            seen["numbers"], seen["trends"] = await light.ask(NUMBERS), await light.ask(TRENDS)
            seen["metrics"] = scraped(metrics)
            await asyncio.sleep(1.5)
            if seen["trends"] == await light.ask(TRENDS):
                break
        seen["complaints"] = [complaint for it in tabs.values() for complaint in it.complaints()]
        seen["asked_for"] = sorted({address for it in tabs.values() for address in it.asked_for()})
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
