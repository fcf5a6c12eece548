//! Team files with unknown settings.

use super::BadFile;

pub(super) const BAD: &[BadFile] = &[
    ("members", "[[members]]\nname = \"max\"\n", &[(1, "unknown-setting", "write `[[member]]`")]),
    ("agents", "[[agents]]\nname = \"max\"\n", &[(1, "unknown-setting", "write `[[member]]`")]),
    (
        "a person with a model",
        "[[member]]\nname = \"x\"\nhuman = true\nmodel = \"m\"\n",
        &[(4, "unknown-setting", "x is a person")],
    ),
    (
        "a misspelt setting",
        "MAXinstructons = \"x\"\n",
        &[(4, "unknown-setting", "write `instructions`")],
    ),
    (
        "a misspelt name",
        "[[member]]\nnam = \"x\"\nagent = \"claude\"\n",
        &[(2, "unknown-setting", "write `name`")],
    ),
    (
        "a misspelt agent",
        "[[member]]\nname = \"x\"\nagnt = \"claude\"\nmodel = \"m\"\n",
        &[(3, "unknown-setting", "write `agent = \"claude\"`")],
    ),
    (
        "an underscore",
        "[context]\nmax_bytes = 5\nMAX",
        &[(2, "unknown-setting", "write `max-bytes`")],
    ),
    ("camel case", "[context]\nmaxBytes = 5\nMAX", &[(2, "unknown-setting", "write `max-bytes`")]),
    ("another word", "MAXpermissions = \"edit\"\n", &[(4, "unknown-setting", "write `sandbox`")]),
    ("the wrong table", "turns = 5\nMAX", &[(1, "unknown-setting", "move it below `[limits]`")]),
    ("no such table", "[contxt]\nwindow = 5\nMAX", &[(1, "unknown-setting", "write `[context]`")]),
    (
        "like nothing",
        "colour = 5\nMAX",
        &[(1, "unknown-setting", "the settings here are name, task")],
    ),
    (
        "several errors",
        "nme = \"x\"\n[context]\nwindow = \"5\"\nMAXsandbox = \"none\"\nbase-url = \"http://h\"\n[[member]]\nname = \"max\"\nhuman = true\nmodel = \"m\"\n",
        &[
            (1, "unknown-setting", "write `name`"),
            (3, "wrong-type", "write `window = 5`"),
            (7, "invalid-value", "\"read-only\""),
            (8, "unused-setting", "ANTHROPIC_BASE_URL"),
            (10, "duplicate-member", "rename one"),
            (12, "unknown-setting", "max is a person"),
        ],
    ),
    (
        "members in a table",
        "[members]\nname = \"max\"\n",
        &[(1, "unknown-setting", "write `[[member]]`")],
    ),
    ("members as a list", "members = [\"max\"]\n", &[(1, "unknown-setting", "write `[[member]]`")]),
    (
        "a member of the context",
        "[context]\n[[context.member]]\nname = \"x\"\nMAX",
        &[(2, "unknown-setting", "context.member")],
    ),
    ("an upper-case setting", "Name = \"x\"\nMAX", &[(1, "unknown-setting", "write `name`")]),
    (
        "type for agent",
        "[[member]]\nname = \"x\"\ntype = \"claude\"\n",
        &[(3, "unknown-setting", "write `agent = \"claude\"`")],
    ),
    (
        "prompt for instructions",
        "MAXprompt = \"You are Max.\"\n",
        &[(4, "unknown-setting", "write `instructions`")],
    ),
    ("limit", "[limit]\nturns = 5\nMAX", &[(1, "unknown-setting", "write `[limits]`")]),
    ("a byte order mark", "\u{feff}nmae = \"x\"\nMAX", &[(1, "unknown-setting", "write `name`")]),
    (
        "the task in a table",
        "[context]\ntask = \"x\"\nMAX",
        &[(2, "unknown-setting", "move it above the first")],
    ),
    (
        "the task after a member",
        "MAX\ntask = \"Review\"\n",
        &[(5, "unknown-setting", "is a setting of the top of the file")],
    ),
    ("tokens", "MAXmax-tokens = 4096\n", &[(4, "unknown-setting", "write `max-bytes = ")]),
    (
        "a time limit at the top",
        "timeout = \"30m\"\nMAX",
        &[(1, "unknown-setting", "write `turn-timeout`, and move it below `[limits]`")],
    ),
    (
        "another file",
        "include = \"base.toml\"\nMAX",
        &[(1, "unknown-setting", "a team file includes no other")],
    ),
    ("a temperature", "MAXtemperature = 0.2\n", &[(4, "unknown-setting", "its own configuration")]),
    (
        "an unknown setting of a member",
        "MAXcolour = \"red\"\n",
        &[(4, "unknown-setting", "`convoke docs team-file` lists the settings")],
    ),
    (
        "roles",
        "[[role]]\nname = \"x\"\nagent = \"claude\"\n",
        &[(1, "unknown-setting", "[[member]]")],
    ),
    (
        "a person by type",
        "MAX[[member]]\nname = \"kim\"\ntype = \"human\"\n",
        &[(6, "unknown-setting", "write `human = true`")],
    ),
    (
        "an agent by type",
        "[[member]]\nname = \"x\"\nprovider = \"codex\"\n",
        &[(3, "unknown-setting", "write `agent = \"codex\"`")],
    ),
];
