#!/usr/bin/env python3
"""A SIP server over UDP with a planted limit: it answers every request with 200.

    server.py PORT (--work US | --poll MS --buffer BYTES) [--counts FILE]

--work US       computes for US microseconds of its processor's time for each request
--poll MS       looks at its socket every MS ms only, so that its receive buffer has to hold what comes meanwhile
--buffer BYTES  asks for a receive buffer of that size (SO_RCVBUF)
--counts FILE   after SIGUSR1 writes how many requests it has answered, and how many it has found in a look, by the median of those
                looks that found any
"""
import argparse
import signal
import socket
import statistics
import time

typed = argparse.ArgumentParser()
typed.add_argument("port", type=int)
typed.add_argument("--work", type=float)
typed.add_argument("--poll", type=float)
typed.add_argument("--buffer", type=int, default=4_000_000)
typed.add_argument("--counts")
typed = typed.parse_args()

served = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
served.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, typed.buffer)
served.bind(("127.0.0.1", typed.port))

answered = 0
looks = []


def tell(*_):
    with open(typed.counts, "w") as counts:
        print(answered, statistics.median_low(looks or [0]), file=counts)


def answer(request, peer):
    global answered
    answered += 1
    if request.startswith((b"ACK ", b"SIP/2.0")):
        return
    if typed.work:
        end = time.thread_time() + typed.work / 1e6
        while time.thread_time() < end:
            pass
    lines = request.split(b"\r\n")
    copied = [line for line in lines if line.startswith((b"Via:", b"From:", b"Call-ID:", b"CSeq:"))]
    copied += [line + (b"" if b";tag=" in line else b";tag=planted") for line in lines if line.startswith(b"To:")]
    head = b"\r\n".join([b"SIP/2.0 200 OK", *copied, b"Content-Length: 0"])
    served.sendto(head + b"\r\n\r\n", peer)


def polled():
    tick = time.monotonic()
    served.setblocking(False)
    while True:
        tick += typed.poll / 1e3
        time.sleep(max(0.0, tick - time.monotonic()))
        waiting = []
        while True:
            try:
                waiting.append(served.recvfrom(65536))
            except BlockingIOError:
                break
        for request in waiting:
            answer(*request)
        if waiting:
            looks.append(len(waiting))


if typed.counts:
    signal.signal(signal.SIGUSR1, tell)
if typed.poll:
    polled()
while True:
    answer(*served.recvfrom(65536))
