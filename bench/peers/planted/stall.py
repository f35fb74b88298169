#!/usr/bin/env python3
"""Stalls the whole machine: a process of the real-time class on each processor computes for 300 ms, every so many seconds.

    stall.py SECONDS [SEED]     as root; at random moments whose mean distance this is, until it is killed; the children end with it
"""
import ctypes
import os
import random
import signal
import sys
import time

every = float(sys.argv[1])
chance = random.Random(sys.argv[2] if len(sys.argv) > 2 else 1)
at = time.monotonic() + 1
die_with_parent = lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
die_with_parent()
cpu, *others = sorted(os.sched_getaffinity(0))
for other in others:
    if os.fork() == 0:
        die_with_parent()
        cpu = other
        break
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
# Each process draws the same instants.
while True:
    at += every * chance.uniform(0.7, 1.3)
    time.sleep(max(0.0, at - time.monotonic()))
    while time.monotonic() < at + 0.3:
        pass
