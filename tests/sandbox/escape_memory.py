"""Rows of the table of escapes that take more of the host's memory than a command may.

Each takes it from another part of the kernel. Most of these pages are in no process's resident
size, so some rows first hide a part and then grow up to the limit (`press`).
"""

from __future__ import annotations

from Daddy.sandbox.interfaces import Limits
from tests.sandbox import escape_judges as judge
from tests.sandbox.escapes import PLAIN, Control, Row, with_limits

STOPPED = "out of memory|E[A-Z]{3,}|MemoryError|Errno|exited|Bad system call|timed out"


def memory(attempt: str, source: str, control: Control = PLAIN, own: bool = False) -> Row:
    limits = Limits(time_s=12.0)
    return Row(
        attempt, judge.over_memory, STOPPED, control, source, limits=limits, own=own, alone=True
    )


MEMORY = [
    memory(
        "take 600 MB in one process",
        "held = [fill(50) for _ in range(12)]; time.sleep(0.2)",
    ),
    memory(
        "take 600 MB in 40 processes, each far below the limit",
        """
        def hold(number): held = fill(15); time.sleep(1.0)
        for pid in children(40, hold): os.waitpid(pid, 0)
        """,
    ),
    memory(
        "detach 40 System V segments of 16 MB",
        """
        names = []
        try:
            for _ in range(40):
                names.append(check(libc.shmget(0, 16 * MIB, 0o1600)))
                at = libc.shmat(names[-1], None, 0)
                ctypes.memset(ctypes.c_void_p(at), 1, 16 * MIB); libc.shmdt(ctypes.c_void_p(at))
            time.sleep(0.2)
        finally:
            for name in names: libc.shmctl(name, 0, None)
        """,
    ),
    memory(
        "hold 600 MB in memfds that are not mapped",
        """
        held = []
        for _ in range(40):
            held.append(os.memfd_create('x'))
            for _ in range(15): os.write(held[-1], b'x' * MIB)
        time.sleep(0.2)
        """,
    ),
    memory(
        "hold 500 MB in shared anonymous maps, and as much again in a child that never touched it",
        """
        held = [fill(50, shared=True) for _ in range(10)]
        if os.fork() == 0: time.sleep(0.3); os._exit(0)
        os.wait()
        """,
    ),
    memory(
        "hide 320 MB in memfds in flight in a unix socket, open in no process",
        """
        pair = socket.socketpair()
        for _ in range(20):
            fd = os.memfd_create('x')
            for _ in range(16): os.write(fd, b'x' * MIB)
            pair[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack('i', fd))]); os.close(fd)
        time.sleep(0.2)
        """,
        own=True,
    ),
    memory(
        "hide pages in full pipes of 40 processes, then grow up to the limit",
        """
        import fcntl
        def hold(number):
            held = []
            try:
                for _ in range(28):
                    held.append(os.pipe()); os.set_blocking(held[-1][1], False)
                    try: fcntl.fcntl(held[-1][1], 1031, MIB)
                    except OSError: pass
                    try:
                        while True: os.write(held[-1][1], b'x' * 65536)
                    except OSError: pass
            except OSError: pass
            time.sleep(6)
        pids = children(40, hold); time.sleep(0.4); press(300, 6)
        for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0)
        """,
    ),
    memory(
        "hide pages in the buffers of unix sockets of 40 processes, then grow up to the limit",
        """
        def hold(number):
            held = []
            try:
                for _ in range(28):
                    pair = socket.socketpair(); held.append(pair)
                    for end in pair:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MIB); end.setblocking(False)
                        try:
                            for _ in range(4): end.send(b'x' * 65536)
                        except OSError: pass
            except OSError: pass
            time.sleep(6)
        pids = children(40, hold); time.sleep(0.4); press(300, 6)
        for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0)
        """,
    ),
    memory(
        "hide pages in the buffers of TCP connections to itself, then grow up to the limit",
        """
        def hold(number):
            held, server = [], socket.socket()
            try:
                server.bind(('127.0.0.1', 0)); server.listen(40)
                for _ in range(28):
                    client = socket.create_connection(server.getsockname(), 1); held += [client, server.accept()[0]]
                    client.setblocking(False)
                    try:
                        for _ in range(32): client.send(b'x' * 65536)
                    except OSError: pass
            except OSError as error: print(name_of(error), flush=True)
            time.sleep(6)
        pids = children(10, hold); time.sleep(0.5); press(300, 6)
        for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0)
        """,
        own=True,
    ),
    memory(
        "fill the scratch mounts, then grow up to the limit",
        """
        import shutil
        for place in {line.split()[4] for line in open('/proc/self/mountinfo')} | {'.'}:
            try:
                with open(os.path.join(place, 'fill'), 'wb', buffering=0) as stream:
                    for _ in range(100 if place.startswith('/dev') else 16): stream.write(b'x' * MIB)
            except OSError: pass
        press(300, 6)
        """,
        with_limits("with 1024 MB allowed", memory_mb=1024),
    ),
    memory(
        "take 400 MB of page tables: one zero page in each 2 MB of a sparse map",
        """
        size = 200 << 30
        at = libc.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, ctypes.c_long(0))
        if at in (None, 2**64 - 1): check(-1)
        libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 15)
        for start in range(0, size, 2 * MIB): ctypes.string_at(at + start, 1)
        time.sleep(0.2)
        """,
    ),
    memory(
        "take kernel memory for a million mappings, 60,000 in each process, then grow up to the limit",
        """
        size = 60000 * PAGE
        at = libc.mmap(None, ctypes.c_size_t(size), 0, 0x4022, -1, ctypes.c_long(0))
        if at in (None, 2**64 - 1): check(-1)
        for number in range(0, 60000, 2): libc.mprotect(ctypes.c_void_p(at + number * PAGE), ctypes.c_size_t(PAGE), 1)
        pids = children(20, lambda number: time.sleep(6))
        press(300, 6)
        for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0)
        """,
        own=True,
    ),
    memory(
        "take kernel memory by 700,000 locks on ranges of bytes, then grow up to the limit",
        """
        import fcntl
        def hold(number):
            held = []
            try:
                for index in range(50):
                    held.append(open('lock%d.%d' % (number, index), 'w'))
                    for start in range(0, 700, 2): fcntl.lockf(held[-1], fcntl.LOCK_EX, 1, start)
            except OSError: pass
            time.sleep(6)
        pids = children(40, hold); time.sleep(0.6); press(300, 6)
        for pid in pids: os.kill(pid, 9); os.waitpid(pid, 0)
        """,
        own=True,
    ),
    memory(
        "fill 5,000 System V message queues, then grow up to the limit",
        """
        names, message = [], struct.pack('l', 1) + bytes(8000)
        try:
            for _ in range(5000):
                names.append(check(libc.msgget(0, 0o1600)))
                for _ in range(2): libc.msgsnd(names[-1], message, 8000, 0o4000)
            press(300, 6)
        finally:
            for name in names: libc.msgctl(name, 0, None)
        """,
        own=True,
    ),
    memory(
        "take 400 MB of System V semaphores",
        """
        names = []
        try:
            for _ in range(200): names.append(check(libc.semget(0, 30000, 0o1600)))
            time.sleep(0.2)
        finally:
            for name in names: libc.semctl(name, 0, 0)
        """,
        own=True,
    ),
    memory(
        "take 500 MB in a process whose first thread has ended, so that its size reads as 0",
        """
        def hold():
            held = []
            for _ in range(10): held.append(fill(50))
            time.sleep(0.3); os._exit(0)
        threading.Thread(target=hold).start()
        call(60, 93, 0)
        """,
        own=True,
    ),
    memory(
        "take 500 MB in a process that forbade others to read about it (PR_SET_DUMPABLE)",
        "libc.prctl(4, 0, 0, 0, 0); held = [fill(50) for _ in range(10)]; time.sleep(0.3)",
        own=True,
    ),
    memory(
        "take 400 MB in processes that each live shorter than the memory is looked at",
        """
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pids = children(8, lambda number: fill(50))
            for pid in pids: os.waitpid(pid, 0)
        """,
        own=True,
    ),
]
