//! A hostile agent with each permission: what the kernel stops, and what it does not.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use tempfile::TempDir;

const HOST: &str = env!("CARGO_BIN_EXE_convoke-test-host");

/// A user without any rights, so that root's rights do not matter.
const NOBODY: &str = "65534";

/// A home with secrets, a working directory, and a directory outside both.
struct SandboxHost {
    dir: TempDir,
    listener: TcpListener,
    model: TcpListener,
    datagrams: UdpSocket,
    _abstract: UnixListener,
    _unix: (UnixListener, UnixDatagram),
    /// A process of the same user outside the sandbox, in place of Convoke.
    convoke: Child,
}

/// One attempt of the hostile agent: its name, and a script that succeeds if nothing stops it.
const ATTEMPTS: &[(&str, &str)] = &[
    ("write to the working directory", "echo x >inside"),
    ("write to the private directory", "echo x >$TMPDIR/x && test -s $TMPDIR/x"),
    ("write to the home", "echo x >$HOME/new"),
    ("write outside", "echo x >$OUTSIDE/new"),
    ("write to /dev/null", "echo x >/dev/null"),
    ("empty a file outside", "perl -e 'truncate($ARGV[0], 0) or exit 1' $OUTSIDE/file"),
    ("remove a file outside", "rm $OUTSIDE/removed"),
    (
        "rename a file out",
        "echo x >$TMPDIR/r && perl -e 'rename(shift, shift) or exit 1' $TMPDIR/r $OUTSIDE/r",
    ),
    ("link a file out", "echo x >$TMPDIR/l && ln $TMPDIR/l $OUTSIDE/l"),
    ("chmod a file outside", "chmod 600 $OUTSIDE/file"),
    ("read a project file", "cat project.txt"),
    ("read /etc/passwd", "cat /etc/passwd"),
    ("read ~/.ssh", "cat $HOME/.ssh/id"),
    ("list ~/.ssh", "ls $HOME/.ssh"),
    ("read ~/.ssh by a link", "ln -s $HOME/.ssh $TMPDIR/s; cat $TMPDIR/s/id"),
    ("read ~/.ssh by a hard link", "ln $HOME/.ssh/id $TMPDIR/h && cat $TMPDIR/h"),
    ("read ~/.ssh by /proc", "cat /proc/self/root$HOME/.ssh/id"),
    ("read ~/.aws", "cat $HOME/.aws/credentials"),
    ("read the key of another agent", "cat $HOME/.codex/auth.json"),
    ("read the store of Convoke", "cat $HOME/.local/share/convoke/store"),
    ("plant a hook", "echo x >$HOME/.claude/settings.json"),
    ("plant a skill", "mkdir $HOME/.claude/skills"),
    ("plant a git hook", "mkdir -p .git/hooks && echo x >.git/hooks/pre-commit"),
    ("connect to its model", "perl $OUTSIDE/net.pl tcp $MODEL"),
    ("connect to another port", "perl $OUTSIDE/net.pl tcp $PORT"),
    ("connect to 127.0.0.2", "perl $OUTSIDE/net.pl tcp2 $PORT"),
    ("send UDP", "perl $OUTSIDE/net.pl udp $UDP"),
    ("connect by Multipath TCP", "perl $OUTSIDE/net.pl mptcp $PORT"),
    ("send by TCP fast open", "perl $OUTSIDE/net.pl fastopen $PORT"),
    ("connect to an abstract socket", "perl $OUTSIDE/net.pl abstract $ABSTRACT"),
    ("connect to a Unix socket", "perl $OUTSIDE/net.pl unix $OUTSIDE/socket"),
    ("send to a Unix socket", "perl $OUTSIDE/net.pl pair $OUTSIDE/datagrams"),
    ("talk over a pair of sockets", "perl $OUTSIDE/net.pl stream 0"),
    ("list the terminals", "ls /dev/pts"),
    ("make a terminal", "perl -e 'open(F, \"+<\", \"/dev/ptmx\") or exit 1'"),
    ("signal Convoke", "kill -0 $CONVOKE"),
    ("read the environment of Convoke", "cat /proc/$CONVOKE/environ"),
    ("name the open files of Convoke", "readlink /proc/$CONVOKE/fd/0"),
    ("read ~/.ssh by way of Convoke", "cat /proc/$CONVOKE/root$HOME/.ssh/id"),
    ("trace Convoke", "perl $OUTSIDE/trace.pl $CONVOKE"),
    ("limit the files of Convoke", "perl $OUTSIDE/limit.pl $CONVOKE"),
    ("limit its own files", "perl $OUTSIDE/limit.pl 0"),
    ("lower the priority of Convoke", "perl $OUTSIDE/slow.pl process $CONVOKE"),
    ("lower the priority of its group", "perl $OUTSIDE/slow.pl group 0"),
    ("lower its own priority", "perl $OUTSIDE/slow.pl process 0"),
    ("slow the disk of Convoke down", "perl $OUTSIDE/slow.pl disk $CONVOKE"),
    ("pin Convoke to a processor", "perl $OUTSIDE/slow.pl affinity $CONVOKE"),
    ("schedule Convoke last", "perl $OUTSIDE/slow.pl scheduler $CONVOKE"),
    ("search the keyring", "perl $OUTSIDE/keyring.pl"),
    ("bind a TCP port", "perl $OUTSIDE/net.pl bind 0"),
    ("listen on a TCP port", "perl $OUTSIDE/net.pl listen 0"),
    ("listen on no chosen port", "perl $OUTSIDE/net.pl unbound 0"),
    ("share memory", "perl $OUTSIDE/shared.pl memory"),
    ("share a semaphore", "perl $OUTSIDE/shared.pl semaphore"),
    ("share a message queue", "perl $OUTSIDE/shared.pl messages"),
    ("open a named message queue", "perl $OUTSIDE/shared.pl queue"),
    ("call by the numbers of x32", "perl $OUTSIDE/x32.pl"),
];

/// A client that connects; the connection is made when the other side's kernel accepts it.
const NET: &str = r#"
use Socket;
my ($how, $to) = @ARGV;
if ($how eq "stream") {
    socketpair(my $one, my $other, AF_UNIX, SOCK_STREAM, 0) or exit 1;
    exit(defined(syswrite($one, "x")) ? 0 : 1);
}
if ($how eq "pair") {
    socketpair(my $one, my $other, AF_UNIX, SOCK_DGRAM, 0) or exit 1;
    connect($one, pack_sockaddr_un($to)) or exit 1;
    exit(defined(send($one, "x", 0)) ? 0 : 1);
}
if ($how eq "bind" or $how eq "listen" or $how eq "unbound") {
    socket(my $server, AF_INET, SOCK_STREAM, 0) or exit 1;
    bind($server, pack_sockaddr_in(0, inet_aton("127.0.0.1"))) or exit 1 if $how ne "unbound";
    exit($how eq "bind" || listen($server, 1) ? 0 : 1);
}
my $host = $how eq "tcp2" ? "127.0.0.2" : "127.0.0.1";
my $address = $how eq "tcp6" ? pack_sockaddr_in6($to, Socket::inet_pton(AF_INET6, "::1"))
    : $how eq "abstract" ? pack_sockaddr_un("\0$to")
    : $how eq "unix" ? pack_sockaddr_un($to) : pack_sockaddr_in($to, inet_aton($host));
my ($family, $type, $protocol) = (AF_INET, SOCK_STREAM, 0);
($type, $protocol) = (SOCK_DGRAM, 17) if $how eq "udp";
$protocol = 262 if $how eq "mptcp";
$family = AF_INET6 if $how eq "tcp6";
$family = AF_UNIX if $how eq "abstract" or $how eq "unix";
socket(my $socket, $family, $type, $protocol) or exit 1;
if ($how eq "udp") { send($socket, "x", 0, $address) or exit 1 }
elsif ($how eq "fastopen") { send($socket, "x", 0x20000000, $address) or exit 1 }
else { connect($socket, $address) or exit 1 }
"#;

/// Attaches to a process as a debugger does.
const TRACE: &str = r"
my $ptrace = `uname -m` =~ /aarch64/ ? 117 : 101;
exit(syscall($ptrace, 16, int($ARGV[0]), 0, 0) < 0);
";

/// Limits the open files of a process to what any program needs; 0 is its own.
const LIMIT: &str = r#"
my $prlimit = `uname -m` =~ /aarch64/ ? 261 : 302;
my $limits = pack("QQ", 64, 64);
exit(syscall($prlimit, int($ARGV[0]), 7, $limits, 0) < 0);
"#;

/// Takes CPU or disk time away from a process; 0 is its own.
const SLOW: &str = r#"
my ($how, $pid) = ($ARGV[0], int($ARGV[1]));
my ($priority, $disk, $affinity, $scheduler) =
    `uname -m` =~ /aarch64/ ? (140, 30, 122, 119) : (141, 251, 203, 144);
my ($parameters, $mask) = (pack("i", 0), "\0" x 128);
# The call that reads a mask follows the one that sets it.
syscall($affinity + 1, 0, 128, $mask);
my $done = $how eq "process" ? syscall($priority, 0, $pid, 5)
    : $how eq "group" ? syscall($priority, 1, $pid, 5)
    : $how eq "disk" ? syscall($disk, 1, $pid, (2 << 13) | 7)
    : $how eq "affinity" ? syscall($affinity, $pid, 128, $mask)
    : syscall($scheduler, $pid, 3, $parameters);
exit($done < 0);
"#;

/// Asks for the id of the keyring of its session.
const KEYRING: &str = r"
my $keyctl = `uname -m` =~ /aarch64/ ? 219 : 250;
use Errno;
exit(syscall($keyctl, 0, -3, 0) < 0 && $! == Errno::ENOSYS());
";

/// Makes something that other processes of the user find by its number or name, and removes it.
const SHARED: &str = r#"
use Errno;
my $how = $ARGV[0];
my ($open, $unlink) = `uname -m` =~ /aarch64/ ? (180, 181) : (240, 241);
my $name = "convoke-test-$$";
my $id = $how eq "memory" ? shmget(0, 16, 0600) : $how eq "semaphore" ? semget(0, 1, 0600)
    : $how eq "messages" ? msgget(0, 0600) : syscall($open, $name, 0102, 0600, 0);
exit 1 if !defined($id) || $id eq "-1";
if ($how eq "memory") { shmctl($id, 0, 0) } elsif ($how eq "semaphore") { semctl($id, 0, 0, 0) }
elsif ($how eq "messages") { msgctl($id, 0, 0) } else { syscall($unlink, $name) }
"#;

/// Asks for its process id by the number of another ABI, which the kernel may lack; a filter refuses it otherwise.
const X32: &str = r"
use Errno;
exit 1 if `uname -m` !~ /x86_64/;
exit(syscall(0x40000000 + 39) < 0 && $! == Errno::EPERM());
";

impl SandboxHost {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let name = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let unix = (
            UnixListener::bind(outside.join("socket")).unwrap(),
            UnixDatagram::bind(outside.join("datagrams")).unwrap(),
        );
        let stage = Self {
            listener,
            model: TcpListener::bind("127.0.0.1:0").unwrap(),
            datagrams: UdpSocket::bind("127.0.0.1:0").unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            _unix: unix,
            convoke: Command::new("sleep").arg("1000").spawn().unwrap(),
            dir,
        };
        let home = stage.home();
        for (path, text) in [
            (".ssh/id", "key"),
            (".aws/credentials", "key"),
            (".codex/auth.json", "key"),
            (".claude/settings.json", "{}"),
            (".local/share/convoke/store", "key"),
            (".config/other", ""),
        ] {
            write(&home.join(path), text);
        }
        for number in 0..200 {
            write(&home.join(format!("entry-{number}")), "");
        }
        std::os::unix::fs::symlink(home.join(".ssh"), home.join("link")).unwrap();
        let closed = home.join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o0)).unwrap();
        write(&stage.work().join("project.txt"), "text");
        for (name, text) in [
            ("file", "text"),
            ("removed", "text"),
            ("net.pl", NET),
            ("trace.pl", TRACE),
            ("limit.pl", LIMIT),
            ("slow.pl", SLOW),
            ("keyring.pl", KEYRING),
            ("shared.pl", SHARED),
            ("x32.pl", X32),
        ] {
            write(&stage.outside().join(name), text);
        }
        std::fs::create_dir(stage.path("tmp")).unwrap();
        // A copy that any user can run. It is copied by another process: a test's child that starts now would
        // inherit a file opened for writing here, and the copy could not be run.
        let copied = Command::new("cp").arg(HOST).arg(stage.path("host")).status().unwrap();
        assert!(copied.success());
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn work(&self) -> PathBuf {
        self.path("work")
    }

    fn outside(&self) -> PathBuf {
        self.path("outside")
    }

    /// Returns a command that runs one turn of a script with only this host's variables.
    fn turn(&self, permissions: &str, script: &str) -> Command {
        let mut command = Command::new(self.path("host"));
        self.set_up(&mut command, permissions, script);
        command
    }

    /// Returns the same command, run by a user without any rights.
    fn turn_of_nobody(&self, permissions: &str, script: &str) -> Command {
        let mut command = as_nobody(self.path("host"));
        self.set_up(&mut command, permissions, script);
        command
    }

    /// Returns the same command in another directory.
    fn turn_in(&self, directory: &Path, permissions: &str, script: &str) -> Command {
        let turn = self.turn(permissions, script);
        let mut command = Command::new(turn.get_program());
        let args: Vec<&OsStr> = turn.get_args().collect();
        command.args(&args[..2]).arg(directory).args(&args[3..]);
        let env = turn.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(env);
        command
    }

    fn set_up(&self, command: &mut Command, permissions: &str, script: &str) {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
        let name = self.dir.path().file_name().unwrap();
        command.args(["plain", ""]).arg(self.work()).args(["/bin/sh", "-c", script]);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home())
            .env("TMPDIR", self.path("tmp"))
            .env("OUTSIDE", self.outside())
            .env("PORT", port(&self.listener))
            .env("MODEL", port(&self.model))
            .env("UDP", self.datagrams.local_addr().unwrap().port().to_string())
            .env("ABSTRACT", name)
            .env("CONVOKE", self.convoke.id().to_string())
            .env("CONVOKE_TEST_PERMISSIONS", permissions)
            .env("CONVOKE_TEST_PORT", port(&self.model))
            .env("CONVOKE_TEST_PRIVATE", self.home().join(".local/share/convoke"))
            .env("CONVOKE_TEST_SHOW", "1");
    }

    /// Gives all files to the user without any rights.
    fn give_away(&mut self) {
        if nix::unistd::geteuid().is_root() {
            let status =
                Command::new("chown").args(["-R", NOBODY]).arg(self.dir.path()).status().unwrap();
            assert!(status.success());
        }
        self.convoke.kill().unwrap();
        self.convoke.wait().unwrap();
        self.convoke = as_nobody("sleep").arg("1000").spawn().unwrap();
        // The process belongs to that user once it has become the program.
        let name = format!("/proc/{}/comm", self.convoke.id());
        while std::fs::read_to_string(&name).unwrap().trim() != "sleep" {
            std::thread::yield_now();
        }
    }
}

impl Drop for SandboxHost {
    fn drop(&mut self) {
        let closed = self.home().join("closed");
        let _ = std::fs::set_permissions(closed, std::fs::Permissions::from_mode(0o700));
        let _ = self.convoke.kill();
        let _ = self.convoke.wait();
    }
}

/// Returns the command of a program that is run by a user without any rights: this one, unless it is root.
fn as_nobody(program: impl AsRef<OsStr>) -> Command {
    if !nix::unistd::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(program);
    command
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn shown(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns a script that makes every attempt and prints those that succeeded.
fn all_attempts() -> String {
    let attempts = ATTEMPTS.iter().map(|(name, script)| {
        format!("( {script} ) >/dev/null 2>&1 && echo '{name}: open' || echo '{name}: stopped'\n")
    });
    attempts.collect()
}

const PERMISSIONS: [&str; 4] = ["read-only", "edit", "edit-and-network", "full"];

/// Makes every attempt with every permission, each on its own host.
fn table(
    turn: impl Fn(&SandboxHost, &str) -> Command,
    prepare: impl Fn(&mut SandboxHost),
) -> String {
    let columns = PERMISSIONS.map(|permissions| {
        let mut stage = SandboxHost::new();
        prepare(&mut stage);
        let text = shown(turn(&stage, permissions));
        assert!(text.starts_with("done\n"), "{permissions}: {text}");
        text
    });
    let mut table = format!("{:32} read-only edit network full\n", "");
    for (name, _) in ATTEMPTS {
        let cell = |text: &String| match text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        {
            Some("open") => "open",
            Some("stopped") => "-",
            _ => panic!("{name} was not tried: {text}"),
        };
        let [read_only, edit, network, full] = columns.each_ref().map(cell);
        let _ = writeln!(table, "{name:32} {read_only:9} {edit:4} {network:7} {full}");
    }
    table
}

const HELD: &str = "                                 read-only edit network full
write to the working directory   -         open open    open
write to the private directory   open      open open    open
write to the home                -         -    -       open
write outside                    -         -    -       open
write to /dev/null               open      open open    open
empty a file outside             -         -    -       open
remove a file outside            -         -    -       open
rename a file out                -         -    -       open
link a file out                  -         -    -       open
chmod a file outside             open      open open    open
read a project file              open      open open    open
read /etc/passwd                 open      open open    open
read ~/.ssh                      -         -    -       -
list ~/.ssh                      -         -    -       -
read ~/.ssh by a link            -         -    -       -
read ~/.ssh by a hard link       -         -    -       -
read ~/.ssh by /proc             -         -    -       -
read ~/.aws                      -         -    -       -
read the key of another agent    -         -    -       -
read the store of Convoke        -         -    -       -
plant a hook                     -         -    -       open
plant a skill                    -         -    -       open
plant a git hook                 -         open open    open
connect to its model             open      open open    open
connect to another port          -         -    open    open
connect to 127.0.0.2             -         -    open    open
send UDP                         -         -    open    open
connect by Multipath TCP         -         -    open    open
send by TCP fast open            -         -    open    open
connect to an abstract socket    -         -    -       open
connect to a Unix socket         -         -    -       open
send to a Unix socket            -         -    -       open
talk over a pair of sockets      open      open open    open
list the terminals               -         -    -       open
make a terminal                  -         -    -       open
signal Convoke                   -         -    -       open
read the environment of Convoke  -         -    -       -
name the open files of Convoke   -         -    -       -
read ~/.ssh by way of Convoke    -         -    -       -
trace Convoke                    -         -    -       -
limit the files of Convoke       -         -    -       open
limit its own files              open      open open    open
lower the priority of Convoke    -         -    -       open
lower the priority of its group  -         -    -       open
lower its own priority           open      open open    open
slow the disk of Convoke down    -         -    -       open
pin Convoke to a processor       -         -    -       open
schedule Convoke last            -         -    -       open
search the keyring               -         -    -       open
bind a TCP port                  -         open open    open
listen on a TCP port             -         open open    open
listen on no chosen port         -         open open    open
share memory                     -         -    -       open
share a semaphore                -         -    -       open
share a message queue            -         -    -       open
open a named message queue       -         -    -       -
call by the numbers of x32       -         -    -       -
";

#[test]
fn a_hostile_agent_is_stopped_by_the_kernel() {
    let attempts = all_attempts();
    let table = table(|stage, permissions| stage.turn(permissions, &attempts), |_| {});
    assert_eq!(table, HELD, "\n{table}");
}

#[test]
fn a_hostile_agent_of_an_ordinary_user_is_stopped_by_the_kernel() {
    let attempts = all_attempts();
    let table = table(
        |stage, permissions| stage.turn_of_nobody(permissions, &attempts),
        SandboxHost::give_away,
    );
    assert_eq!(table, HELD, "\n{table}");
}

/// Without a sandbox, the same user can do what the table shows as stopped.
#[test]
fn without_a_sandbox_an_ordinary_user_reaches_a_process_of_its_own() {
    let mut stage = SandboxHost::new();
    stage.give_away();
    let process = format!("/proc/{}", stage.convoke.id());
    for (program, argument) in [
        ("cat", format!("{process}/environ")),
        ("readlink", format!("{process}/fd/0")),
        ("cat", format!("{process}/root{}", stage.home().join(".ssh/id").display())),
    ] {
        let output = as_nobody(program).arg(&argument).output().unwrap();
        assert!(output.status.success(), "{argument}: {output:?}");
    }
}

/// Other kinds of sockets, and the system calls that bypass the filter.
#[test]
fn sockets_that_port_rules_do_not_know_are_refused_by_the_filter() {
    const TRY: &str = r#"
use Socket; use Errno;
my $EACCES = Errno::EACCES(); my $ENOSYS = Errno::ENOSYS();
for (["raw", AF_INET, SOCK_RAW, 1], ["packet", 17, SOCK_RAW, 0], ["vsock", 40, SOCK_STREAM, 0],
     ["UDP over IPv6", AF_INET6, SOCK_DGRAM, 17], ["Multipath TCP over IPv6", AF_INET6, SOCK_STREAM, 262]) {
    my ($name, @how) = @$_;
    print "$name: ", (socket(my $s, $how[0], $how[1], $how[2]) ? "open" : $! == $EACCES ? "refused" : "other: $!"), "\n";
}
my $parameters = "\0" x 120;
my $made = syscall(425, 1, $parameters);
print "io_uring: ", ($made >= 0 ? "open" : $! == $ENOSYS ? "refused" : "other: $!"), "\n";
"#;
    let stage = SandboxHost::new();
    write(&stage.outside().join("sockets.pl"), TRY);
    for permissions in ["read-only", "edit"] {
        let text = shown(stage.turn(permissions, "perl $OUTSIDE/sockets.pl"));
        let expected = "done\nraw: refused\npacket: refused\nvsock: refused\nUDP over IPv6: refused\n\
                        Multipath TCP over IPv6: refused\nio_uring: refused\n";
        assert!(text.starts_with(expected), "{permissions}: {text}");
    }
}

/// Root's capabilities give access to devices and the kernel, regardless of files.
#[test]
fn an_agent_of_root_makes_no_devices_and_keeps_the_capabilities_for_its_files() {
    // chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, setfcap
    const KEPT: u64 =
        1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 31;
    for permissions in ["read-only", "edit", "edit-and-network"] {
        let stage = SandboxHost::new();
        let script = "mknod $TMPDIR/device c 1 3 || echo none; grep CapEff /proc/self/status";
        let text = shown(stage.turn(permissions, script));
        let left = text.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
        let left = u64::from_str_radix(left, 16).unwrap();
        assert_eq!(left & !KEPT, 0, "{permissions}: {left:x}");
        assert!(text.contains("none"), "{permissions}: {text}");
    }
}

#[test]
fn port_rules_hold_for_the_newer_protocol_of_addresses_too() {
    // A machine may have none.
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let port = listener.local_addr().unwrap().port().to_string();
    for (permissions, cell) in
        [("read-only", "stopped"), ("edit", "stopped"), ("edit-and-network", "open")]
    {
        let stage = SandboxHost::new();
        let script = "perl $OUTSIDE/net.pl tcp6 $PORT6 && echo open || echo stopped";
        let mut turn = stage.turn(permissions, script);
        turn.env("PORT6", &port);
        let text = shown(turn);
        assert!(text.starts_with(&format!("done\n{cell}\n")), "{permissions}: {text}");
    }
}

/// Without a relay, the ports that the program itself needs are open, and reported.
#[test]
fn without_a_relay_the_ports_of_models_and_udp_are_open_and_named() {
    let stage = SandboxHost::new();
    let mut turn = stage.turn("read-only", &all_attempts());
    turn.env_remove("CONVOKE_TEST_PORT");
    let text = shown(turn);
    assert!(text.contains("connect to another port: stopped"), "{text}");
    assert!(text.contains("connect to its model: stopped"), "{text}");
    assert!(text.contains("send UDP: open"), "{text}");
    assert!(text.contains("connect by Multipath TCP: stopped"), "{text}");
    assert!(text.contains("send by TCP fast open: stopped"), "{text}");
    assert!(text.contains("not enforced: network (TCP port 443"), "{text}");

    // The address of the program's model, as the user configured it.
    let mut turn = stage.turn("read-only", &all_attempts());
    let model = stage.model.local_addr().unwrap();
    turn.env_remove("CONVOKE_TEST_PORT").env("SOME_BASE_URL", format!("http://{model}/v1"));
    let text = shown(turn);
    assert!(text.contains("connect to its model: open"), "{text}");
    assert!(text.contains("connect to another port: stopped"), "{text}");
    assert!(text.contains(&format!("TCP port {} of addresses", model.port())), "{text}");

    // Addresses of other programs are not opened.
    let mut turn = stage.turn("read-only", &all_attempts());
    turn.env_remove("CONVOKE_TEST_PORT").env("VAULT_ADDR", format!("http://{model}"));
    let text = shown(turn);
    assert!(text.contains("connect to its model: stopped"), "{text}");
}

/// A program that fails because a key was withheld does not mention the key.
#[test]
fn a_program_that_fails_without_its_variables_is_told_of_them() {
    for (script, is_told) in [("exit 3", true), ("echo fine", false)] {
        let stage = SandboxHost::new();
        let mut turn = stage.turn("read-only", script);
        turn.env("MY_API_KEY", "x-y-z").env("OTHER", "x");
        let text = shown(turn);
        let told = "sandbox.variables-withheld: the program was not given MY_API_KEY; name";
        assert_eq!(text.contains(told), is_told, "{script}: {text}");
    }
}

/// The gaps of each older kernel are named, and everything else is enforced.
#[test]
fn an_older_landlock_names_what_it_leaves_open() {
    const ALWAYS: &str = "chmod, chown and file times";
    for (abi, open, gaps) in [
        (
            1,
            &["empty a file outside", "connect to another port", "signal Convoke"][..],
            "files can be emptied with truncate; TCP connections; commands to devices; signals to other processes; ",
        ),
        (
            2,
            &["empty a file outside", "connect to another port", "signal Convoke"],
            "files can be emptied with truncate; TCP connections; commands to devices; signals to other processes; ",
        ),
        (
            3,
            &["connect to another port", "signal Convoke"],
            "TCP connections; commands to devices; signals to other processes; ",
        ),
        (4, &["signal Convoke"], "commands to devices; signals to other processes; "),
        (5, &["signal Convoke"], "signals to other processes; "),
        (6, &[], ""),
    ] {
        let stage = SandboxHost::new();
        let mut turn = stage.turn("read-only", &all_attempts());
        turn.env("CONVOKE_TEST_ABI", abi.to_string());
        let text = shown(turn);
        let named =
            format!("Landlock (version {abi}) enforces `read-only`; not enforced: {gaps}{ALWAYS}");
        assert!(text.contains(&named), "{abi}: {text}");
        for name in ["empty a file outside", "connect to another port", "signal Convoke"] {
            let is_open = text.contains(&format!("{name}: open"));
            assert_eq!(is_open, open.contains(&name), "{abi} {name}: {text}");
        }
        for name in ["write outside", "write to the working directory", "read ~/.ssh", "send UDP"] {
            assert!(text.contains(&format!("{name}: stopped")), "{abi} {name}: {text}");
        }
        let mut refused = stage.turn("read-only", "echo x");
        refused.env("CONVOKE_TEST_ABI", abi.to_string()).env("CONVOKE_TEST_REQUIRED", "true");
        let text = shown(refused);
        assert_eq!(text.contains("require-sandbox"), !gaps.is_empty(), "{abi}: {text}");
        assert_eq!(text.starts_with("done\nx"), gaps.is_empty(), "{abi}: {text}");
    }
}

/// A kernel without Landlock, one where it is off, and a container that forbids it.
#[test]
fn without_landlock_permissions_are_refused_and_never_ignored() {
    for errno in [nix::libc::ENOSYS, nix::libc::EOPNOTSUPP, nix::libc::EPERM] {
        let stage = SandboxHost::new();
        let mut turn = stage.turn("read-only", "echo x >inside");
        turn.env("CONVOKE_TEST_ERRNO", errno.to_string());
        let text = shown(turn);
        assert!(text.contains("this system cannot enforce `read-only`"), "{text}");
        assert!(!stage.work().join("inside").exists());
        let mut turn = stage.turn("full", "echo x >inside");
        turn.env("CONVOKE_TEST_ERRNO", errno.to_string());
        let text = shown(turn);
        assert!(text.starts_with("done") && text.contains("has no Landlock"), "{text}");
        assert!(stage.work().join("inside").exists());
    }
}

/// A sandbox does not restrict files that are already open.
#[test]
fn an_open_file_of_convokes_caller_does_not_reach_the_agent() {
    for permissions in ["read-only", "full"] {
        let stage = SandboxHost::new();
        let script = "ls -l /proc/self/fd >fds; cat <&9; echo x >&8; echo fine";
        let turn = stage.turn(permissions, script);
        let mut command = Command::new("/bin/sh");
        let open = "exec 9<$HOME/.ssh/id 8>>$OUTSIDE/file; exec \"$@\"";
        command.args(["-c", open, "sh"]).arg(turn.get_program()).args(turn.get_args());
        let env = turn.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(env);
        let text = shown(command);
        assert!(text.starts_with("done\nfine"), "{permissions}: {text}");
        let file = std::fs::read_to_string(stage.outside().join("file")).unwrap();
        assert_eq!(file, "text", "{permissions}");
    }
}

/// Secrets in variables are hidden like those in files, and so are variables that point outside the sandbox.
#[test]
fn variables_with_secrets_are_passed_on_to_full_alone() {
    const NAMES: [&str; 6] = [
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "PGPASSWORD",
        "OPENAI_API_KEY",
        "TMUX",
        "DISPLAY",
    ];
    for (permissions, is_there) in
        [("read-only", false), ("edit-and-network", false), ("full", true)]
    {
        let stage = SandboxHost::new();
        let mut turn = stage.turn(permissions, "env | cut -d= -f1");
        turn.envs(NAMES.map(|name| (name, "x-y-z")));
        let text = shown(turn);
        for name in NAMES {
            assert_eq!(
                text.lines().any(|line| line == name),
                is_there,
                "{permissions} {name}: {text}"
            );
        }
        assert!(text.lines().any(|line| line == "HOME"), "{text}");
    }
}

#[test]
fn a_daemon_stays_confined_and_ends_with_the_turn() {
    let stage = SandboxHost::new();
    let script = "perl -MPOSIX=setsid -e '
        exit 0 if fork; setsid; exit 0 if fork;
        open(F, \">\", \"$ENV{TMPDIR}/daemon\"); print F $$; close F;
        open(G, \">\", \"$ENV{OUTSIDE}/daemon\"); print STDERR \"outside: $!\\n\";
        sleep 1000';
        while ! test -s $TMPDIR/daemon; do sleep 0.05; done; cat $TMPDIR/daemon";
    let text = shown(stage.turn("edit", script));
    let pid = text.lines().nth(1).unwrap();
    assert!(pid.parse::<u32>().is_ok(), "{text}");
    assert!(!stage.outside().join("daemon").exists());
    assert!(!Path::new(&format!("/proc/{pid}/exe")).exists(), "{text}");
    assert!(text.contains("agent.processes-left"), "{text}");
    assert!(text.contains("sandbox.stopped"), "{text}");
}

#[test]
fn a_tool_that_was_stopped_is_shown_although_the_program_succeeds() {
    let stage = SandboxHost::new();
    let text = shown(stage.turn("read-only", "echo x >inside; echo fine; exit 0"));
    assert!(text.starts_with("done\nfine"), "{text}");
    assert!(text.contains("sandbox.stopped: `read-only` stopped a tool: "), "{text}");
    assert!(text.contains("inside: Permission denied"), "{text}");
}

/// A working directory that contains the user's secrets gives access to none of them.
#[test]
fn the_home_as_working_directory_keeps_its_secrets() {
    let stage = SandboxHost::new();
    let script = "echo x >entry-1 && echo wrote; cat .ssh/id; echo x >.claude/settings.json; true";
    let mut command = Command::new(stage.path("host"));
    command.args(["plain", ""]).arg(stage.home()).args(["/bin/sh", "-c", script]);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", stage.home())
        .env("TMPDIR", stage.path("tmp"))
        .env("CONVOKE_TEST_PERMISSIONS", "edit")
        .env("CONVOKE_TEST_SHOW", "1");
    let text = shown(command);
    assert!(text.starts_with("done\nwrote\n") && !text.contains("key"), "{text}");
    assert_eq!(std::fs::read_to_string(stage.home().join(".claude/settings.json")).unwrap(), "{}");
}

/// A member with permission to edit may replace a directory of the project, in which another member works.
#[test]
fn a_working_directory_that_became_a_link_is_refused() {
    for permissions in ["read-only", "edit", "full"] {
        let stage = SandboxHost::new();
        let sub = stage.work().join("sub");
        std::os::unix::fs::symlink(stage.home().join(".ssh"), &sub).unwrap();
        let script = "cat id; echo x >planted";
        for place in [sub.clone(), stage.work().join("sub/..").join("sub")] {
            let text = shown(stage.turn_in(&place, permissions, script));
            assert!(text.starts_with("failed") && !text.contains("key"), "{permissions}: {text}");
        }
        let text = shown(stage.turn_in(&sub, permissions, script));
        assert!(text.contains("is not the directory that it was"), "{permissions}: {text}");
        assert!(!stage.home().join(".ssh/planted").exists(), "{permissions}");
    }
}

#[test]
fn an_agent_works_inside_a_secret_only_where_a_person_started_convoke() {
    let stage = SandboxHost::new();
    let secret = stage.home().join(".ssh");
    for permissions in ["read-only", "edit", "full"] {
        let text = shown(stage.turn_in(&secret, permissions, "cat id"));
        assert!(text.contains("is inside a path that no agent can read"), "{permissions}: {text}");
        for (started_in, is_accepted) in [(&secret, true), (&stage.home(), false)] {
            let mut turn = stage.turn_in(&secret, permissions, "cat id");
            turn.env("CONVOKE_TEST_STARTED_IN", started_in);
            let text = shown(turn);
            assert_eq!(text.starts_with("done\nkey"), is_accepted, "{permissions}: {text}");
        }
    }
}

#[test]
fn a_path_of_the_users_configuration_leads_through_no_link_of_an_agent() {
    let stage = SandboxHost::new();
    let cache = stage.work().join("cache");
    let outside = stage.home().join("cache");
    std::os::unix::fs::symlink(stage.home().join(".ssh"), &outside).unwrap();
    std::os::unix::fs::symlink(stage.outside(), &cache).unwrap();
    let script = "echo x >$OUTSIDE/planted; cat $HOME/.ssh/id";
    for (path, why) in [(&cache, "leads through the link"), (&outside, "one of your secrets")] {
        let mut turn = stage.turn("edit", script);
        turn.env("CONVOKE_TEST_WRITABLE", path);
        let text = shown(turn);
        assert!(text.contains(why) && !text.contains("key"), "{text}");
    }
    // A link in the directory of another member, who made it.
    let sub = stage.work().join("sub");
    std::fs::create_dir(&sub).unwrap();
    let mut turn = stage.turn_in(&sub, "edit", script);
    turn.env("CONVOKE_TEST_WRITABLE", &cache).env("CONVOKE_TEST_PLACE", stage.work());
    let text = shown(turn);
    assert!(text.contains("leads through the link"), "{text}");
    assert!(!stage.outside().join("planted").exists());
}

/// Another turn could replace a file with the policy, or the files of a program.
#[test]
fn temporary_files_inside_a_directory_that_agents_change_are_refused() {
    for (permissions, is_refused) in [("read-only", true), ("edit", true), ("full", false)] {
        let stage = SandboxHost::new();
        let inside = stage.work().join("tmp");
        std::fs::create_dir(&inside).unwrap();
        let mut turn = stage.turn(permissions, "echo started");
        turn.env("TMPDIR", &inside);
        let text = shown(turn);
        assert_eq!(text.contains("set `TMPDIR` to a directory outside"), is_refused, "{text}");
        assert_eq!(text.starts_with("done\nstarted"), !is_refused, "{text}");
        let mut turn = stage.turn(permissions, "echo started");
        turn.env("TMPDIR", "work/tmp").current_dir(stage.dir.path());
        let text = shown(turn);
        assert_eq!(text.contains("set `TMPDIR` to a directory outside"), is_refused, "{text}");
        let mut turn = stage.turn(permissions, "echo started");
        turn.env("CONVOKE_TEST_WRITABLE", stage.dir.path());
        let text = shown(turn);
        assert_eq!(text.contains("set `TMPDIR` to a directory outside"), is_refused, "{text}");
    }
}

#[test]
fn no_file_holds_the_policy_of_a_turn() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let stage = SandboxHost::new();
    let is_over = AtomicBool::new(false);
    let mut names = std::collections::BTreeSet::new();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut names = std::collections::BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                let turns = std::fs::read_dir(stage.path("tmp")).unwrap().flatten();
                for turn in turns {
                    let entries = std::fs::read_dir(turn.path()).into_iter().flatten().flatten();
                    names.extend(entries.map(|entry| entry.file_name()));
                }
            }
            names
        });
        for _ in 0..5 {
            let text = shown(stage.turn("read-only", "cat; cat $HOME/.ssh/id; echo fine"));
            // The program's input begins after the policy.
            assert!(text.starts_with("done\nBegin.fine"), "{text}");
        }
        is_over.store(true, Ordering::Relaxed);
        names = watcher.join().unwrap();
    });
    let usual = ["guardian", "keeper", "lock", ".lock"].map(std::ffi::OsString::from);
    names.retain(|name| !usual.contains(name));
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn no_home_of_an_agent_uncovers_the_users_secrets() {
    for home in ["/nowhere", ".", ""] {
        let stage = SandboxHost::new();
        let mut turn = stage.turn("read-only", "cat $OUTSIDE/../home/.ssh/id; echo fine");
        turn.env("CONVOKE_TEST_AGENT_HOME", home);
        let text = shown(turn);
        assert!(text.starts_with("done\nfine"), "{home:?}: {text}");
        // The secrets of the agent's own home are hidden too.
        let mut turn = stage.turn("read-only", "cat $HOME/.aws/credentials; echo fine");
        write(&stage.outside().join(".aws/credentials"), "key");
        turn.env("CONVOKE_TEST_AGENT_HOME", stage.outside());
        let text = shown(turn);
        assert!(text.starts_with("done\nfine"), "{home:?}: {text}");
    }
    let stage = SandboxHost::new();
    let mut turn = stage.turn("read-only", "cat $OUTSIDE/../home/.ssh/id; echo fine");
    turn.env("HOME", ".").current_dir(stage.home());
    let text = shown(turn);
    assert!(text.starts_with("done\nfine"), "{text}");
}

#[test]
fn a_setting_closes_ports_to_an_agent_that_may_edit() {
    let stage = SandboxHost::new();
    for permissions in ["edit", "edit-and-network"] {
        let mut turn = stage.turn(permissions, &all_attempts());
        turn.env("CONVOKE_TEST_NO_LISTENING", "1");
        let text = shown(turn);
        for name in ["bind a TCP port", "listen on a TCP port", "listen on no chosen port"] {
            assert!(text.contains(&format!("{name}: stopped")), "{permissions} {name}: {text}");
        }
        assert!(text.contains("connect to its model: open"), "{permissions}: {text}");
    }
}

#[test]
fn output_that_the_system_cannot_read_fails_the_turn() {
    let stage = SandboxHost::new();
    let mut turn = stage.turn("full", "echo lost");
    turn.env("CONVOKE_TEST_READ_ERROR", "1");
    let text = shown(turn);
    assert!(text.starts_with("failed"), "{text}");
    assert!(
        text.contains("agent.output-unreadable: the output of the program could not"),
        "{text}"
    );
}

/// Files that vanish between listing and opening need no rule, and do not prevent a program from starting.
#[test]
fn a_home_whose_entries_come_and_go_keeps_no_program_from_starting() {
    let stage = SandboxHost::new();
    let script = "while :; do touch a b c d e f g h; rm -f a b c d e f g h; done";
    let mut churn =
        Command::new("/bin/sh").args(["-c", script]).current_dir(stage.home()).spawn().unwrap();
    for _ in 0..5 {
        let text = shown(stage.turn("read-only", "cat $HOME/.ssh/id; echo fine"));
        assert!(text.starts_with("done\nfine"), "{text}");
    }
    churn.kill().unwrap();
    churn.wait().unwrap();
}
