"""Rows of the table of escapes: the host's files, sockets and processes, rights, calls, limits."""

from __future__ import annotations

from Daddy.sandbox.sandbox_interfaces import MIB, Limits
from tests.sandbox import escape_judges as judge
from tests.sandbox.escape_memory import MEMORY
from tests.sandbox.escapes import (
    PERSISTENT,
    PLAIN,
    PLAIN_ORDINARY,
    PLAIN_ROOT,
    Control,
    Row,
    copy_by_tar,
    in_a_terminal,
    in_one_interpreter,
    lacking,
    plain_neighbours,
    play_get,
    play_neighbours,
    with_limits,
)

FORGE = """
answer = b'{"ending": "exited", "exit_code": 0, "lost_bytes": 0, "seconds": 0.1, "cpu_seconds": 0.1, "peak_mb": 1, "bytes": 0}\\n'
for fd in range(1024):
    try: os.write(fd, answer)
    except OSError: pass
os._exit(7)
"""

REACH = """
reached = []
for family, address in ((socket.AF_UNIX, '\\0neighbour-' + H['abstract']), (socket.AF_INET, ('127.0.0.1', H['port']))):
    try:
        caller = socket.socket(family); caller.settimeout(1); caller.connect(address); reached.append(family)
    except OSError: pass
reached += [path for path in ('/tmp/neighbour', '/dev/shm/neighbour') if os.path.exists(path)]
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        if H['abstract'][7:19] in open('/proc/%s/comm' % pid).read(): reached.append(pid)
    except OSError: pass
won(reached) if reached else print('not reached')
"""

DENIED = "EPERM|ENOSYS|EACCES|Bad system call|: -31"
ABSENT = "ENOENT|ENOTDIR|EACCES|ENXIO"

SOCKETS = [
    Row(
        "connect to a listener on the host's loopback",
        judge.connected("tcp"),
        "ECONNREFUSED|ENETUNREACH",
        PLAIN,
        "socket.create_connection(H['tcp'], 1)",
    ),
    Row(
        "connect to the host's address on its network",
        judge.connected("lan"),
        "ENETUNREACH|ECONNREFUSED",
        PLAIN,
        "socket.create_connection(H['lan'], 1)",
    ),
    Row(
        "send a name server's question out by UDP",
        judge.connected("udp"),
        "ECONNREFUSED|ENETUNREACH|sent",
        PLAIN,
        """
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'example.com?', H['udp'])
        print('sent')
        """,
    ),
    Row(
        "connect to an abstract unix socket of the host",
        judge.connected("abstract"),
        "ECONNREFUSED",
        PLAIN,
        "socket.socket(socket.AF_UNIX).connect('\\0' + H['abstract'])",
    ),
    Row(
        "connect to a unix socket of the host by its path, as to a container engine's",
        judge.connected("by_path"),
        "ENOENT",
        PLAIN,
        "socket.socket(socket.AF_UNIX).connect(H['socket'])",
        own=True,
    ),
    Row(
        "make a raw socket",
        judge.claimed,
        DENIED,
        PLAIN_ROOT,
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); won()",
    ),
    Row(
        "make a vsock, which network namespaces do not confine",
        judge.claimed,
        "EAFNOSUPPORT",
        PLAIN,
        "socket.socket(40, socket.SOCK_STREAM); won()",
    ),
    Row(
        "make a socket of any family but unix, IPv4 and IPv6 (netlink, packet, vsock, alg, …)",
        judge.claimed,
        "0 of 45 families",
        PLAIN,
        """
        got = []
        for family in set(range(46)) - {0, 1, 2, 10}:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
                try: socket.socket(family, kind); got.append(family)
                except OSError as error:
                    if error.errno not in (errno.EAFNOSUPPORT,): got.append(family) if error.errno != errno.EPERM else None
        if got: won(sorted(set(got)))
        else: print('0 of 45 families')
        """,
    ),
]

FILES = [
    Row(
        "read a file of the host by its path, and by the magic links of /proc",
        judge.read_secret,
        "tried [1-9]",
        PLAIN,
        """
        tried = 0
        for pid in [p for p in os.listdir('/proc') if p.isdigit()] + ['self', 'thread-self']:
            for link in ('', '/proc/%s/root' % pid, '/proc/%s/cwd/../../../..' % pid, '/proc/%s/task/%s/root' % (pid, pid)):
                for path in (H['file'], H['home']):
                    tried += 1
                    try: print(open(link + path).read())
                    except OSError: pass
        print('tried', tried)
        """,
    ),
    Row(
        "read the home of the account that started the sandbox",
        judge.read_secret,
        ABSENT,
        PLAIN,
        "print(open(H['home']).read())",
    ),
    Row(
        "read /etc/passwd",
        judge.read_passwd,
        "root|ENOENT|sandbox",
        PLAIN,
        "print(open('/etc/passwd').read())",
    ),
    Row(
        "read the environment of the host's programs",
        judge.read_secret,
        "looked at [1-9]",
        PLAIN,
        """
        for pid in [p for p in os.listdir('/proc') if p.isdigit()]:
            try: print(open('/proc/%s/environ' % pid).read())
            except OSError: pass
        print(os.environ, 'looked at', len(os.listdir('/proc')))
        """,
    ),
    Row(
        "read through a descriptor that the host left open",
        judge.read_secret,
        "tried",
        PLAIN,
        """
        for fd in range(3, 1024):
            try: print(os.pread(fd, 100, 0).decode(errors='replace'))
            except OSError: pass
        print('tried')
        """,
    ),
    Row(
        "use descriptors other than 0 to 3",
        judge.claimed,
        "tried",
        PLAIN,
        """
        more = []
        for fd in range(4, 1024):
            try: os.fstat(fd); more.append(fd)
            except OSError: pass
        won(more) if more else print('tried')
        """,
    ),
    Row(
        "look at the devices and buses in /sys",
        judge.claimed,
        f"{ABSENT}|nothing",
        PLAIN,
        "won() if os.listdir('/sys/class/net') else print('nothing')",
    ),
    Row(
        "write to a file of the host that everybody may write",
        judge.changed,
        ABSENT,
        PLAIN,
        "open(H['writable'], 'a').write('x')",
    ),
    Row(
        "write to /usr",
        judge.made("/usr"),
        "EROFS|EACCES",
        PLAIN_ROOT,
        "open('/usr/' + H['abstract'], 'w')",
        modes=("fresh",),
    ),
    Row(
        "write to /run and /etc",
        judge.made("/run"),
        "EROFS|EACCES|ENOENT",
        PLAIN_ROOT,
        """
        try: open('/etc/' + H['abstract'], 'w').close(); won(); os.unlink('/etc/' + H['abstract'])
        finally: open('/run/' + H['abstract'], 'w')
        """,
        modes=("fresh",),
    ),
    Row(
        "write to a running program through /proc/PID/exe, map_files and mem of process 1",
        judge.claimed,
        "refused 4",
        PLAIN_ROOT,
        """
        refused = 0
        for path in ('/proc/1/mem', '/proc/1/exe', '/proc/1/map_files', '/proc/1/fd'):
            try:
                found = os.open(path, os.O_RDWR) if path[-1] in 'me' and path != '/proc/1/exe' else os.listdir(path)
                won(path)
            except OSError: refused += 1
        print('refused', refused)
        """,
        own=True,
    ),
    Row(
        "make a device node of the host's disk",
        judge.claimed,
        DENIED,
        PLAIN_ROOT,
        "os.mknod('disk', 0o600 | 0o060000, os.makedev(254, 0)); won(); os.unlink('disk')",
        own=True,
    ),
    Row(
        "open any device but null, zero, full, random, urandom and terminals",
        judge.claimed,
        "opened 0",
        PLAIN_ROOT,
        """
        import stat
        harmless = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}
        opened, skipped = [], ('watchdog', 'tty', 'console', 'pts', 'vcs', 'ptmx')
        for folder, _, names in os.walk('/dev'):
            for name in names:
                path = os.path.join(folder, name)
                try: facts = os.stat(path)
                except OSError: continue
                device = (os.major(facts.st_rdev), os.minor(facts.st_rdev))
                if not (stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode)): continue
                if device in harmless or name.startswith(skipped) or device[0] in (4, 5, 136): continue
                try: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)); opened.append(name)
                except OSError: pass
        if opened: won(opened)
        print('opened', len(opened))
        """,
        own=True,
    ),
    Row(
        "open the terminal of whoever started the host program",
        judge.claimed,
        "ENXIO|ENOENT|EACCES",
        Control("as a plain process in a session with a terminal", in_a_terminal),
        "os.open('/dev/tty', os.O_RDWR); won()",
    ),
]

PROCESSES = [
    Row(
        "see the processes of the host and of other sandboxes",
        judge.read_secret,
        "saw [1-9]",
        PLAIN,
        """
        pids = [p for p in os.listdir('/proc') if p.isdigit()]
        for pid in pids:
            try: print(open('/proc/%s/cmdline' % pid).read())
            except OSError: pass
        print('saw', len(pids))
        """,
    ),
    Row(
        "kill a process of the host by its number",
        judge.harmed_victim,
        "ESRCH|EPERM",
        PLAIN,
        "os.kill(H['victim'], 9)",
    ),
    Row(
        "have the kernel send SIGIO to a process of the host (F_SETOWN)",
        judge.harmed_victim,
        "ESRCH|EPERM|sent",
        PLAIN,
        """
        import fcntl
        read, write = os.pipe()
        fcntl.fcntl(read, fcntl.F_SETOWN, H['victim'])
        fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
        os.write(write, b'x'); time.sleep(0.2); print('sent')
        """,
        own=True,
    ),
    Row(
        "attach to a process of the host by ptrace, which stops it",
        judge.harmed_victim,
        "EPERM|ENOSYS|ESRCH",
        PLAIN_ROOT,
        "check(libc.ptrace(16, H['victim'], 0, 0)); os.waitpid(H['victim'], 0x40000000); libc.ptrace(8, H['victim'], 0, 0)",
    ),
    Row(
        "read another process's memory (process_vm_readv)",
        judge.claimed,
        DENIED,
        PLAIN,
        """
        text, copy = ctypes.create_string_buffer(b'x' * 64), ctypes.create_string_buffer(64)
        local = struct.pack('PN', ctypes.addressof(copy), 64)
        remote = struct.pack('PN', ctypes.addressof(text), 64)
        call(310, 270, os.getpid(), local, 1, remote, 1, 0); won()
        """,
    ),
    Row(
        "copy a descriptor out of another process (pidfd_getfd)",
        judge.claimed,
        DENIED,
        PLAIN,
        "call(438, 438, call(434, 434, os.getpid(), 0), 0, 0); won()",
    ),
    Row(
        "compare the kernel's addresses of two processes (kcmp)",
        judge.claimed,
        DENIED,
        PLAIN,
        "call(312, 272, os.getpid(), os.getppid() or os.getpid(), 1, 0, 0); won()",
    ),
    Row(
        "leave a daemon that holds the output open",
        judge.left_process,
        "left a daemon",
        PLAIN,
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                libc.prctl(15, H['ecnon'][::-1][:12].encode(), 0, 0, 0)
                time.sleep(20)
            os._exit(0)
        time.sleep(0.1); print('left a daemon', flush=True)
        """,
        modes=("fresh",),
    ),
    Row(
        "outlive the kill at the deadline by forking all the time",
        judge.left_process,
        "timed out",
        PLAIN,
        """
        libc.prctl(15, H['ecnon'][::-1][:12].encode(), 0, 0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if os.fork():
            time.sleep(0.6); os._exit(0)
        end = time.monotonic() + 15
        while time.monotonic() < end:
            try:
                if os.fork(): os._exit(0)
                os.setsid()
            except OSError: pass
        """,
        modes=("fresh",),
        limits=Limits(time_s=0.4),
        own=True,
    ),
    Row(
        "leave thirty orphans and zombies",
        judge.left_process,
        "made 30",
        PLAIN,
        """
        libc.prctl(15, H['ecnon'][::-1][:12].encode(), 0, 0, 0)
        for number in range(30):
            if os.fork() == 0:
                if os.fork(): os._exit(0)
                time.sleep(20 if number % 2 else 0); os._exit(0)
        print('made 30', flush=True); os._exit(0)
        """,
        modes=("fresh",),
        own=True,
    ),
]

PROCESSES += [
    Row(
        "kill all processes at once, the sandbox's own program too",
        judge.ended_sandbox,
        "-9|killed",
        lacking("pid namespace", "own /proc"),
        """
        if os.fork() == 0: os.kill(-1, 9); os._exit(0)
        for pid in range(1, 300):
            if pid != os.getpid():
                try: os.kill(pid, 9)
                except OSError: pass
        print('killed', flush=True); time.sleep(0.1)
        """,
        modes=("fresh",),
    ),
    Row(
        "stop all processes, so that nobody keeps the time",
        judge.ended_sandbox,
        "timed out|tried",
        lacking("pid namespace", "own /proc"),
        """
        for number in (signal.SIGSTOP, signal.SIGALRM):
            for pid in range(1, 300):
                if pid != os.getpid():
                    try: os.kill(pid, number)
                    except OSError: pass
        print('tried', flush=True)
        """,
        limits=Limits(time_s=0.5),
        own=True,
    ),
    Row(
        "reach another sandbox: its sockets, its shared files, its processes",
        judge.claimed,
        "not reached",
        Control("both as plain processes", plain_neighbours),
        REACH,
        play=play_neighbours,
    ),
]

FORGERIES = [
    Row(
        "forge the host's answer: write a good outcome to every descriptor, then fail",
        judge.forged,
        ": 7]",
        lacking("descriptors"),
        FORGE,
    ),
    Row(
        "forge the host's answer through the runner's descriptors and memory in /proc",
        judge.forged,
        ": 7]",
        lacking("descriptors"),
        """
        for pid in [p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]:
            for fd in range(64):
                try: os.write(os.open('/proc/%s/fd/%d' % (pid, fd), os.O_WRONLY | os.O_NONBLOCK), b'x' * 100)
                except OSError: pass
            try: os.open('/proc/%s/mem' % pid, os.O_RDWR)
            except OSError: pass
        """
        + FORGE,
        own=True,
    ),
]

COPIES = [
    Row(
        attempt,
        judge.copied,
        "not copied|failed|refused",
        Control("by tar, without our checks", copy_by_tar),
        code,
        limits=Limits(scratch_mb=128, scratch_files=30000, memory_mb=512),
        modes=("persistent",),
        play=play_get,
        own=own,
    )
    for attempt, code, own in (
        (
            "let get follow or carry a link to a file of the host",
            "os.mkdir('out'); os.symlink(H['file'], 'out/link'); os.symlink('/', 'out/folder')",
            False,
        ),
        (
            "let get carry a FIFO and a socket",
            "os.mkdir('out'); os.mkfifo('out/fifo'); socket.socket(socket.AF_UNIX).bind('out/socket')",
            False,
        ),
        (
            "let get fill the host's disk by a sparse file",
            "os.mkdir('out'); os.truncate(os.open('out/large', os.O_CREAT | os.O_WRONLY), 64 * MIB)",
            False,
        ),
        (
            "let get make 20,000 files on the host",
            "os.mkdir('out')\nfor n in range(20000): os.close(os.open('out/%d' % n, os.O_CREAT))",
            False,
        ),
    )
]

RIGHTS = [
    Row(
        "become root, another user or group",
        judge.claimed,
        "refused [45]",
        PLAIN_ROOT,
        """
        refused, me = 0, os.getuid()
        for become in (
            lambda: os.setuid(0 if me else 1), lambda: os.setgid(0 if me else 1), lambda: os.setgroups([0]),
            lambda: os.setresuid(-1, 0 if me else 1, -1), lambda: libc.setfsuid(0) and 1 / 0,
        ):
            if os.fork() == 0:
                try: become()
                except (OSError, ZeroDivisionError): os._exit(7)
                os._exit(0)
            refused += os.waitstatus_to_exitcode(os.wait()[1]) == 7
        print('refused', refused)
        if refused < 4: won()
        """,
    ),
    Row(
        "hold a capability",
        judge.claimed,
        "0 bits",
        PLAIN_ROOT,
        """
        lines = [line.split() for line in open('/proc/self/status') if line.startswith('Cap')]
        bits = sum(bin(int(value, 16)).count('1') for _, value in lines)
        if bits: won(lines)
        print(bits, 'bits')
        """,
    ),
    Row(
        "gain by a set-user-ID program",
        judge.claimed,
        "no gain",
        PLAIN_ORDINARY,
        """
        import subprocess
        program = subprocess.Popen(['/usr/bin/su'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        gained, end = False, time.monotonic() + 0.4
        while time.monotonic() < end and program.poll() is None and not gained:
            status = open('/proc/%d/status' % program.pid).read()
            uids = status.split('Uid:')[1].split()[:4]
            gained = len(set(uids)) > 1
        program.kill()
        won(uids) if gained else print('no gain')
        """,
    ),
    Row(
        "make a user namespace, where one is root (unshare, clone, clone3)",
        judge.claimed,
        "refused 3",
        PLAIN,
        """
        refused = 0
        flags = struct.pack('11Q', 0x10000000, 0, 0, 0, 17, *[0] * 6)
        for attempt in (
            lambda: call(272, 97, 0x10000000),
            lambda: call(56, 220, 0x10000000 | 17, 0, 0, 0, 0),
            lambda: call(435, 435, flags, len(flags)),
        ):
            if os.fork() == 0:
                try: attempt()
                except OSError: os._exit(7)
                os._exit(0)
            refused += os.waitstatus_to_exitcode(os.wait()[1]) == 7
        print('refused', refused)
        if refused < 3: won()
        """,
    ),
    Row(
        "enter the namespaces of process 1 (setns)",
        judge.claimed,
        DENIED,
        PLAIN_ROOT,
        """
        if os.fork() == 0:
            try:
                call(308, 268, os.open('/proc/self/ns/uts', os.O_RDONLY), 0); won()
            except OSError as error: print(name_of(error), flush=True)
            os._exit(0)
        os.wait()
        """,
    ),
    Row(
        "mount a file system, by the old call and the new ones",
        judge.claimed,
        "refused 3",
        PLAIN_ROOT,
        """
        refused, here = 0, b'there'
        os.mkdir(here) if not os.path.isdir(here) else None
        for attempt in (
            lambda: check(libc.mount(b'none', here, b'tmpfs', 0, None)),
            lambda: call(430, 430, b'tmpfs', 0),
            lambda: call(428, 428, -100, b'/', 1),
        ):
            try: attempt()
            except OSError: refused += 1
        libc.umount2(here, 2)
        print('refused', refused)
        if refused < 3: won()
        """,
    ),
    Row(
        "change the root folder (chroot), then leave it by an open folder",
        judge.claimed,
        DENIED,
        PLAIN_ROOT,
        """
        if os.fork() == 0:
            try:
                os.makedirs('cell', exist_ok=True); out = os.open('/', os.O_RDONLY)
                os.chroot('cell'); os.fchdir(out); won(os.listdir('.')[:2])
            except OSError as error: print(name_of(error), flush=True)
            os._exit(0)
        os.wait()
        """,
        own=True,
    ),
    Row(
        "write to /proc/sys and /proc/sysrq-trigger",
        judge.claimed,
        "refused 3",
        PLAIN_ROOT,
        """
        refused = 0
        for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/vm/overcommit_memory', '/proc/sysrq-trigger'):
            try: os.close(os.open(path, os.O_WRONLY)); won(path)
            except OSError: refused += 1
        print('refused', refused)
        """,
    ),
    Row(
        "raise its own limits (setrlimit, prlimit of process 1)",
        judge.claimed,
        "refused [1-9]",
        PLAIN_ROOT,
        """
        refused, raised = 0, []
        for name in ('NPROC', 'NOFILE', 'FSIZE', 'CORE', 'MEMLOCK', 'AS'):
            kind = getattr(resource, 'RLIMIT_' + name)
            old = resource.getrlimit(kind)
            if old[1] == resource.RLIM_INFINITY and name == 'AS': continue
            try:
                resource.setrlimit(kind, (old[0], (old[1] + 1) if old[1] >= 0 else old[1] - 1)); raised.append(name)
            except (OSError, ValueError): refused += 1
        print('refused', refused)
        if raised: won(raised)
        """,
        own=True,
    ),
    Row(
        "take real-time priority, or protect itself from the kernel's memory killer",
        judge.claimed,
        "refused 3",
        PLAIN_ROOT,
        """
        refused = 0
        def spare():
            with open('/proc/self/oom_score_adj', 'w') as stream: stream.write('-900')
        for attempt in (lambda: os.sched_setscheduler(0, 1, os.sched_param(5)), lambda: os.setpriority(0, 0, -5), spare):
            if os.fork() == 0:
                try: attempt()
                except OSError: os._exit(7)
                os._exit(0)
            refused += os.waitstatus_to_exitcode(os.wait()[1]) == 7
        print('refused', refused)
        if refused < 3: won()
        """,
        own=True,
    ),
    Row(
        "rename the machine, switch its reboot keys, set its clock",
        judge.claimed,
        "refused 3",
        PLAIN_ROOT,
        """
        refused, zone = 0, struct.pack('ii', 0, 0)
        for attempt in (
            lambda: socket.sethostname(socket.gethostname()),
            lambda: call(169, 142, 0xFEE1DEAD, 672274793, 0, 0),
            lambda: call(164, 170, 0, zone),
        ):
            try: attempt()
            except OSError: refused += 1
        print('refused', refused)
        if refused < 3: won()
        """,
        own=True,
    ),
]


def denied_call(attempt: str, source: str, control: Control = PLAIN, own: bool = False) -> Row:
    return Row(attempt, judge.claimed, DENIED, control, source + "; won()", own=own)


CALLS = [
    denied_call("add a key to the kernel's keyring", "call(248, 217, b'user', b'x', b'y', 1, -2)"),
    denied_call(
        "make an io_uring, which calls the kernel past a filter",
        "call(425, 425, 4, ctypes.create_string_buffer(256))",
    ),
    denied_call(
        "load a program into the kernel (bpf)",
        "call(321, 280, 0, struct.pack('IIII', 2, 4, 4, 1) + bytes(100), 72)",
        PLAIN_ROOT,
    ),
    denied_call(
        "count events of the processor (perf_event_open)",
        "call(298, 241, struct.pack('IIQ', 1, 128, 0) + bytes(24) + struct.pack('Q', 0x61) + bytes(80), 0, -1, -1, 0)",
        PLAIN_ROOT,
    ),
    denied_call("handle page faults itself (userfaultfd)", "call(323, 282, 1)"),
    denied_call(
        "name a file by its handle, to open it past its folder (name_to_handle_at)",
        "call(303, 264, -100, b'/', struct.pack('Ii', 128, 0) + bytes(128), ctypes.create_string_buffer(8), 0)",
    ),
    denied_call("watch a file system (fanotify_init)", "call(300, 262, 0, 0)", PLAIN_ROOT),
    denied_call("take memory that no other process can see (memfd_secret)", "call(447, 447, 0)"),
    denied_call("read the kernel's log (syslog)", "check(libc.klogctl(10, None, 0))", PLAIN_ROOT),
    Row(
        "reach a denied call by the 32-bit entry (int 0x80)",
        judge.claimed,
        "Bad system call|child ended: -|not made",
        PLAIN,
        """
        if not X86: won() if False else print('not made here: only x86-64 has this entry')
        else:
            code = bytes.fromhex('53b836010000bb00000010cd805bc3')  # unshare(CLONE_NEWUSER)
            page = mmap.mmap(-1, PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
            page.write(code)
            pid = os.fork()
            if pid == 0:
                entry = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
                if entry() == 0: won()
                else: print('not made', flush=True)
                os._exit(0)
            print('child ended:', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        """,
        own=True,
    ),
]

LIMITS = [
    Row(
        "start more processes than the limit",
        judge.claimed,
        "stopped at [1-9]|EAGAIN",
        with_limits("with 400 processes allowed", processes=400),
        """
        held, made = os.pipe(), 0
        try:
            while made < 150:
                if os.fork() == 0:
                    os.close(held[1]); os.read(held[0], 1); os._exit(0)
                made += 1
        except OSError: pass
        if made >= 150: won()
        print('stopped at', made, flush=True); os.close(held[1])
        for _ in range(made): os.wait()
        """,
    ),
    Row(
        "start more threads than processes are allowed",
        judge.claimed,
        "stopped at [1-9]|RuntimeError",
        with_limits("with 400 processes allowed", processes=400),
        """
        end, made = threading.Event(), 0
        threading.stack_size(65536)
        try:
            while made < 150: threading.Thread(target=end.wait).start(); made += 1
        except RuntimeError: pass
        if made >= 150: won()
        print('stopped at', made, flush=True); end.set()
        """,
        own=True,
    ),
    Row(
        "run past the time, without heeding a signal",
        judge.over_time,
        "timed out",
        with_limits("with 60 s allowed", time_s=60.0),
        """
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        end = time.monotonic() + 1.5
        while time.monotonic() < end: pass
        won()
        """,
        limits=Limits(time_s=0.4),
    ),
    Row(
        "stop itself, so that nobody reaps it",
        judge.over_time,
        "timed out",
        with_limits("with 60 s allowed", time_s=60.0),
        """
        pid = os.fork()
        if pid == 0:
            time.sleep(1.2); os.kill(os.getppid(), signal.SIGCONT); os._exit(0)
        os.kill(os.getpid(), signal.SIGSTOP); time.sleep(0.2); won()
        """,
        limits=Limits(time_s=0.4),
        own=True,
    ),
    Row(
        "write 40 MB of output",
        judge.over_output,
        "too much output|exited",
        with_limits("with 64 MB kept", output_bytes=64 * MIB),
        """
        for _ in range(40):
            os.write(1, b'x' * MIB)
        """,
    ),
    Row(
        "write 40 MB to the result's descriptor in one endless line",
        judge.over_output,
        "too much output|exited|EBADF",
        with_limits("with 64 MB kept", output_bytes=64 * MIB),
        """
        for _ in range(40): os.write(3 if H else 1, b'\\0' * MIB)
        """,
    ),
    Row(
        "fill a mount, any that mountinfo lists",
        judge.claimed,
        "of [1-9]",
        with_limits("with 80 MB of scratch", scratch_mb=80, memory_mb=1024),
        """
        mounts = [line.split()[4] for line in open('/proc/self/mountinfo')]
        for place in mounts:
            path, size = os.path.join(place, 'fill'), 0
            try:
                with open(path, 'wb', buffering=0) as stream:
                    while size < 20 * MIB: size += stream.write(bytes(MIB // 4))
            except OSError: pass
            if size >= 18 * MIB: won(place)
            if os.path.exists(path): os.unlink(path)
        print('of', len(mounts))
        """,
    ),
    Row(
        "make 100,000 files in any mount",
        judge.claimed,
        "of [1-9]",
        with_limits("with 20,000 files", scratch_files=20000),
        """
        mounts = [line.split()[4] for line in open('/proc/self/mountinfo')]
        for place in mounts:
            number = 0
            try:
                for number in range(6000): os.close(os.open('%s/f%d' % (place, number), os.O_CREAT | os.O_WRONLY))
            except OSError: pass
            if number > 5000: won(place)
            for done in range(number + 1):
                try: os.unlink('%s/f%d' % (place, done))
                except OSError: break
        print('of', len(mounts))
        """,
    ),
    Row(
        "open more files than the limit",
        judge.claimed,
        "EMFILE",
        with_limits("with 400 files", open_files=400),
        "held = [os.open('/dev/null', os.O_RDONLY) for _ in range(200)]; won()",
        own=True,
    ),
]

LOOK = """
import hashlib
def places():
    return sorted({line.split()[4] for line in open('/proc/self/mountinfo')})
"""

LEFTOVERS = [
    Row(
        "leave a file for the next command in any mount",
        judge.claimed,
        "found nothing in [1-9]",
        PERSISTENT,
        LOOK
        + """
for place in places():
    try: open(place + '/left', 'w').write('x')
    except OSError: pass
""",
        then=LOOK
        + """
found = [place for place in places() if os.path.exists(place + '/left')]
won(found) if found else print('found nothing in', len(places()))
""",
        modes=("fresh",),
    ),
    Row(
        "leave shared memory, a message queue or a semaphore for the next command",
        judge.claimed,
        "ENOENT|ENOSYS|EPERM|EACCES",
        PLAIN,
        """
        for make in (lambda: libc.shmget(4711, 4096, 0o1666), lambda: libc.msgget(4711, 0o1666), lambda: libc.semget(4711, 1, 0o1666)):
            make()
        """,
        then="""
        left = [libc.shmget(4711, 0, 0), libc.msgget(4711, 0), libc.semget(4711, 0, 0)]
        code = ctypes.get_errno()
        if left[0] >= 0: libc.shmctl(left[0], 0, None); won()
        if left[1] >= 0: libc.msgctl(left[1], 0, None); won()
        if left[2] >= 0: libc.semctl(left[2], 0, 0); won()
        print(left, errno.errorcode.get(code))
        """,
        modes=("fresh",),
    ),
    Row(
        "change a module of the interpreter for the next snippet",
        judge.claimed,
        "intact",
        Control("both snippets in one plain interpreter", in_one_interpreter),
        """
        import builtins, json
        json.dumps = builtins.len = sys.exit = lambda *_: 'changed'
        sys.modules['random'] = json; os.environ['LEFT'] = 'x'; sys.path.insert(0, '/tmp')
        """,
        then="""
        import json, random
        changed = [json.dumps(1) != '1', len('ab') != 2, random is json, 'LEFT' in os.environ, '/tmp' in sys.path]
        won(changed) if any(changed) else print('intact')
        """,
        own=True,
    ),
]

ROWS = [
    *SOCKETS, *FILES, *PROCESSES, *FORGERIES, *COPIES, *RIGHTS, *CALLS, *LIMITS, *LEFTOVERS, *MEMORY,
]  # fmt: skip
