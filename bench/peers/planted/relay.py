#!/usr/bin/env python3
"""A relay before a SIP server over UDP that lets so many INVITEs per second pass, and delays the others.

    relay.py ADDRESS PORT SERVER_PORT RATE

INVITEs pass in order, 1/RATE s apart on average, at most four at once; all other messages pass at once. It reads its socket at once
and has time to spare: neither its processor nor its receive buffer is the limit.
"""
import collections
import selectors
import socket
import sys
import time

address, port, server, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
SLACK = 4 / rate

front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
front.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
front.bind((address, port))
front.setblocking(False)
ready = selectors.DefaultSelector()
ready.register(front, selectors.EVENT_READ)
upstream = {}
waiting = collections.deque()
free = time.monotonic()


def to_server(peer):
    if peer not in upstream:
        back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        back.connect((address, server))
        back.setblocking(False)
        ready.register(back, selectors.EVENT_READ, peer)
        upstream[peer] = back
    return upstream[peer]


def received(from_socket):
    while True:
        try:
            yield from_socket.recvfrom(65536)
        except (BlockingIOError, ConnectionRefusedError):
            return


while True:
    pause = max(0.0, free - time.monotonic()) if waiting else None
    for key, _ in ready.select(pause):
        for message, peer in received(key.fileobj):
            if key.data:
                front.sendto(message, key.data)
            elif message.startswith(b"INVITE "):
                waiting.append((message, peer))
            else:
                to_server(peer).send(message)
    now = time.monotonic()
    while waiting and free <= now:
        message, peer = waiting.popleft()
        to_server(peer).send(message)
        free = max(free, now - SLACK) + 1 / rate
