"""A terminal with somebody at its keys: runs a program in a pseudo-terminal and says what its screen showed.

    terminal.py COLUMNS ROWS STEPS PROGRAM ARGUMENT...

STEPS is a JSON list of {"until": TEXT} (wait until the screen has it, keep that screen), {"press": KEYS} and {"signal": NAME}. Prints
one JSON object: the kept `screens`, the program's exit `status`, and of the terminal afterwards whether it is as it was
(`restored`), on its main screen (`main`) and has its `cursor`.

Understands as much of a terminal's language as crossterm speaks. Only the standard library is used.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

PATIENCE = 30
SEQUENCE = re.compile(r"\x1b(?:\[([?>=]?)([0-9;]*)([A-Za-z])|[()][A-Z0-9]|[=>78])")


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.main, self.cursor, self.rest = True, True, b""
        self.clear()

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.x = self.y = 0

    def write(self, data):
        data = self.rest + data
        # a character or sequence whose end has not come waits for it
        text = data.decode("utf-8", "ignore")
        self.rest = data[len(text.encode()):]
        cut = text.rfind("\x1b")
        if cut >= 0 and not SEQUENCE.match(text, cut):
            self.rest, text = text[cut:].encode() + self.rest, text[:cut]
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if found:
                self.obey(*(part or "" for part in found.groups()))
                at = found.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, letter):
        if letter == "\r":
            self.x = 0
        elif letter == "\n":
            self.y = min(self.y + 1, self.rows - 1)
        elif letter >= " " and self.x < self.columns and self.y < self.rows:
            self.cells[self.y][self.x] = letter
            self.x += 1

    def obey(self, private, numbers, letter):
        if private == "?" and numbers == "1049":
            self.main = letter == "l"
            self.clear()
        elif private == "?" and numbers == "25":
            self.cursor = letter == "h"
        elif letter == "H":
            row, column = (numbers.split(";") + ["", ""])[:2]
            self.y, self.x = int(row or 1) - 1, int(column or 1) - 1
        elif letter == "J":
            self.clear()

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)


def main():
    columns, rows, steps, command = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4:]
    keys, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(terminal)
    screen = Screen(columns, rows)
    program = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)

    def look(done, what):
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline:
                program.kill()
                sys.exit(f"waited in vain for {what}; the screen:\n{screen.text()}")
            if select.select([keys], [], [], 0.05)[0]:
                screen.write(os.read(keys, 65536))

    screens = []
    for step in steps:
        if "until" in step:
            look(lambda: step["until"] in screen.text(), step["until"])
            screens.append(screen.text())
        elif "press" in step:
            os.write(keys, step["press"].encode())
        else:
            program.send_signal(getattr(signal, "SIG" + step["signal"]))
    look(lambda: program.poll() is not None, "the end")
    # what it said last is there already
    while select.select([keys], [], [], 0)[0]:
        screen.write(os.read(keys, 65536))
    restored = termios.tcgetattr(terminal) == before
    told = {"screens": screens, "status": program.returncode, "restored": restored}
    print(json.dumps(told | {"main": screen.main, "cursor": screen.cursor}))


main()
