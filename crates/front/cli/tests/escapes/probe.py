"""Tries to reach what the permissions of an agent close, and writes for each attempt whether it is open.

    probe.py PARAMETERS.json

Every attempt runs in a process of its own. It is open if it succeeded; an error, a signal or a wrong content
means that it was stopped. Nothing outside of the directories in the parameters is changed: processes are only
probed, and what is created elsewhere is removed again.
"""

import ctypes
import errno
import json
import os
import platform
import signal
import socket
import struct
import sys

P = json.load(open(sys.argv[1]))
HOME, OUTSIDE, WORK, VICTIM = P["home"], P["outside"], P["work"], P["victim"]
CANARY = P["canary"]
TMP = os.environ.get("TMPDIR", "/nonexistent")
MAIN = os.getpid()
libc = ctypes.CDLL(None, use_errno=True)

X86 = platform.machine() == "x86_64"
# The numbers of x86-64, and those that aarch64 shares with every newer architecture.
CALLS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "prlimit64": (302, 261), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191),
    "semop": (65, 193), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "io_uring_setup": (425, 425), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "tkill": (200, 130),
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "openat2": (437, 437), "process_madvise": (440, 440),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "fanotify_init": (300, 262), "init_module": (175, 105),
    "finit_module": (313, 273), "kexec_load": (246, 104), "swapon": (167, 224), "acct": (163, 89),
    "sethostname": (170, 161), "syslog": (103, 116), "quotactl": (179, 60), "ioperm": (173, -1),
    "fchmodat2": (452, 452), "truncate": (76, 45), "setxattrat": (463, 463), "mknodat": (259, 33),
    "landlock_create_ruleset": (444, 444), "vmsplice": (278, 75), "getpid": (39, 172),
    "clock_settime": (227, 112), "settimeofday": (164, 170), "iopl": (172, -1), "mount_setattr": (442, 442),
}


class Closed(Exception):
    """The attempt was stopped."""


def call(name, *arguments):
    """A system call; its result, or the error."""
    number = CALLS[name][0 if X86 else 1]
    result = libc.syscall(ctypes.c_long(number), *[
        ctypes.c_long(it) if isinstance(it, int) else it for it in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def reads(path):
    """Whether a file can be read."""
    with open(path, "rb") as file:
        return CANARY.encode() in file.read(1 << 16)


def reads_secret(path):
    """Whether a secret, a file or a directory with one, can be read."""
    return reads(os.path.join(path, "canary") if os.path.isdir(path) else path)


def lists(path):
    return bool(os.listdir(path))


def writes(path, mode="w"):
    with open(path, mode) as file:
        file.write("planted-by-the-probe")
    return True


def writes_value(path, value):
    with open(path, "w") as file:
        file.write(value)
    return True


def own(name):
    """A name in the private directory that no other attempt uses."""
    return os.path.join(TMP, "%s-%d" % (name, os.getpid()))


def own_file(name):
    path = own(name)
    with open(path, "w") as file:
        file.write("x")
    return path


def tries(call):
    """Whether the kernel let a connection try: one that nobody answers was tried."""
    try:
        call()
    except (ConnectionRefusedError, BlockingIOError):
        pass
    return True


def connect(family, kind, protocol, address):
    def attempt():
        with socket.socket(family, kind, protocol) as it:
            it.settimeout(3)
            it.connect(address)
    return tries(attempt)


def send(family, kind, protocol, address, flags=0):
    def attempt():
        with socket.socket(family, kind, protocol) as it:
            it.settimeout(3)
            it.sendto(b"x", flags, address)
    return tries(attempt)


def makes(family, kind, protocol=0):
    socket.socket(family, kind, protocol).close()
    return True


def fast_open_connect(address):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as it:
        it.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
        it.connect(address)
        it.send(b"x")
    return True


def listen(kind, family=socket.AF_INET, host="127.0.0.1"):
    with socket.socket(family, kind) as it:
        it.bind((host, 0))
        if kind == socket.SOCK_STREAM:
            it.listen(1)
    return True


def listen_without_bind():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as it:
        it.listen(1)
    return True


def pair_to(path):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"x", path)
    return True


def pair():
    one, other = socket.socketpair()
    with one, other:
        one.send(b"x")
        return other.recv(1) == b"x"


def ptrace(request):
    call("ptrace", request, VICTIM, 0, 0)
    if request == 16:
        os.waitpid(VICTIM, 0x40000000)
    call("ptrace", 17, VICTIM, 0, 0)
    return True


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


def vm(name):
    buffer = ctypes.create_string_buffer(8)
    local = Vector(ctypes.addressof(buffer), 8)
    remote = Vector(int(P["address"], 16), 8)
    call(name, VICTIM, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    return True


def limit(pid):
    call("prlimit64", pid, 7, ctypes.create_string_buffer(struct.pack("QQ", 64, 64)), None)
    return True


def sched_attr(pid):
    attributes = struct.pack("IIQiIQQQ", 48, 3, 0, 0, 0, 0, 0, 0)
    call("sched_setattr", pid, ctypes.create_string_buffer(attributes), 0)
    return True


def affinity(pid):
    mask = ctypes.create_string_buffer(struct.pack("Q", 1) + bytes(120))
    call("sched_setaffinity", pid, 128, mask)
    return True


def shared_memory(key, flags):
    segment = call("shmget", key, 4096, flags)
    try:
        libc.shmat.restype = ctypes.c_void_p
        address = libc.shmat(segment, None, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "shmat")
    finally:
        if key == 0:
            call("shmctl", segment, 0, None)
    return True


def semaphores(key, flags):
    found = call("semget", key, 1, flags)
    if key == 0:
        call("semctl", found, 0, 0, 0)
    return True


def messages(key, flags):
    found = call("msgget", key, flags)
    if key == 0:
        call("msgctl", found, 0, None)
    return True


def message_queue():
    name = ("convoke-probe-%d" % os.getpid()).encode()
    queue = call("mq_open", name, os.O_RDWR | os.O_CREAT, 0o600, None)
    os.close(queue)
    call("mq_unlink", name)
    return True


def handle_of(path):
    """The secret by its handle, which no path rule sees."""
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    call("name_to_handle_at", -100, path.encode(), handle, ctypes.byref(mount), 0)
    root = os.open(WORK, os.O_RDONLY)
    found = call("open_by_handle_at", root, handle, os.O_RDONLY)
    return CANARY.encode() in os.read(found, 4096)


def namespace(flag):
    call("unshare", flag)
    return True


def mounts():
    call("mount", b"none", (OUTSIDE + "/mount").encode(), b"tmpfs", 0, None)
    call("umount2", (OUTSIDE + "/mount").encode(), 2)
    return True


def binds(where):
    call("unshare", 0x20000)
    call("mount", (HOME + "/.ssh").encode(), where.encode(), None, 4096, None)
    return reads(where + "/id")


def mounts_as_own_user():
    call("unshare", 0x10000000 | 0x20000)
    call("mount", b"none", TMP.encode(), b"tmpfs", 0, None)
    return True


def other_namespace():
    call("setns", os.open("/proc/%d/ns/mnt" % VICTIM, os.O_RDONLY), 0)
    return True


def changes_root():
    call("chroot", WORK.encode())
    return True


def fd_of_other():
    descriptor = call("pidfd_open", VICTIM, 0)
    call("pidfd_getfd", descriptor, 0, 0)
    return True


def signals_by_descriptor():
    call("pidfd_send_signal", call("pidfd_open", VICTIM, 0), 0, None, 0)
    return True


def queues_signal():
    information = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1) + bytes(116))
    call("rt_sigqueueinfo", VICTIM, 0, information)
    return True


def signals_own():
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def openat2(path, resolve):
    how = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, resolve))
    found = call("openat2", -100, path.encode(), how, 24)
    return CANARY.encode() in os.read(found, 4096)


def by_path_descriptor(path):
    found = os.open(path, os.O_PATH)
    return reads("/proc/self/fd/%d" % found)


def by_directory_descriptor():
    found = os.open(HOME, os.O_PATH)
    secret = os.open(".ssh/id", os.O_RDONLY, dir_fd=found)
    return CANARY.encode() in os.read(secret, 4096)


def by_chdir(path):
    os.chdir(path)
    return reads("id")


def symbolic(target, name):
    link = own("symbolic")
    os.symlink(target, link)
    return reads(os.path.join(link, name) if name else link)


def hard():
    link = own("hard")
    os.link(HOME + "/.ssh/id", link)
    return reads(link)


def moved():
    moved = own("moved")
    os.rename(HOME + "/.ssh/moved", moved)
    return reads(moved)


def copied_range():
    one = os.open(HOME + "/.ssh/id", os.O_RDONLY)
    other = os.open(own("copy"), os.O_RDWR | os.O_CREAT)
    os.copy_file_range(one, other, 4096)
    return True


def executes(path):
    child = os.fork()
    if child == 0:
        os.execv(path, [path])
    return os.waitpid(child, 0)[1] == 0


def inherited_descriptor():
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
        if target == P["inherited"]:
            return True
    return False


def policy_file():
    """The policy, or anything else of Convoke's, in a file that the agent could read or replace."""
    found = False
    for root in [TMP, os.path.dirname(TMP), P["temporary"]]:
        try:
            found |= any("confine" in name or "policy" in name for name in os.listdir(root))
        except OSError:
            pass
    return found


def other_turn():
    """The private directory of another turn."""
    return reads(os.path.join(P["temporary"], "convoke-Other0", "canary"))


def no_new_privileges():
    return libc.prctl(39, 0, 0, 0, 0) == 0


def ancestors():
    """The guardian of this agent, Convoke, and its caller. Those below may be of the agent itself."""
    found, process = [], MAIN
    while process not in (0, 1, P["convoke"]):
        with open("/proc/%d/stat" % process) as file:
            process = int(file.read().rsplit(") ", 1)[1].split()[1])
        found.append(process)
    return found[-3:]


def reads_of_convoke(name):
    """Whether a file in /proc of Convoke, its guardian or its caller can be read."""
    for process in ancestors():
        try:
            if reads_bytes("/proc/%d/%s" % (process, name)):
                return True
        except OSError:
            pass
    return False


def signals_convoke():
    for process in ancestors():
        try:
            os.kill(process, 0)
            return True
        except OSError:
            pass
    return False


def reads_bytes(path):
    with open(path, "rb") as file:
        file.read(1)
    return True


def memory_of_other():
    with open("/proc/%d/mem" % VICTIM, "rb", 0) as file:
        file.seek(int(P["address"], 16))
        return len(file.read(8)) == 8


def device():
    number = os.makedev(1, 3)
    path = own("device")
    os.mknod(path, 0o600 | 0o020000, number)
    return True


def terminal():
    os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    return True


def xattr():
    try:
        os.setxattr(OUTSIDE + "/file", "user.probe", b"x")
    except OSError as error:
        # Not every file system has them.
        if error.errno != errno.ENOTSUP:
            raise
    return True


def watches(path):
    descriptor = libc.inotify_init()
    if libc.inotify_add_watch(descriptor, path.encode(), 0x100) < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    return True


def keys():
    call("keyctl", 0, -3, 0)
    return True


def adds_key():
    call("add_key", b"user", b"convoke-probe", b"x", 1, -2)
    return True


def x32():
    number = 39 | 0x40000000
    result = libc.syscall(ctypes.c_long(number))
    return result > 0


def perf(pid):
    attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0) + bytes(96))
    call("perf_event_open", attributes, pid, -1, -1, 0)
    return True


def disk():
    """The disk below the files, for whoever may read devices."""
    for line in open("/proc/partitions").read().split("\n")[2:]:
        if line.split():
            return reads_bytes("/dev/" + line.split()[3])
    return False


def variable(name):
    return P["variables"][name] in os.environ.get(name, "")


def mode(path):
    os.chmod(path, 0o640)
    return True


def background():
    """A daemon of the agent: a new session, without its parent."""
    one, other = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                os.write(other, b"o" if reads(HOME + "/.ssh/id") else b"-")
            except OSError:
                os.write(other, b"-")
            os._exit(0)
        os._exit(0)
    return os.read(one, 1) == b"o"


def tcp(host, port):
    return lambda: connect(socket.AF_INET, socket.SOCK_STREAM, 0, (host, port))


PORT = P["port"]
LOCAL = ("127.0.0.1", PORT)
STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
UNIX = socket.AF_UNIX

PROBES = []


def probe(name, attempt):
    PROBES.append((name, attempt))


for path in P["secrets"]:
    probe("read ~/" + path, lambda path=path: reads_secret(os.path.join(HOME, path)))
for name, path in P["named"].items():
    probe("read the file of " + name, lambda path=path: reads_secret(path))
for name in P["variables"]:
    probe("get the variable " + name, lambda name=name: variable(name))

SSH = HOME + "/.ssh"
for name, attempt in [
    # Secrets by other ways.
    ("list ~", lambda: lists(HOME)),
    ("list ~/.ssh", lambda: lists(SSH)),
    ("read a secret by a link to its directory", lambda: symbolic(SSH, "id")),
    ("read a secret by a link to it", lambda: symbolic(SSH + "/id", "")),
    ("read a secret by a link of the user", lambda: reads(HOME + "/link/id")),
    ("read a secret by a hard link", hard),
    ("read a secret that was moved out", moved),
    ("read a secret by /proc/self/root", lambda: reads("/proc/self/root" + SSH + "/id")),
    ("read a secret by /proc/PID/root", lambda: reads("/proc/%d/root%s/id" % (VICTIM, SSH))),
    ("read a secret by /proc/PID/cwd", lambda: reads("/proc/%d/cwd/id" % VICTIM)),
    ("read a secret by the root of Convoke", lambda: reads("/proc/%d/root%s/id" % (ancestors()[1], SSH))),
    ("read a secret by a path with dots", lambda: reads(WORK + "/../home/.config/../.ssh/id")),
    ("read a secret by openat2", lambda: openat2(SSH + "/id", 0)),
    ("read a secret by a path descriptor", lambda: by_path_descriptor(SSH + "/id")),
    ("read a secret below a path descriptor", by_directory_descriptor),
    ("read a secret after chdir", lambda: by_chdir(SSH)),
    ("read a secret by its handle", lambda: handle_of(SSH + "/id")),
    ("copy a secret in the kernel", copied_range),
    ("read a secret from a daemon", background),
    ("read a secret of a name in other case", lambda: reads(HOME + "/.SSH/id")),
    ("execute a secret", lambda: executes(SSH + "/program")),
    ("read a secret of a home that is not the user's", lambda: reads(P["others"] + "/.ssh/id")),
    ("read /run/secrets", lambda: lists("/run/secrets")),
    ("see that a secret exists", lambda: bool(os.stat(SSH + "/id"))),
    ("watch the names in ~/.ssh", lambda: watches(SSH)),
    ("read an open file of Convoke's caller", inherited_descriptor),
    ("read /etc/shadow", lambda: reads_bytes("/etc/shadow")),
    ("read a disk", disk),
    ("read /dev/mem", lambda: reads_bytes("/dev/mem")),
    ("read the kernel's log", lambda: call("syslog", 10, None, 0) >= 0),
    # Convoke's own.
    ("read agents.toml", lambda: reads(P["config"] + "/agents.toml")),
    ("read permissions.toml", lambda: reads(P["config"] + "/permissions.toml")),
    ("change agents.toml", lambda: writes(P["config"] + "/agents.toml", "a")),
    ("change permissions.toml", lambda: writes(P["config"] + "/permissions.toml", "a")),
    ("add to the configuration of Convoke", lambda: writes(P["config"] + "/planted")),
    ("list the store of Convoke", lambda: lists(P["data"])),
    ("read the store of Convoke", lambda: reads(P["data"] + "/canary")),
    ("add to the store of Convoke", lambda: writes(P["data"] + "/planted")),
    ("find the policy", policy_file),
    ("read the directory of another turn", other_turn),
    ("write to the directory of another turn", lambda: writes(P["temporary"] + "/convoke-Other0/planted")),
    ("write to the temporary root", lambda: writes(P["temporary"] + "/planted")),
    ("read the environment of Convoke", lambda: reads_of_convoke("environ")),
    ("read the memory of Convoke", lambda: reads_of_convoke("mem")),
    ("read the maps of Convoke", lambda: reads_of_convoke("maps")),
    ("signal Convoke", signals_convoke),
    # Files that may be read.
    ("read a project file", lambda: reads(WORK + "/project.txt")),
    ("list the working directory", lambda: lists(WORK)),
    ("read an ordinary file of the home", lambda: reads(HOME + "/notes.txt")),
    ("read a file outside", lambda: reads(OUTSIDE + "/file")),
    ("list outside", lambda: lists(OUTSIDE)),
    ("read /etc/passwd", lambda: reads_bytes("/etc/passwd")),
    ("execute a program", lambda: executes("/bin/true")),
    # Writing.
    ("write to the working directory", lambda: writes(WORK + "/inside")),
    ("change a file of the working directory", lambda: writes(WORK + "/project.txt", "a")),
    ("remove a file of the working directory", lambda: os.unlink(WORK + "/removed") is None),
    ("plant a git hook", lambda: writes(WORK + "/.git/hooks/pre-commit")),
    ("plant settings in the project", lambda: writes(WORK + "/.mcp.json")),
    ("write by a link in the working directory", lambda: writes(WORK + "/link-out", "a")),
    ("write to the private directory", lambda: bool(own_file("own"))),
    ("write to the home", lambda: writes(HOME + "/planted")),
    ("change an ordinary file of the home", lambda: writes(HOME + "/notes.txt", "a")),
    ("change ~/.bashrc", lambda: writes(HOME + "/.bashrc", "a")),
    ("change ~/.profile", lambda: writes(HOME + "/.profile", "a")),
    ("plant a program in ~/.local/bin", lambda: writes(HOME + "/.local/bin/git")),
    ("plant a service of the user", lambda: writes(HOME + "/.config/systemd/user/x.service")),
    ("plant an autostart entry", lambda: writes(HOME + "/.config/autostart/x.desktop")),
    ("change ~/.gitconfig", lambda: writes(HOME + "/.gitconfig", "a")),
    ("add to ~/.ssh", lambda: writes(SSH + "/authorized_keys")),
    ("change a secret", lambda: writes(HOME + "/.aws/credentials", "a")),
    ("write outside", lambda: writes(OUTSIDE + "/new")),
    ("append to a file outside", lambda: writes(OUTSIDE + "/appended", "a")),
    ("truncate a file outside", lambda: call("truncate", (OUTSIDE + "/truncated").encode(), 0) == 0),
    ("empty a file outside as it is opened", lambda: bool(os.open(OUTSIDE + "/emptied", os.O_RDONLY | os.O_TRUNC))),
    ("remove a file outside", lambda: os.unlink(OUTSIDE + "/removed") is None),
    ("remove a directory outside", lambda: os.rmdir(OUTSIDE + "/removed-directory") is None),
    ("make a directory outside", lambda: os.mkdir(OUTSIDE + "/directory") is None),
    ("make a link outside", lambda: os.symlink("/etc/passwd", OUTSIDE + "/symbolic") is None),
    ("make a hard link outside", lambda: os.link(own_file("l"), OUTSIDE + "/hard") is None),
    ("make a pipe outside", lambda: os.mkfifo(OUTSIDE + "/pipe") is None),
    ("make a nameless file outside", lambda: bool(os.open(OUTSIDE, os.O_TMPFILE | os.O_WRONLY))),
    ("rename a file out", lambda: os.rename(own_file("r"), OUTSIDE + "/renamed") is None),
    ("rename a file in", lambda: os.rename(OUTSIDE + "/taken", own("taken")) is None),
    ("rename outside", lambda: os.rename(OUTSIDE + "/named", OUTSIDE + "/named-anew") is None),
    ("write to /tmp", lambda: [writes(P["stray"]), os.unlink(P["stray"])] and True),
    ("write to /dev/shm", lambda: [writes(P["stray-memory"]), os.unlink(P["stray-memory"])] and True),
    ("write to /var/tmp", lambda: [writes(P["stray-var"]), os.unlink(P["stray-var"])] and True),
    ("write to /dev/null", lambda: writes("/dev/null")),
    ("make a device", device),
    # Named as not enforced.
    ("chmod a file outside", lambda: mode(OUTSIDE + "/file")),
    ("chown a file outside", lambda: os.chown(OUTSIDE + "/file", os.getuid(), os.getgid()) is None),
    ("set the times of a file outside", lambda: os.utime(OUTSIDE + "/file", (1, 1)) is None),
    ("set an attribute of a file outside", xattr),
    ("lock a file outside", lambda: __import__("fcntl").flock(os.open(OUTSIDE + "/file", os.O_RDONLY), 6) is None),
    # State of the CLIs.
    ("change the settings of Claude Code", lambda: writes(HOME + "/.claude/settings.json", "a")),
    ("change ~/.claude.json", lambda: writes(HOME + "/.claude.json", "a")),
    ("plant a skill of Claude Code", lambda: os.mkdir(HOME + "/.claude/skills/planted") is None),
    ("plant a command of Claude Code", lambda: writes(HOME + "/.claude/commands/planted.md")),
    ("plant an agent of Claude Code", lambda: writes(HOME + "/.claude/agents/planted.md")),
    ("plant a hook script of Claude Code", lambda: writes(HOME + "/.claude/hooks/planted")),
    ("plant a shell snapshot of Claude Code", lambda: writes(HOME + "/.claude/shell-snapshots/planted")),
    ("plant a session environment of Claude Code", lambda: writes(HOME + "/.claude/session-env/planted")),
    ("plant a note on another project", lambda: writes(HOME + "/.claude/projects/other/memory/planted")),
    ("plant instructions of Claude Code", lambda: writes(HOME + "/.claude/CLAUDE.md")),
    ("change the configuration of Codex", lambda: writes(HOME + "/.codex/config.toml", "a")),
    ("plant instructions of Codex", lambda: writes(HOME + "/.codex/AGENTS.md")),
    ("plant a rule of Codex", lambda: writes(HOME + "/.codex/rules/planted.rules")),
    ("plant a prompt of Codex", lambda: writes(HOME + "/.codex/prompts/planted.md")),
    ("plant a skill of Codex", lambda: os.mkdir(HOME + "/.codex/skills/planted") is None),
    ("plant a shell snapshot of Codex", lambda: writes(HOME + "/.codex/shell_snapshots/planted")),
    ("plant a program of Codex", lambda: writes(HOME + "/.codex/tmp/arg0/planted")),
    ("change the settings of Gemini CLI", lambda: writes(HOME + "/.gemini/settings.json", "a")),
    ("plant instructions of Gemini CLI", lambda: writes(HOME + "/.gemini/GEMINI.md")),
    ("plant an extension of Gemini CLI", lambda: os.mkdir(HOME + "/.gemini/extensions/planted") is None),
    ("trust a folder for Gemini CLI", lambda: writes(HOME + "/.gemini/trustedFolders.json")),
    # Network.
    ("connect to another port", tcp("127.0.0.1", PORT)),
    ("connect to another port at 127.0.0.2", tcp("127.0.0.2", PORT)),
    ("connect to another port by IPv6", lambda: connect(socket.AF_INET6, STREAM, 0, ("::ffff:127.0.0.1", PORT))),
    ("connect to port 443", tcp("127.0.0.1", 443)),
    ("connect to port 53", tcp("127.0.0.1", 53)),
    ("connect to port 80", tcp("127.0.0.1", 80)),
    ("connect to port 22", tcp("127.0.0.1", 22)),
    ("send UDP", lambda: send(socket.AF_INET, DATAGRAM, 0, ("127.0.0.1", P["udp"]))),
    ("connect by UDP", lambda: connect(socket.AF_INET, DATAGRAM, 17, ("127.0.0.1", P["udp"]))),
    ("send UDP by IPv6", lambda: makes(socket.AF_INET6, DATAGRAM)),
    ("connect by Multipath TCP", lambda: connect(socket.AF_INET, STREAM, 262, LOCAL)),
    ("connect by Multipath TCP to port 443", lambda: connect(socket.AF_INET, STREAM, 262, ("127.0.0.1", 443))),
    ("send by TCP fast open", lambda: send(socket.AF_INET, STREAM, 0, LOCAL, 0x20000000)),
    ("connect by TCP fast open", lambda: fast_open_connect(LOCAL)),
    ("make a raw socket", lambda: makes(socket.AF_INET, socket.SOCK_RAW, 1)),
    ("make a raw socket of IPv6", lambda: makes(socket.AF_INET6, socket.SOCK_RAW, 58)),
    ("make a packet socket", lambda: makes(17, socket.SOCK_RAW, 0)),
    ("make a socket of UDP-Lite", lambda: makes(socket.AF_INET, DATAGRAM, 136)),
    ("make a socket of SCTP", lambda: makes(socket.AF_INET, STREAM, 132)),
    ("make a socket of the ping protocol", lambda: makes(socket.AF_INET, DATAGRAM, 1)),
    ("make a socket of virtual machines", lambda: makes(40, STREAM)),
    ("make a socket of the kernel's ciphers", lambda: makes(38, 5)),
    ("make a socket of Bluetooth", lambda: makes(31, 3, 1)),
    ("make a socket of XDP", lambda: makes(44, socket.SOCK_RAW)),
    ("ask the kernel for its routes", lambda: makes(16, socket.SOCK_RAW, 0)),
    ("listen on a port", lambda: listen(STREAM)),
    ("listen on a port of every address", lambda: listen(STREAM, host="0.0.0.0")),
    ("listen on a port of IPv6", lambda: listen(STREAM, socket.AF_INET6, "::1")),
    ("listen without a port", listen_without_bind),
    ("connect to a Unix socket", lambda: connect(UNIX, STREAM, 0, P["socket"])),
    ("send to a Unix socket", lambda: send(UNIX, DATAGRAM, 0, P["datagrams"])),
    ("connect to an abstract socket", lambda: connect(UNIX, STREAM, 0, "\0" + P["abstract"])),
    ("make a Unix socket of packets", lambda: makes(UNIX, socket.SOCK_SEQPACKET)),
    ("send to a Unix socket from a pair", lambda: pair_to(P["datagrams"])),
    ("send to an abstract socket from a pair", lambda: pair_to("\0" + P["abstract"] + "-datagrams")),
    ("talk over a pair of sockets", pair),
    ("make an io_uring", lambda: call("io_uring_setup", 1, ctypes.create_string_buffer(120)) >= 0),
    # Other processes.
    ("signal another process", lambda: os.kill(VICTIM, 0) is None),
    ("signal a thread", lambda: call("tkill", VICTIM, 0) == 0),
    ("signal a thread of a process", lambda: call("tgkill", VICTIM, VICTIM, 0) == 0),
    ("queue a signal", queues_signal),
    ("signal by a descriptor", signals_by_descriptor),
    ("signal its own process", signals_own),
    ("trace another process", lambda: ptrace(16)),
    ("seize another process", lambda: ptrace(0x4206)),
    ("read the memory of another process", lambda: vm("process_vm_readv")),
    ("write the memory of another process", lambda: vm("process_vm_writev")),
    ("open the memory of another process", memory_of_other),
    ("read the environment of another process", lambda: reads_bytes("/proc/%d/environ" % VICTIM)),
    ("read the maps of another process", lambda: reads_bytes("/proc/%d/maps" % VICTIM)),
    ("count the open files of another process", lambda: lists("/proc/%d/fd" % VICTIM)),
    ("name an open file of another process", lambda: bool(os.readlink("/proc/%d/fd/0" % VICTIM))),
    ("name the directory of another process", lambda: bool(os.readlink("/proc/%d/cwd" % VICTIM))),
    ("take an open file of another process", fd_of_other),
    ("compare another process", lambda: call("kcmp", VICTIM, VICTIM, 1, 0, 0) >= 0),
    ("read the arguments of another process", lambda: reads_bytes("/proc/%d/cmdline" % VICTIM)),
    ("have another process killed first", lambda: writes_value("/proc/%d/oom_score_adj" % VICTIM, "500")),
    ("limit another process", lambda: limit(VICTIM)),
    ("limit itself", lambda: limit(0)),
    ("lower the priority of another process", lambda: call("setpriority", 0, VICTIM, 5) == 0),
    ("lower the priority of a group", lambda: call("setpriority", 1, 0, 5) == 0),
    ("lower the priority of its user", lambda: call("setpriority", 2, 54321, 5) == 0),
    ("lower its own priority", lambda: call("setpriority", 0, 0, 5) == 0),
    ("slow the disk of another process", lambda: call("ioprio_set", 1, VICTIM, (2 << 13) | 7) == 0),
    ("pin another process", lambda: affinity(VICTIM)),
    ("schedule another process", lambda: call("sched_setscheduler", VICTIM, 3, ctypes.create_string_buffer(4)) == 0),
    ("set the parameters of another process", lambda: call("sched_setparam", VICTIM, ctypes.create_string_buffer(4)) == 0),
    ("set the attributes of another process", lambda: sched_attr(VICTIM)),
    ("move the memory of another process", lambda: call("migrate_pages", VICTIM, 64, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)) >= 0),
    ("find the memory of another process", lambda: call("move_pages", VICTIM, 0, None, None, None, 0) >= 0),
    ("measure another process", lambda: perf(VICTIM)),
    # Between processes.
    ("open shared memory of another process", lambda: shared_memory(P["key"], 0)),
    ("make shared memory", lambda: shared_memory(0, 0o1600)),
    ("open semaphores of another process", lambda: semaphores(P["key"], 0)),
    ("make semaphores", lambda: semaphores(0, 0o1600)),
    ("open messages of another process", lambda: messages(P["key"], 0)),
    ("make messages", lambda: messages(0, 0o1600)),
    ("make a message queue of POSIX", message_queue),
    ("search the keyring", keys),
    ("add a key", adds_key),
    ("request a key", lambda: call("request_key", b"user", b"convoke-probe", None, 0) >= 0),
    # Terminals.
    ("make a terminal", terminal),
    ("list the terminals", lambda: lists("/dev/pts")),
    ("open its terminal", lambda: bool(os.open("/dev/tty", os.O_RDWR))),
    # Namespaces and mounts.
    ("mount a file system", mounts),
    ("mount a secret elsewhere", lambda: binds(OUTSIDE + "/mount")),
    ("mount in a namespace of its own user", mounts_as_own_user),
    ("make a namespace of mounts", lambda: namespace(0x20000)),
    ("make a namespace of the network", lambda: namespace(0x40000000)),
    ("enter the mounts of another process", other_namespace),
    ("change the root", changes_root),
    ("open a file system", lambda: call("fsopen", b"tmpfs", 0) >= 0),
    ("clone a mount", lambda: call("open_tree", -100, SSH.encode(), 1) >= 0),
    # The rights of root.
    ("gain rights by a setuid program", no_new_privileges),
    ("load a module", lambda: call("finit_module", -1, b"", 0) >= 0),
    ("name the machine", lambda: call("sethostname", os.uname().nodename.encode(), len(os.uname().nodename)) == 0),
    ("load a program into the kernel", lambda: call("bpf", 0, ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1) + bytes(112)), 128) >= 0),
    ("record every process", lambda: call("acct", None) == 0),
    ("use ports of the hardware", lambda: call("iopl", 3) == 0),
    ("watch a file system", lambda: call("fanotify_init", 4, 0) >= 0),
    ("make a system call of another kind (x32)", x32),
]:
    probe(name, attempt)


def main():
    lines = []
    for name, attempt in PROBES:
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            why = 1
            try:
                why = 0 if attempt() else 1
            except OSError as error:
                why = 2 if error.errno in (None, 0) else min(error.errno + 2, 250)
            except BaseException:
                why = 1
            os._exit(why)
        status = os.waitpid(child, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        why = "" if code == 0 else errno.errorcode.get(code - 2, "%d" % code)
        lines.append("%s\t%s\t%s\n" % (name, "open" if code == 0 else "-", why))
    with open(P["results"], "w") as file:
        file.writelines(lines)
    print("tried %d" % len(lines))


main()
