"""Passes connections on to a port of the loopback, each message late.

    delay.py LISTEN_PORT PORT SECONDS
"""

import asyncio
import sys

listen_port, port, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


async def pass_on(reader, writer):
    while data := await reader.read(1 << 16):
        await asyncio.sleep(seconds)
        writer.write(data)
    writer.close()


async def connected(reader, writer):
    from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(
        pass_on(reader, to_server), pass_on(from_server, writer), return_exceptions=True
    )


async def main():
    server = await asyncio.start_server(connected, "127.0.0.1", listen_port)
    await server.serve_forever()


asyncio.run(main())
