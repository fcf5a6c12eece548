//! Team files with wrong members: missing and unused settings, unknown agents, unusable files.

use super::BadFile;

pub(super) const BAD: &[BadFile] = &[
    (
        "an acp agent without a program",
        "[[member]]\nname = \"x\"\nagent = \"acp\"\n",
        &[(3, "missing-setting", "an acp agent needs a program")],
    ),
    (
        "requests of an acp agent on record",
        "[[member]]\nname = \"x\"\nagent = \"copilot\"\nrecord = \"wire\"\n",
        &[(4, "unused-setting", "cannot be recorded")],
    ),
    (
        "nearly copilot",
        "[[member]]\nname = \"x\"\nagent = \"copliot\"\n",
        &[(3, "unknown-agent", "write `agent = \"copilot\"`")],
    ),
    ("an empty file", "", &[(1, "missing-setting", "add a `[[member]]`")]),
    ("no members", "name = \"x\"\n", &[(1, "missing-setting", "at least one member")]),
    (
        "a nameless member",
        "[[member]]\nagent = \"claude\"\n",
        &[(1, "missing-setting", "name = \"max\"")],
    ),
    (
        "a member with an invalid name and other errors",
        "[[member]]\nname = \"all\"\nagent = \"cluade\"\n[[member]]\nagent = \"claude\"\nmodle = \"x\"\nwire = \"chat\"\n",
        &[
            (2, "invalid-value", "all"),
            (3, "unknown-agent", "`member.agent`"),
            (4, "missing-setting", "`member.name` is missing"),
            (6, "unknown-setting", "modle"),
            (7, "unused-setting", "`member.wire`"),
        ],
    ),
    (
        "neither agent nor person",
        "[[member]]\nname = \"x\"\n",
        &[(1, "missing-setting", "human = true")],
    ),
    (
        "both",
        "[[member]]\nname = \"x\"\nhuman = true\nagent = \"claude\"\n",
        &[(4, "conflict", "remove one")],
    ),
    (
        "two of a name",
        "MAX[[member]]\nname = \"M-ax\"\nhuman = true\n",
        &[(5, "duplicate-member", "rename one")],
    ),
    (
        "a display name that is taken",
        "MAX[[member]]\nname = \"y\"\ndisplay-name = \"Max\"\nhuman = true\n",
        &[(6, "duplicate-member", "`max`")],
    ),
    (
        "an unknown agent",
        "[[member]]\nname = \"x\"\nagent = \"cluade\"\n",
        &[(3, "unknown-agent", "write `agent = \"claude\"`")],
    ),
    (
        "an agent like no other",
        "[[member]]\nname = \"x\"\nagent = \"somebody\"\n",
        &[(3, "unknown-agent", "choose one of acp, api, claude")],
    ),
    (
        "a size beyond all numbers",
        "[context]\nmax-bytes = 99999999999999999999\nMAX",
        &[(2, "", "max-bytes")],
    ),
    (
        "base-url of a CLI",
        "MAXbase-url = \"http://h/v1\"\n",
        &[(4, "unused-setting", "ANTHROPIC_BASE_URL")],
    ),
    ("key-env of a CLI", "MAXkey-env = \"K\"\n", &[(4, "unused-setting", "claude auth login")]),
    (
        "tools of a CLI",
        "MAXtools = \"read\"\n",
        &[(4, "unused-setting", "sandbox = \"read-only\"")],
    ),
    (
        "command of a model",
        "[[member]]\nname = \"x\"\nagent = \"api\"\ncommand = \"c\"\nmodel = \"m\"\nbase-url = \"http://h\"\n",
        &[(4, "unused-setting", "runs no program")],
    ),
    (
        "sandbox of a model",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nbase-url = \"http://h\"\nsandbox = \"edit\"\nmodel = \"m\"\n",
        &[(5, "unused-setting", "runs no program")],
    ),
    (
        "model of a program",
        "[[member]]\nname = \"x\"\nagent = \"plain\"\ncommand = \"c\"\nmodel = \"m\"\n",
        &[(5, "unused-setting", "`args`")],
    ),
    (
        "a program without a command",
        "[[member]]\nname = \"x\"\nagent = \"plain\"\n",
        &[(3, "missing-setting", "command = ")],
    ),
    (
        "a missing file",
        "MAXinstructions-file = \"gone.md\"\n",
        &[(4, "bad-file", "cannot be read")],
    ),
    (
        "a directory for a file",
        "MAXinstructions-file = \".\"\n",
        &[(4, "bad-file", "Is a directory")],
    ),
    (
        "a file elsewhere",
        "MAXinstructions-file = \"/etc/hostname\"\n",
        &[(4, "needs-trust", "convoke trust")],
    ),
    ("a missing directory", "MAXcwd = \"gone\"\n", &[(4, "bad-file", "create the directory")]),
    (
        "an upper-case agent",
        "[[member]]\nname = \"x\"\nagent = \"Claude\"\n",
        &[(3, "unknown-agent", "write `agent = \"claude\"`")],
    ),
    (
        "an agent with a version",
        "[[member]]\nname = \"x\"\nagent = \"claude@2\"\n",
        &[(3, "unknown-agent", "did you mean `claude`")],
    ),
    ("an agent of no name", "[[member]]\nname = \"x\"\nagent = \"\"\n", &[(3, "", "agent")]),
    (
        "people only",
        "[[member]]\nname = \"kai\"\nhuman = true\n",
        &[(2, "missing-setting", "the team has no agent")],
    ),
    (
        "a name in another case",
        "MAX[[member]]\nname = \"Max \"\nagent = \"codex\"\n",
        &[(5, "duplicate-member", "rename one")],
    ),
    (
        "a name with another dash",
        "[[member]]\nname = \"a-b\"\nagent = \"claude\"\n[[member]]\nname = \"a_b\"\nagent = \"codex\"\n",
        &[(5, "duplicate-member", "`a-b`")],
    ),
    ("nothing but white space", "\n\n  \n", &[(1, "missing-setting", "at least one member")]),
    ("nothing but a comment", "# a team\n", &[(1, "missing-setting", "at least one member")]),
    // What a new user gets wrong.
    (
        "a model without a name",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nbase-url = \"http://h/v1\"\n",
        &[(3, "missing-setting", "add a line such as `model = ")],
    ),
    (
        "a model without an address",
        "[[member]]\nname = \"x\"\nagent = \"api\"\nmodel = \"m\"\n",
        &[(3, "missing-setting", "add a line such as `base-url = ")],
    ),
    (
        "files for a workspace that nobody has",
        "MAXworkspace-copy = [\".env\"]\n",
        &[(4, "unused-setting", "add `workspace = \"own\"`")],
    ),
    (
        "the same for the team",
        "workspace = \"shared\"\nworkspace-link = [\"node_modules\"]\nMAX",
        &[(2, "unused-setting", "no member has its own workspace")],
    ),
    (
        "a command line as a command",
        "MAXcommand = \"npx claude --verbose\"\n",
        &[(
            4,
            "invalid-value",
            "write `command = \"npx\"` and `args = [\"claude\", \"--verbose\"]`",
        )],
    ),
    (
        "a directory as a command",
        "MAXcommand = \"/tmp\"\n",
        &[(4, "bad-file", "names a directory, not a program")],
    ),
    (
        "members of a table by name",
        "[members.max]\nagent = \"claude\"\n",
        &[(
            1,
            "unknown-setting",
            "write `[[member]]`, with double brackets, and below it `name = \"max\"`",
        )],
    ),
    (
        "the name of a company",
        "[[member]]\nname = \"x\"\nagent = \"anthropic\"\n",
        &[(3, "unknown-agent", "write `agent = \"claude\"`")],
    ),
    (
        "the name of a model",
        "[[member]]\nname = \"x\"\nagent = \"gpt-12\"\n",
        &[(3, "unknown-agent", "write `agent = \"codex\"`")],
    ),
    (
        "a server of models",
        "[[member]]\nname = \"x\"\nagent = \"ollama\"\n",
        &[(3, "unknown-agent", "write `agent = \"api\"`, with `base-url` and `model`")],
    ),
    (
        "a person as an agent",
        "MAX[[member]]\nname = \"kim\"\nagent = \"human\"\n",
        &[(6, "unknown-agent", "write `human = true`")],
    ),
    (
        "a file as a directory",
        "MAXcwd = \"bad.toml\"\n",
        &[(4, "bad-file", "names a file, not a directory")],
    ),
    (
        "a home in a path",
        "MAXinstructions-file = \"~/max.md\"\n",
        &[(4, "bad-file", "`~` is not expanded")],
    ),
];
