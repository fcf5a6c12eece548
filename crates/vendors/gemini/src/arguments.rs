//! The arguments of an agent's configuration: those that Convoke sets itself are refused or take the place of its own.

use convoke_agent::adapter::Context;
use convoke_agent::arguments::{Arguments, KnownOption, refusal};
use convoke_agent::turn_input::Permissions;
use convoke_protocol::verdict::Failure;

const MODE: KnownOption = KnownOption::with_value(&["--approval-mode"]);
const YOLO: KnownOption = KnownOption::flag(&["-y", "--yolo"]);
const MODEL: KnownOption = KnownOption::with_value(&["-m", "--model"]);

/// Options that Convoke sets itself, or that make the program do something else than a turn.
const REFUSED: &[(&[KnownOption], &str)] = &[
    (
        &[
            KnownOption::with_value(&["-o", "--output-format"]),
            KnownOption::flag(&["-l", "--list-extensions", "-h", "--help", "-v", "--version"]),
        ],
        "Convoke reads the output of the program",
    ),
    (
        &[KnownOption::with_value(&["-p", "--prompt", "-i", "--prompt-interactive"])],
        "add the text to the `instructions` of the member",
    ),
    (
        &[
            KnownOption::with_value(&["-r", "--resume", "--session-id", "--session-file"]),
            KnownOption::with_value(&["--list-sessions", "--delete-session"]),
        ],
        "Convoke keeps the sessions of the member",
    ),
    (
        &[KnownOption::flag(&["--acp", "--experimental-acp"])],
        "choose the agent `gemini-acp` instead",
    ),
    (&[KnownOption::flag(&["-s", "--sandbox"])], BY_SANDBOX),
];

const BY_SANDBOX: &str = "the `sandbox` of the member decides what it may do";

/// The arguments of an agent's configuration.
#[derive(Debug)]
pub(super) struct GivenArguments {
    /// Those that are passed on.
    pub rest: Vec<String>,
    /// The approval mode in place of Convoke's.
    pub mode: Option<String>,
    /// The model, where neither member nor session has one.
    pub model: Option<String>,
}

impl GivenArguments {
    /// Reads the arguments of the agent's configuration.
    pub fn read(context: &Context<'_>, speaks_acp: bool) -> Result<Self, Failure> {
        let mut given = Arguments::new(&context.definition.args);
        for (options, why) in REFUSED {
            given.refuse(options, why)?;
        }
        let yolo = given.take(&YOLO).map(|_| "yolo".to_owned());
        let mode = given.take(&MODE).or(yolo);
        if mode.as_ref().is_some_and(|mode| !allows(context, speaks_acp, mode)) {
            return Err(refusal(MODE.names[0], BY_SANDBOX));
        }
        let model = given.take(&MODEL);
        if model.is_some() && context.model().is_some() {
            return Err(refusal(MODEL.names[1], "the `model` of the member is set"));
        }
        Ok(Self { rest: given.into_rest(), mode, model })
    }
}

/// Returns whether an approval mode allows no more than the turn. Over ACP Convoke answers what the program asks.
fn allows(context: &Context<'_>, speaks_acp: bool, mode: &str) -> bool {
    match mode {
        "default" | "plan" => true,
        _ if speaks_acp => false,
        _ if context.enforcer.is_kernel() => true,
        "auto_edit" => context.permissions() >= Permissions::Edit,
        _ => context.permissions() == Permissions::Full,
    }
}
