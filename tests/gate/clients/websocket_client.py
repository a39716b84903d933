"""Talks to websocket_origin.py: websocket_client.py URL [CA_FILE NAME]."""

import asyncio
import ssl
import sys

import websockets


async def main(url, ca=None, name=None):
    more = {}
    if ca:
        more = {"ssl": ssl.create_default_context(cafile=ca), "server_hostname": name}
    async with websockets.connect(url, max_size=8 << 20, **more) as connection:
        await connection.send("hello")
        assert await connection.recv() == "hello"
        large = bytes(range(256)) * 4096
        await connection.send(large)
        assert await connection.recv() == large
        await (await connection.ping(b"are you there"))
        for number in range(100):
            await connection.send(str(number))
            assert await connection.recv() == str(number)
        await connection.close(code=4000, reason="done")
        assert connection.close_code == 4000, connection.close_code
    print("ok")


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 60))
