//! Random texts of instruction files and skills. Each has a sentence of its own, so that no two are equal.

use fastrand::Rng;

/// Returns a text of an instruction file that may import some files.
pub fn instructions(random: &mut Rng, name: &str, imports: &[String]) -> String {
    let mut lines = vec![format!("Follow rule {:06} of {name}.", random.u32(..1_000_000))];
    for _ in 0..random.usize(..5) {
        lines.push(line(random, imports));
    }
    random.shuffle(&mut lines);
    let text = match random.u8(..12) {
        0 => format!("---\ntitle: {name}\n---\n{}", lines.join("\n")),
        1 => format!("\u{feff}{}", lines.join("\n")),
        2 => lines.join("\r\n"),
        3 => format!("\n\n  {}", lines.join("\n\n")),
        4 => "  \n\n".to_owned(),
        5 => "<!-- nothing but this -->\n".to_owned(),
        _ => lines.join("\n"),
    };
    text + ["", "\n", "\n\n\n"][random.usize(..3)]
}

fn line(random: &mut Rng, imports: &[String]) -> String {
    let indent = " ".repeat(random.usize(..5));
    let number = random.u32(..100_000);
    let import = random.choice(imports).cloned().unwrap_or_else(|| "missing.md".to_owned());
    match random.u8(..13) {
        0 => format!("{indent}<!-- remark {number} -->"),
        1 => format!("{indent}<!-- remark {number}\n\nof several lines -->"),
        2 => format!("See @{import} for {number}."),
        3 => format!("{indent}@{import}"),
        4 => format!("`@{import}` {number}"),
        5 => format!("```\n<!-- code {number} -->\n@{import}\n```"),
        6 => format!("- item {number}\n{indent}<!-- remark -->"),
        7 => format!("> quotation {number}\n{indent}<!-- remark -->"),
        8 => format!("# Heading {number}"),
        9 => format!("{indent}<div>\n@{import}\n</div>"),
        10 => String::new(),
        11 => format!("text {number} <!-- remark --> more"),
        _ => format!("Plain text {number}."),
    }
}

/// Returns the text of a skill.
pub fn skill(random: &mut Rng, name: &str) -> String {
    let number = random.u32(..1_000_000);
    let description = match random.u8(..12) {
        0 => format!("description: |\n  Skill {number}\n    of lines\n  and more"),
        1 => format!("description: >\n  Skill {number}\n  folded"),
        2 => format!("description: [Skill, {number}]"),
        3 => format!("description: {{skill: {number}}}"),
        4 => "description: ~".to_owned(),
        5 => format!("description: Skill {number}: with a colon"),
        6 => format!("description: \"Skill {number} \\u00e9\""),
        7 => format!("description: {number}"),
        8 => format!("description: Skill {number} {}", "long ".repeat(random.usize(..400))),
        9 => format!("description: |-\n  Skill {number}\nlicense: none"),
        _ => format!("description: Skill number {number}"),
    };
    let named = if random.u8(..8) == 0 { String::new() } else { format!("name: {name}\n") };
    let extra = ["", "", "", "disable-model-invocation: true\n", "user-invocable: false\n"];
    let extra = extra[random.usize(..extra.len())];
    format!("---\n{named}{extra}{description}\n---\nDo what skill {number} says.\n")
}
