//! The texts of Convoke's own in a request.

/// Returns whether a text is what Convoke writes around others. `frames` are the texts that depend on the pack.
pub(crate) fn is_frame(what: &str, text: &str, frames: &[String]) -> bool {
    let is_of_pack = || frames.iter().any(|frame| frame == text);
    let between = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    match what {
        "wrapper" => {
            const WRAPPERS: [&str; 11] = [
                "<environment_context>\n  <cwd>",
                "</cwd>\n  <shell>",
                "</shell>\n</environment_context>",
                "<permissions instructions>",
                "</permissions instructions>",
                "<collaboration_mode>",
                "</collaboration_mode>",
                "\n</INSTRUCTIONS>",
                "\n</skill>",
                "\n",
                "",
            ];
            WRAPPERS.contains(&text)
                || is_of_pack()
                || between("# AGENTS.md instructions for ", "\n\n<INSTRUCTIONS>\n")
                || between("<skill>\n<name>", "</path>\n")
        }
        "separator" => ["\n\n--- project-doc ---\n\n", "\n\n", "\n"].contains(&text),
        "mark" => between("…", " truncated…") || between("[omitted ", " text items ...]"),
        "summary prefix" | "header" => is_of_pack(),
        "image tag" => {
            ["<image>", "</image>"].contains(&text) || between("<image name=[Image #", "]>")
        }
        "output header" => between("Exit code: ", "\nOutput:\n"),
        "missing output" => text == "aborted",
        "note" => {
            is_of_pack()
                || between("Approved command prefix saved:\n- [", "]")
                // About an image that cannot be sent.
                || text.starts_with("Codex c")
                || text.starts_with("Image located at ")
        }
        _ => false,
    }
}
