//! Credentials stay on their node: keys, sign-ins and passwords reach neither the database nor an announcement, whatever its
//! agents print.

use convoke_protocol::id::TurnId;
use convoke_protocol::turn::TurnState;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::{NewMessage, Store as _};
use sqlx::Row as _;
use sqlx::postgres::PgListener;

use super::cluster::Cluster;
use super::create;
use super::machine::{Machine, wait_until};

/// The variables of the node.
const VARIABLES: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "canary-of-anthropic-51c0"),
    ("OPENAI_API_KEY", "canary-of-openai-9be2"),
    ("DEPLOY_TOKEN", "canary-of-deployment-77aa"),
    ("CONVOKE_STORE_PASSWORD", "canary-of-the-store-03fd"),
];

/// The files in the home of the node's user, each with its canaries.
const FILES: &[(&str, &str, &[&str])] = &[
    (
        ".claude/.credentials.json",
        r#"{"claudeAiOauth":{"accessToken":"canary-of-claude-aa11","refreshToken":"canary-of-claude-bb22"}}"#,
        &["canary-of-claude-aa11", "canary-of-claude-bb22"],
    ),
    (
        ".codex/auth.json",
        r#"{"OPENAI_API_KEY":null,"tokens":{"access_token":"canary-of-codex-cc33","refresh_token":"canary-of-codex-dd44"}}"#,
        &["canary-of-codex-cc33", "canary-of-codex-dd44"],
    ),
    (
        ".gemini/oauth_creds.json",
        r#"{"access_token":"canary-of-gemini-ee55","refresh_token":"canary-of-gemini-ff66"}"#,
        &["canary-of-gemini-ee55", "canary-of-gemini-ff66"],
    ),
    (".pgpass", "*:*:*:convoke:canary-of-pgpass-1234\n", &["canary-of-pgpass-1234"]),
    (".ssh/id_ed25519", "canary-of-ssh-5678\n", &["canary-of-ssh-5678"]),
];

/// A program that speaks the protocol of Claude Code, and prints its environment and all readable sign-ins, in the output
/// of a tool and in its reply. The kernel may hide those of other programs from it.
const AGENT: &str = r#"
read message
told=$( (env; cat "$HOME/.claude/.credentials.json" "$HOME/.codex/auth.json" "$HOME/.gemini/oauth_creds.json" 2> /dev/null) | tr '\n"\\' '   ')
echo "$told" > "$LOG"
echo '{"type":"system","subtype":"init","session_id":"s1","model":"m"}'
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"env"}}]},"session_id":"s1"}'
echo '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"'"$told"'"}]},"session_id":"s1"}'
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"'"$told"'"}]},"session_id":"s1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$told"'","session_id":"s1"}'
"#;

/// Returns everything in the tables of a database, one text for each row. Bytes are in hexadecimal.
async fn rows(pool: &sqlx::PgPool) -> Vec<String> {
    let tables = "SELECT tablename::TEXT FROM pg_tables WHERE schemaname = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(pool).await.unwrap();
    assert!(tables.len() > 15, "{tables:?}");
    let mut rows = Vec::new();
    for table in tables {
        let all = format!("SELECT '{table} ' || ROW_TO_JSON({table})::TEXT FROM {table}");
        let all = sqlx::query(sqlx::AssertSqlSafe(all)).fetch_all(pool).await.unwrap();
        rows.extend(all.iter().map(|row| row.get::<String, _>(0)));
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_never_leave_their_node() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let pool = sqlx::PgPool::connect(&cluster.url()).await.unwrap();
    let mut announced = PgListener::connect(&cluster.url()).await.unwrap();
    announced.listen("convoke").await.unwrap();
    let mut server = Machine::new(&cluster.url()).agent_of_kind("claude", "full", AGENT);
    for (name, value) in VARIABLES {
        server = server.env(name, value);
    }
    for (name, content, _) in FILES {
        server = server.home_file(name, content);
    }
    let team = "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"worker\"\n";
    let session = create(&store, team, &server.path().display().to_string()).await;
    store.say(session, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    let node = server.node(&["--name", "one", "--offer", "worker"]);
    node.wait_for("turn 1 of max: ");
    assert!(node.output().contains("turn 1 of max: done"), "{}", node.output());

    // A directory and an instructions file that only the store names.
    let reading = format!("{team}instructions-file = \".credentials.json\"\n");
    let sneaking = create(&store, &reading, &server.in_home(".claude")).await;
    store.say(sneaking, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    wait_until("it is left", || node.output().contains("no directory here for"));
    let turn = store.turns_after(sneaking, TurnId(0), 1).await.unwrap().pop().unwrap();
    assert_eq!((turn.state, turn.attempts), (TurnState::Queued, 0));
    assert_eq!(node.end(), Some(0));

    // The agent had its own sign-in in its hands, and printed it.
    let printed = server.log();
    assert!(FILES[0].2.iter().all(|canary| printed.contains(canary)), "{printed}");
    assert!(!printed.contains("canary-of-the-store"), "an agent has the password: {printed}");

    let reader = Machine::new(&cluster.url());
    let exported = reader.run(&["sessions", "export", &session.to_string()]);
    assert!(exported.contains("claudeAiOauth"), "{exported}");
    let mut texts = rows(&pool).await;
    texts.extend([exported, node.output()]);
    // Announcements arrive in their order.
    sqlx::raw_sql("NOTIFY convoke, 'last'").execute(&pool).await.unwrap();
    let mut announcements = 0;
    loop {
        let payload = announced.recv().await.unwrap().payload().to_owned();
        if payload == "last" {
            break;
        }
        let (id, head) = payload.split_once(' ').unwrap();
        assert!(id.len() == 36 && head.parse::<u64>().is_ok(), "{payload}");
        announcements += 1;
        texts.push(payload);
    }
    assert!(announcements > 0);
    let in_files = FILES.iter().flat_map(|(_, _, canaries)| canaries.iter().copied());
    for canary in VARIABLES.iter().map(|(_, value)| *value).chain(in_files) {
        let bytes = convoke_core::figures::hexadecimal(canary.as_bytes());
        let found = texts.iter().find(|text| text.contains(canary) || text.contains(&bytes));
        assert!(found.is_none(), "{canary} has left its node: {found:?}");
    }
}
