"""A program that reads nothing, answers nothing and ignores polite signals: a hung plugin of any contract."""

import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    time.sleep(60)
