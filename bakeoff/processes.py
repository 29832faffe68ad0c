"""End child processes."""

import signal
import subprocess


def end(process: "subprocess.Popen[str] | subprocess.Popen[bytes]", wait_s: float, by: signal.Signals = signal.SIGTERM) -> None:
    """Ask a child to end with a signal, wait for it, and kill it when `wait_s` seconds were not enough; close its output."""
    if process.poll() is None:
        process.send_signal(by)
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
