//! Accounts instead of keys: the recorded requests are those that arrived, and no token is stored.

use serde_json::json;

use crate::model_server::ModelServer;
use crate::sign_in::{web_token, write};
use crate::user::User;
use crate::{KEY, REFRESH, is_recorded};

/// The end of a sign-in, in seconds: far from now.
const LATER: u64 = 4_000_000_000;

#[test]
fn a_claude_account_is_recorded_without_its_tokens() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(mut user) = User::new(cli, "claude", "read-only") else { return };
        let server = ModelServer::start(None);
        user.env =
            vec![("ANTHROPIC_BASE_URL", server.url()), ("CLAUDE_CODE_OAUTH_TOKEN", KEY.to_owned())];
        is_recorded(&user, &server, cli, "claude");

        let Some(mut user) = User::new(cli, "claude", "read-only") else { return };
        let server = ModelServer::start(None);
        user.env = vec![("ANTHROPIC_BASE_URL", server.url())];
        let oauth = json!({
            "accessToken": KEY,
            "refreshToken": REFRESH,
            "expiresAt": LATER * 1000,
            "scopes": ["user:inference", "user:profile"],
            "subscriptionType": "max",
        });
        let file = json!({ "claudeAiOauth": oauth });
        write(user.home.path(), ".claude/.credentials.json", &file);
        is_recorded(&user, &server, cli, "claude");
    }
}

#[test]
fn a_chatgpt_account_is_recorded_without_its_tokens() {
    for cli in ["codex-0.98.0", "codex-0.166.0"] {
        let Some(mut user) = User::new(cli, "codex", "read-only") else { return };
        let server = ModelServer::start(None);
        user.uses(&server, "codex");
        user.env.retain(|(name, _)| *name != "CODEX_API_KEY");
        let tokens = json!({
            "id_token": web_token("id", LATER),
            "access_token": web_token(KEY, LATER),
            "refresh_token": REFRESH,
            "account_id": "a",
        });
        let file = json!({"OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": "2099-01-01T00:00:00Z"});
        write(user.home.path(), ".codex/auth.json", &file);
        is_recorded(&user, &server, cli, "codex");
    }
}

#[test]
fn a_google_account_is_recorded_without_its_token() {
    let (cli, agent) = ("gemini-0.61.0", "gemini");
    let Some(mut user) = User::new(cli, agent, "read-only") else { return };
    let server = ModelServer::start(None);
    user.env = vec![
        ("GOOGLE_GENAI_USE_GCA", "true".to_owned()),
        ("GOOGLE_CLOUD_ACCESS_TOKEN", KEY.to_owned()),
        ("CODE_ASSIST_ENDPOINT", server.url()),
    ];
    is_recorded(&user, &server, cli, agent);
}
