//! Tunnels through the relay, with a program, the user's own proxy and a sign-in host that are written here
//! on bare sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_relay::{Relay, RelayOptions, Upstream};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const HOST: &str = "sign-in.example.com";

/// The user's own proxy: tells the lines that ask for connections, and is every host itself.
struct UserProxy {
    port: u16,
    asked: mpsc::UnboundedReceiver<String>,
    certificate: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl UserProxy {
    /// Starts a proxy whose hosts say back what they are told.
    async fn start() -> Self {
        let names = vec![HOST.to_owned(), "other.example.com".to_owned()];
        let certificate = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::try_from(certificate.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (told, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (told, acceptor) = (told.clone(), acceptor.clone());
                tokio::spawn(async move {
                    let mut stream = stream;
                    told.send(read_head(&mut stream).await).unwrap();
                    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                        if stream.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, asked, certificate }
    }

    fn options(&self) -> RelayOptions {
        let mut options = RelayOptions::new(Upstream::parse("http://127.0.0.1:1").unwrap());
        let proxy = format!("http://127.0.0.1:{}", self.port);
        options.env = vec![("HTTPS_PROXY".into(), proxy.into())];
        options.tunnel_hosts = vec![HOST.to_owned(), "localhost".to_owned()];
        options
    }

    /// Speaks TLS with a host through a tunnel.
    async fn encrypted(
        &self,
        tunnel: TcpStream,
        host: &'static str,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tunnel).await
    }
}

/// Reads a head byte by byte, and returns its first line.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().lines().next().unwrap().to_owned()
}

/// The credential of the relay's proxy address.
fn credential(relay: &Relay) -> String {
    let url = relay.proxy_url();
    let (credential, address) = url.strip_prefix("http://").unwrap().rsplit_once('@').unwrap();
    assert_eq!(address, format!("127.0.0.1:{}", relay.port()));
    assert!(credential.len() > 32, "{credential}");
    format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(credential))
}

/// Asks for a tunnel. Returns the status line and the connection.
async fn ask(relay: &Relay, target: &str, credential: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(("127.0.0.1", relay.port())).await.unwrap();
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{credential}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    (read_head(&mut stream).await, stream)
}

#[tokio::test]
async fn a_tunnel_leads_to_a_sign_in_host_through_the_users_proxy() {
    let mut proxy = UserProxy::start().await;
    let (relay, _exchanges) = Relay::start(proxy.options()).await.unwrap();
    let (status, tunnel) = ask(&relay, "Sign-In.example.com:443", &credential(&relay)).await;
    assert!(status.contains("200"), "{status}");
    assert_eq!(proxy.asked.recv().await.unwrap(), format!("CONNECT {HOST}:443 HTTP/1.1"));
    let mut stream = BufReader::new(proxy.encrypted(tunnel, HOST).await.unwrap());
    let long = "x".repeat(200_000) + "\n";
    stream.write_all(long.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    assert!(line == long, "{} bytes came back", line.len());
    assert_eq!(relay.refused_hosts(), [""; 0]);
    // A tunnel ends with the relay.
    relay.shutdown().await;
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn nothing_else_is_tunnelled_to() {
    let mut proxy = UserProxy::start().await;
    let mut options = proxy.options();
    // A name that leads to this machine, past the user's proxy.
    options.tunnel_hosts.push("tunnel.localhost".to_owned());
    let (relay, _exchanges) = Relay::start(options).await.unwrap();
    let credential = credential(&relay);
    for (target, credential, expected) in [
        (&*format!("{HOST}:443"), "", "407"),
        (&*format!("{HOST}:443"), "Proxy-Authorization: Basic Y29udm9rZTp4\r\n", "407"),
        (&*format!("{HOST}:80"), &*credential, "403"),
        (&*format!("{HOST}:22"), &*credential, "403"),
        ("evil.example.com:443", &*credential, "403"),
        (&*format!("evil.{HOST}:443"), &*credential, "403"),
        (&*format!("{HOST}.evil:443"), &*credential, "403"),
        ("127.0.0.1:443", &*credential, "403"),
        ("[::1]:443", &*credential, "403"),
        (&*format!("127.0.0.1:{}", proxy.port), &*credential, "403"),
        ("localhost:443", &*credential, "403"),
    ] {
        let (status, _) = ask(&relay, target, credential).await;
        assert!(status.contains(expected), "{target}: {status}");
    }
    let head = format!(
        "GET http://plain.example.com/ HTTP/1.1\r\nHost: plain.example.com\r\n{credential}\r\n"
    );
    let mut stream = TcpStream::connect(("127.0.0.1", relay.port())).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.contains("403"));
    assert!(proxy.asked.try_recv().is_err(), "something passed");
    let port = proxy.port;
    assert_eq!(
        relay.refused_hosts(),
        [
            "127.0.0.1".to_owned(),
            format!("127.0.0.1:{port}"),
            "[::1]".to_owned(),
            "evil.example.com".to_owned(),
            format!("evil.{HOST}"),
            "localhost".to_owned(),
            "plain.example.com".to_owned(),
            format!("{HOST}.evil"),
            format!("{HOST}:22"),
            format!("{HOST}:80"),
        ]
        .into_iter()
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>()
    );
}

/// Many hosts share an address: who has a tunnel to one asks there for another.
#[tokio::test]
async fn a_tunnel_is_cut_when_it_is_used_for_another_host() {
    let proxy = UserProxy::start().await;
    let (relay, _exchanges) = Relay::start(proxy.options()).await.unwrap();
    let (status, tunnel) = ask(&relay, &format!("{HOST}:443"), &credential(&relay)).await;
    assert!(status.contains("200"), "{status}");
    assert!(proxy.encrypted(tunnel, "other.example.com").await.is_err());
    assert_eq!(relay.refused_hosts(), ["other.example.com"]);
    assert!(relay.failure().unwrap().contains("was used for `other.example.com`"));

    let (_, mut tunnel) = ask(&relay, &format!("{HOST}:443"), &credential(&relay)).await;
    tunnel.write_all(b"GET / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n").await.unwrap();
    assert_eq!(tunnel.read(&mut [0; 64]).await.unwrap_or(0), 0, "it was answered");
    assert!(relay.failure().unwrap().contains("did not begin with TLS"));
}

#[tokio::test]
async fn tunnels_are_few_and_pass_a_limited_number_of_bytes() {
    const MAX_BYTES: usize = 1 << 20;
    let proxy = UserProxy::start().await;
    let mut options = proxy.options();
    options.max_tunnel_bytes = MAX_BYTES as u64;
    let (relay, _exchanges) = Relay::start(options).await.unwrap();
    let (target, credential) = (format!("{HOST}:443"), credential(&relay));
    let mut open = Vec::new();
    for _ in 0..32 {
        let (status, tunnel) = ask(&relay, &target, &credential).await;
        assert!(status.contains("200"), "{status}");
        open.push(tunnel);
    }
    let (status, _) = ask(&relay, &target, &credential).await;
    assert!(status.contains("503"), "{status}");
    let mut stream = proxy.encrypted(open.pop().unwrap(), HOST).await.unwrap();
    let chunk = vec![0; 64 << 10];
    let mut back = vec![0; 64 << 10];
    let mut passed = 0_usize;
    // Each chunk goes there and comes back.
    while stream.write_all(&chunk).await.is_ok() && stream.flush().await.is_ok() {
        if stream.read_exact(&mut back).await.is_err() {
            break;
        }
        passed += 2 * chunk.len();
        assert!(passed <= MAX_BYTES, "{passed} bytes passed");
    }
    assert!(passed > MAX_BYTES / 2, "{passed} bytes passed");
    assert!(relay.failure().unwrap().contains("1048576 bytes"), "{:?}", relay.failure());
    drop(stream);
    let spent = proxy.encrypted(open.pop().unwrap(), HOST).await;
    assert!(spent.is_err(), "a tunnel passed more");
}

#[tokio::test]
async fn a_relay_without_hosts_has_no_tunnels() {
    let proxy = UserProxy::start().await;
    let mut options = proxy.options();
    options.tunnel_hosts.clear();
    let (relay, _exchanges) = Relay::start(options).await.unwrap();
    let (status, _) = ask(&relay, &format!("{HOST}:443"), &credential(&relay)).await;
    assert!(status.contains("403"), "{status}");
}
