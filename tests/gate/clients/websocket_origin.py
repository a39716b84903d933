"""A WebSocket origin that echoes what it hears."""

import asyncio
import sys

import websockets


async def echo(connection):
    try:
        async for message in connection:
            await connection.send(message)
    except websockets.ConnectionClosed:
        pass  # every client says goodbye with a code of its own


async def main():
    async with websockets.serve(echo, "127.0.0.1", 0, max_size=8 << 20) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"listening on 127.0.0.1:{port}", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
