//! A question to a program: its answer, and what it cannot do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use convoke_agent::launch::{
    Answer, AskError, ConfinedEnvironment, ObservedPlace, ObservedState, Program, Project,
    Question, ask,
};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{Input, PrivateDir};
use convoke_agent::turn_input::Trust;
use tempfile::TempDir;

use crate::test_host::HOST;

const LONG: Duration = Duration::from_mins(5);

struct Asked {
    temp_root: TempDir,
    users_home: TempDir,
}

impl Asked {
    fn new() -> Self {
        Self { temp_root: TempDir::new().unwrap(), users_home: TempDir::new().unwrap() }
    }

    fn shell(
        &self,
        script: &str,
        time_limit: Duration,
        opening: Input,
        next: &mut (dyn FnMut(&str) -> Option<Input> + Send),
    ) -> Result<Answer, AskError> {
        let root = self.temp_root.path().canonicalize().unwrap();
        let (home, private) = (PrivateDir::create(&root)?, PrivateDir::create(&root)?);
        let variables = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
        let project = Project { cwd: home.path(), home: None, trust: Trust::Untrusted };
        let environment =
            ConfinedEnvironment::new(variables.clone(), project, None, convoke_vendors::programs())
                .unwrap();
        let path = "/bin/sh".into();
        let program = Program { path, args: vec!["-c".into(), script.into()], environment };
        let place = ObservedPlace {
            vendor: None,
            programs: convoke_vendors::programs(),
            cwd: home.path(),
            users_home: self.users_home.path(),
            users_variables: &variables,
            private_dir: private.path(),
            temp_root: &root,
            state: ObservedState::PrivateHome {
                home: home.path(),
                users_directory: self.users_home.path(),
                port: None,
            },
            private: &[],
            newest_abi: None,
        };
        let guardian = &Guardian::from_program(HOST);
        ask(Question { program, place, guardian, time_limit, opening, next })
    }

    fn output(&self, script: &str) -> Answer {
        self.shell(script, LONG, Input::last(Vec::new()), &mut |_| Some(Input::nothing())).unwrap()
    }
}

#[test]
fn a_process_that_is_left_behind_is_ended_and_not_waited_for() {
    // It holds the pipes open, and has left the group.
    let answer = Asked::new().output("setsid sleep 1000 & echo 1.2.3; echo oh >&2; exit 3");
    assert_eq!((answer.code, answer.output.as_str()), (Some(3), "1.2.3\noh\n"));
}

#[test]
fn a_program_that_never_answers_is_ended() {
    let next = &mut |_: &str| Some(Input::nothing());
    let limit = Duration::from_millis(300);
    let answer = Asked::new().shell("sleep 1000; echo late", limit, Input::last(Vec::new()), next);
    assert!(matches!(answer, Err(AskError::TimedOut)), "{answer:?}");
}

#[test]
fn a_long_answer_is_cut_and_its_program_ends() {
    let answer = Asked::new().output("head -c 1000000 /dev/zero | tr '\\0' x");
    assert_eq!((answer.code, answer.output.len()), (Some(0), 64 * 1024));
}

#[test]
fn a_program_that_has_answered_is_ended() {
    let mut heard = Vec::new();
    let mut next = |line: &str| {
        heard.push(line.to_owned());
        (line == "hello").then(|| Input::more(b"more\n".to_vec()))
    };
    let script = "read a; echo $a; read b; echo $b; sleep 1000";
    let opening = Input::more(b"hello\n".to_vec());
    let answer = Asked::new().shell(script, LONG, opening, &mut next).unwrap();
    assert_eq!(answer.code, None);
    assert_eq!(heard, ["hello", "more"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_that_is_asked_changes_nothing_reads_no_secret_and_connects_to_nothing() {
    let asked = Asked::new();
    let home = asked.users_home.path().canonicalize().unwrap();
    std::fs::create_dir(home.join(".ssh")).unwrap();
    std::fs::write(home.join(".ssh/id"), "a key").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = asked.output(&format!(
        "echo x > {0}/made; cat {0}/.ssh/id; echo y > own && echo own; \
         bash -c 'echo > /dev/tcp/127.0.0.1/{port}' && echo connected; exit 0",
        home.display()
    ));
    assert!(!home.join("made").exists());
    assert!(!answer.output.contains("a key") && !answer.output.contains("connected"), "{answer:?}");
    assert!(answer.output.starts_with("own\n"), "its private home is its own: {answer:?}");
    assert!(Path::new("/bin/bash").exists());
}
