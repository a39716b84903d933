#!/usr/bin/env python3
"""Opens a report, a file, in headless Chromium and tells what it saw, as JSON on standard output, by width and theme.

    report_browser.py FILE [AXE]

AXE is axe-core's script; with it the report's violations of its rules are told, too.
"""

import asyncio
import json
import pathlib
import sys

from page_browser import AXE, CONTRAST, TOO_WIDE, browser, tab

LOOKS = [("wide", "light", 1280, 900), ("dark", "dark", 1280, 900), ("phone", "light", 390, 844)]


async def main(file, axe=None):
    seen = {}
    async with browser() as port:
        for name, theme, width, height in LOOKS:
            it = await tab(port)
            await it.wear(theme, width, height)
            await it.open(pathlib.Path(file).resolve().as_uri())
            seen[name] = {
                "too_wide": await it.ask(TOO_WIDE),
                "contrast": await it.ask(CONTRAST),
                "width": await it.ask("document.body.getBoundingClientRect().width"),
                "text": await it.ask("document.body.innerText"),
                "complaints": it.complaints(),
            }
            if axe:
                await it.ask(pathlib.Path(axe).read_text() + "; undefined")
                seen[name]["violations"] = await it.ask(AXE)
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
