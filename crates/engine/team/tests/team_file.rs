//! Valid team files, and the errors of invalid ones.

use std::time::Duration;

use convoke_core::marker::TextPolicy;
use convoke_core::{Fencing, Visibility};
use convoke_team::Team;

#[test]
fn every_setting_is_read() {
    let team = Team::parse(
        r#"
        name = "auth review"
        task = "Review the authentication module"

        [context]
        window = 7
        fence = true
        max-bytes = "64 KiB"
        visibility = "addressed"
        text = "compat"

        [limits]
        turns = 9
        turn-timeout = "90s"
        background-timeout = "2m"
        parallel = true

        [[member]]
        name = "kailai"
        human = true

        [[member]]
        name = "max"
        display-name = "Max the Reviewer"
        agent = "claude"
        role-summary = "Max, reviewer."
        instructions = "You are Max."
        instructions-file = "agents/max.md"
        model = "opus"
        command = "claude"
        args = ["--x"]
        env = { A = "b" }
        cwd = "work"
        sandbox = "read-only"
        base-url = "http://127.0.0.1:8080/v1"
        wire = "chat"
        developer-role = "system"
        key-env = "MODEL_KEY"
        context-window = 8192
        tools = "read"
        record = "wire"
        memory = "session"
        memory-limit = 150000
        idle-timeout = "5m"
        team-tools = true
        mode = "plan"
        client-files = true
        client-terminal = false
        workspace = "own"
        node = "build-server"
        window = 3
        max-bytes = 4096
        "#,
    )
    .unwrap();
    assert_eq!(team.context.fencing, Fencing::Indented);
    assert_eq!(team.context.visibility, Visibility::Addressed);
    assert_eq!(team.context.text, TextPolicy::Compat);
    assert_eq!(team.context.max_bytes, 65536);
    assert_eq!(team.limits.turn_timeout, Duration::from_secs(90));
    assert_eq!(team.limits.background_timeout, Duration::from_mins(2));
    let max = team.member("max the reviewer").unwrap();
    let options = team.context_options(max);
    assert_eq!((options.window, options.max_bytes), (3, 4096));
    insta::assert_debug_snapshot!(max.agent());
    let kailai = team.member("Kai-Lai").unwrap();
    assert_eq!(team.context_options(kailai).window, 7);
    assert!(kailai.agent().is_none());
}

#[test]
fn what_cannot_be_used_is_named_with_its_line() {
    let member = "[[member]]\nname = \"max\"\nagent = \"claude\"\n";
    let cases = [
        ("name = ".to_owned(), "bad toml"),
        ("[context]\nwindw = 5\n".to_owned() + member, "misspelt"),
        ("colour = 5\n".to_owned() + member, "unknown"),
        ("[context]\nwindow = -1\n".to_owned() + member, "negative"),
        ("[context]\nmax-bytes = \"much\"\n".to_owned() + member, "no size"),
        ("[context]\ntext = \"raw\"\n".to_owned() + member, "no policy"),
        ("context = 5\n".to_owned() + member, "no table"),
        ("[limits]\nturn-timeout = \"30\"\n".to_owned() + member, "no unit"),
        ("name = \"x\"\n".to_owned(), "nobody"),
        ("[[member]]\nagent = \"claude\"\n".to_owned(), "nameless"),
        ("[[member]]\nname = \"x\"\n".to_owned(), "neither"),
        ("[[member]]\nname = \"x\"\nagent = \"a\"\nhuman = true\n".to_owned(), "both"),
        ("[[member]]\nname = \"ALL\"\nhuman = true\n".to_owned(), "everyone"),
        ("[[member]]\nname = \"a, b\"\nhuman = true\n".to_owned(), "a list"),
        ("[[member]]\nname = \"x\"\nhuman = true\nmodel = \"m\"\n".to_owned(), "a person's model"),
        ("[[member]]\nname = \"m\\u202Eax\"\nhuman = true\n".to_owned(), "a name that runs back"),
        (
            "[[member]]\nname = \"m\\u200Bax\"\nhuman = true\n".to_owned(),
            "a name with nothing in it",
        ),
        ("[[member]]\nname = \"m\\tax\"\nhuman = true\n".to_owned(), "a name with a control"),
        (
            member.to_owned() + "display-name = \"\\uFEFFMax\"\n",
            "a display name with nothing in it",
        ),
        (member.to_owned() + "model = \"--yolo\"\n", "a model that is an option"),
        (member.to_owned() + "instructons = \"x\"\n", "misspelt in a member"),
        (member.to_owned() + "env = { A = 1 }\n", "no string"),
        (member.to_owned() + "wire = \"soap\"\n", "no wire"),
        (member.to_owned() + "key-env = \"sk-0123-not-to-be-repeated\"\n", "a key itself"),
        (member.to_owned() + "context-window = 0\n", "no window at all"),
        (member.to_owned() + member, "twice"),
    ];
    let refusals: Vec<String> = cases
        .iter()
        .map(|(text, what)| format!("{what}: {}", Team::parse(text).unwrap_err()))
        .collect();
    insta::assert_snapshot!(refusals.join("\n"));
}
