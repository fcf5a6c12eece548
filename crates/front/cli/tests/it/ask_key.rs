//! Keys of models: which server gets them, which programs do not, and where they are not repeated.

use convoke_rehearsal::Answer;

use crate::model::{Model, answer, repository};

#[test]
fn the_key_of_the_file_goes_to_the_server_of_the_file_alone() {
    let (own, other) = (Model::new([]), Model::new([Answer::say("Hi."), Answer::say("Hi.")]));
    let context = repository(&own);
    let url = |model: &Model| format!("{}/another/v1", model.server().base_url());
    let (own_url, other_url) = (url(&own), url(&other));
    let has_key = |model: &Model| {
        let calls = model.server().model_calls();
        calls.last().expect("a call").header("authorization").is_some()
    };

    let value = answer(&context, &["--base-url", &other_url, "--wire", "chat", "Hello"]);
    assert!(!has_key(&other));
    let remark = &value["diagnostics"][0];
    assert_eq!(remark["code"], "agent.key-withheld", "{value}");
    let told = remark["message"].as_str().expect("a message");
    assert!(told.contains("`THE_KEY`") && told.contains(&other_url), "{told}");
    let denied = ["ask", "--base-url", &other_url, "--deny", "agent.key-withheld", "Hello"];
    assert_eq!(context.output(&denied, b"").status.code(), Some(3));

    answer(&context, &["--base-url", &other_url, "--key-env", "THE_KEY", "Hello"]);
    assert!(has_key(&other));
    let value = answer(&context, &["--base-url", &own_url, "Hello"]);
    assert!(has_key(&own));
    assert_eq!(value["diagnostics"].as_array().map(Vec::len), Some(0), "{value}");
}

#[test]
fn the_key_of_a_member_goes_to_the_server_that_it_is_configured_for_alone() {
    let (own, other) = (Model::new([Answer::say("Hi.")]), Model::new([Answer::say("Hi.")]));
    let member = "[[member]]\nname = \"mo\"\nagent = \"api\"\n";
    let elsewhere = format!("{member}base-url = \"{}/v1\"\n", other.server().base_url());
    let has_key = |model: &Model| {
        let calls = model.server().model_calls();
        calls.last().expect("a call").header("authorization").is_some()
    };
    // Trusted or not, the file names an address and no key: the user's goes to the user's server.
    let context = repository(&own).file("convoke.toml", &elsewhere);
    assert!(context.run(&["trust", "--yes"]).contains("exit code: 0"));
    let run = context.run(&["run", "Hello"]);
    assert!(run.contains("agent.key-withheld") && run.contains("`THE_KEY`"), "{run}");
    assert!(!has_key(&other), "{run}");
    // Neither does a trusted file send it elsewhere by its name.
    let context = context.file("convoke.toml", format!("{elsewhere}key-env = \"THE_KEY\"\n"));
    assert!(context.run(&["trust", "--yes"]).contains("exit code: 0"));
    let run = context.run(&["run", "Hello"]);
    assert!(run.contains("agent.key-withheld") && !has_key(&other), "{run}");
    let context = context.file("convoke.toml", member);
    let run = context.run(&["run", "Hello"]);
    assert!(!run.contains("agent.key-withheld") && has_key(&own), "{run}");
}

#[test]
fn a_program_does_not_inherit_the_key_of_a_model() {
    let model = Model::new([]);
    let team = "[[member]]\nname = \"pl\"\nagent = \"plain\"\ncommand = \"/bin/sh\"\n\
                args = [\"-c\", \"echo key: ${THE_KEY-none}, other: ${OTHER_KEY-none}\"]\n";
    let context = repository(&model).env("OTHER_KEY", "x1").file("convoke.toml", team);
    assert!(context.run(&["trust", "--yes"]).contains("exit code: 0"));
    let run = context.run(&["run", "Hello"]);
    assert!(run.contains("key: none, other: ") && !run.contains("other: none"), "{run}");
}

#[test]
fn invalid_arguments_are_refused_and_a_key_is_not_repeated() {
    let model = Model::new([]);
    let context = repository(&model);
    let refused = |arguments: &[&str]| {
        let output = context.output(arguments, b"");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert_eq!(
        refused(&["ask", "--key-env", "sk-0123-secret", "Hello"]),
        "convoke: `key-env` must be the name of a variable, not the key itself\n"
    );
    let told = refused(&["ask", "--context-window", "0", "Hello"]);
    assert!(told.contains("0 is not in 1.."), "{told}");
    let agents = context.home().join("config/agents.toml");
    std::fs::write(&agents, "[agent.api]\nkey = \"sk-0123-secret\"\n").expect("a file");
    let told = refused(&["ask", "Hello"]);
    assert!(
        told.contains("agents.toml:2: `agent.api.key` is not a setting; did you mean `key-env`?")
            && !told.contains("sk-0123"),
        "{told}"
    );
    assert!(model.bodies().is_empty());
}
