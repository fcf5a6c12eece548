//! The real CLIs behind the relay, with a sign-in that has expired: the kernel leaves them the relay's port
//! alone, and they renew it at their vendor through a tunnel of the relay and the user's own proxy.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::model_server::{ModelServer, read_from};
use crate::user::User;

const OLD: &str = "old-0123456789abcdefghijklmnopqrst";
const RENEWED: &str = "renewed-0123456789abcdefghijklmnop";

/// A request that came through the user's proxy.
#[derive(Debug, Clone)]
struct Asked {
    host: String,
    path: String,
    body: String,
}

/// The user's own proxy, and every host behind it: renews sign-ins.
struct UserProxy {
    port: u16,
    hosts: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The certificate that the user's programs trust.
    authority: String,
}

impl UserProxy {
    fn start() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Of two certificates with one name, each is taken for the other's.
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Arc::new(Issuer::new(params, key));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (hosts, asked) = (Arc::default(), Arc::default());
        let proxy = Self { port, hosts: Arc::clone(&hosts), asked: Arc::clone(&asked), authority };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (issuer, hosts, asked) =
                    (Arc::clone(&issuer), Arc::clone(&hosts), Arc::clone(&asked));
                std::thread::spawn(move || serve(stream, &issuer, &hosts, &asked));
            }
        });
        proxy
    }
}

fn serve(
    mut stream: TcpStream,
    issuer: &Issuer<'_, KeyPair>,
    hosts: &Mutex<Vec<String>>,
    asked: &Mutex<Vec<Asked>>,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let target = head.strip_prefix("CONNECT ")?.split(' ').next()?;
    hosts.lock().unwrap().push(target.to_owned());
    let host = target.strip_suffix(":443")?.to_owned();
    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").ok()?;
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![host.clone()]).unwrap();
    let certificate = certificate.signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    let connection = ServerConnection::new(Arc::new(config)).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    while let Some((_, got)) = read_from(&mut stream) {
        let body = String::from_utf8_lossy(&got.body).into_owned();
        let is_renewal = got.path.contains("token");
        asked.lock().unwrap().push(Asked { host: host.clone(), path: got.path, body });
        let (status, answer) =
            if is_renewal { ("200 OK", renewed(&host)) } else { ("404 Not Found", json!({})) };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        stream.get_mut().write_all(format!("{head}{answer}").as_bytes()).ok()?;
    }
    None
}

/// A token with an expiry and an owner, as Codex reads it.
pub fn web_token(text: &str, expires: u64) -> String {
    let claims = json!({
        "exp": expires,
        "email": "person@example.com",
        "jti": text,
        "https://api.openai.com/auth": {"chatgpt_plan_type": "pro", "chatgpt_account_id": "a"},
    });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{text}", encode(&json!({"alg": "none", "typ": "JWT"})), encode(&claims))
}

fn renewed(host: &str) -> Value {
    match host {
        "auth.openai.com" => {
            let token = web_token(RENEWED, 4_000_000_000);
            json!({"id_token": token, "access_token": token, "refresh_token": RENEWED})
        }
        "oauth2.googleapis.com" => {
            json!({"access_token": format!("ya29.{RENEWED}"), "expires_in": 3600, "token_type": "Bearer", "scope": "openid"})
        }
        _ => json!({
            "token_type": "Bearer",
            "access_token": format!("sk-ant-oat01-{RENEWED}"),
            "refresh_token": format!("sk-ant-ort01-{RENEWED}"),
            "expires_in": 28_800,
            "scope": "user:inference user:profile",
        }),
    }
}

pub fn write(home: &Path, path: &str, value: &Value) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, value.to_string()).unwrap();
}

/// Writes a sign-in that has expired. Returns the file and the host that it is renewed at.
fn expired(user: &mut User, agent: &str, server: &ModelServer) -> (&'static str, &'static str) {
    let home = user.home.path();
    match agent {
        "claude" => {
            let oauth = json!({
                "accessToken": format!("sk-ant-oat01-{OLD}"),
                "refreshToken": format!("sk-ant-ort01-{OLD}"),
                "expiresAt": 1000,
                "scopes": ["user:inference", "user:profile"],
                "subscriptionType": "max",
            });
            write(home, ".claude/.credentials.json", &json!({ "claudeAiOauth": oauth }));
            user.env.push(("ANTHROPIC_BASE_URL", server.url()));
            (".claude/.credentials.json", "platform.claude.com")
        }
        "codex" => {
            let token = web_token(OLD, 1000);
            let tokens = json!({"id_token": token, "access_token": token, "refresh_token": OLD, "account_id": "a"});
            let file = json!({"OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": "2020-01-01T00:00:00Z"});
            write(home, ".codex/auth.json", &file);
            user.uses(server, "codex");
            user.env.retain(|(name, _)| *name != "CODEX_API_KEY");
            (".codex/auth.json", "auth.openai.com")
        }
        _ => {
            let selected = json!({"security": {"auth": {"selectedType": "oauth-personal"}}});
            write(home, ".gemini/settings.json", &selected);
            let file = json!({
                "access_token": format!("ya29.{OLD}"),
                "refresh_token": OLD,
                "expiry_date": 1000,
                "token_type": "Bearer",
                "scope": "https://www.googleapis.com/auth/cloud-platform",
            });
            write(home, ".gemini/oauth_creds.json", &file);
            user.env.push(("CODE_ASSIST_ENDPOINT", server.url()));
            (".gemini/oauth_creds.json", "oauth2.googleapis.com")
        }
    }
}

fn renews_its_sign_in_through_the_relay(cli: &str, agent: &str, allowed: &[&str]) {
    let Some(mut user) = User::new(cli, agent, "read-only") else { return };
    let (server, proxy) = (ModelServer::start(None), UserProxy::start());
    let (file, host) = expired(&mut user, agent, &server);
    let authority = user.home.path().join("authority.pem");
    std::fs::write(&authority, &proxy.authority).unwrap();
    for name in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] {
        user.env.push((name, authority.display().to_string()));
    }
    user.env.push(("HTTPS_PROXY", format!("http://127.0.0.1:{}", proxy.port)));
    let output = user.command(&["run", "--record", "wire", "Say hello."]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();

    let asked = proxy.asked.lock().unwrap().clone();
    let renewal = asked.iter().find(|it| it.host == host && it.path.contains("token"));
    let renewal = renewal.unwrap_or_else(|| panic!("{cli}: {asked:?} {shown}"));
    assert!(renewal.body.contains(OLD), "{cli}: {renewal:?}");
    let calls = server.calls.lock().unwrap().clone();
    let is_renewed = |it: &(String, String)| it.0 == "authorization" && it.1.contains(RENEWED);
    assert!(!calls.is_empty(), "{cli}: {shown}");
    for call in &calls {
        assert!(call.headers.iter().any(is_renewed), "{cli}: {call:?}");
    }
    // It is kept for the next turn.
    let kept = std::fs::read_to_string(user.home.path().join(file)).unwrap();
    assert!(kept.contains(RENEWED), "{cli}: {kept}");
    let mut hosts = proxy.hosts.lock().unwrap().clone();
    hosts.sort();
    hosts.dedup();
    for target in hosts {
        assert!(allowed.iter().any(|host| target == format!("{host}:443")), "{cli}: {target}");
    }
    assert!(shown.contains("Behind the relay."), "{cli}: {shown}");
}

const CLAUDE: &[&str] = &["platform.claude.com", "api.anthropic.com"];
const CODEX: &[&str] = &["auth.openai.com", "chatgpt.com"];
const GOOGLE: &[&str] =
    &["oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com"];

#[test]
fn claude_2_1_197_renews_its_sign_in() {
    renews_its_sign_in_through_the_relay("claude-2.1.197", "claude", CLAUDE);
}

#[test]
fn claude_2_1_325_renews_its_sign_in() {
    renews_its_sign_in_through_the_relay("claude-2.1.325", "claude", CLAUDE);
}

#[test]
fn codex_0_98_renews_its_sign_in() {
    renews_its_sign_in_through_the_relay("codex-0.98.0", "codex", CODEX);
}

#[test]
fn codex_0_166_renews_its_sign_in() {
    renews_its_sign_in_through_the_relay("codex-0.166.0", "codex", CODEX);
}

#[test]
fn gemini_renews_its_sign_in() {
    renews_its_sign_in_through_the_relay("gemini-0.61.0", "gemini", GOOGLE);
}
