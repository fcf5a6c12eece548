//! Diagnostics of the comparison with a baseline.

convoke_core::diagnostic_codes! {
    BASELINE_FILE_LOST = "baseline.file-lost", Error,
        "A program no longer loads a file that it loads according to the baseline.",
        "Restore what loaded the file, or accept the change with --update.";
    BASELINE_SKILL_LOST = "baseline.skill-lost", Error,
        "A skill is no longer in the list of a program.",
        "Restore the skill, or accept the change with --update.";
    BASELINE_NEW_LOSS = "baseline.new-loss", Error,
        "Something is cut or lost that is not according to the baseline.",
        "Follow the advice of the diagnostic that is named, or accept the loss with --update.";
    BASELINE_GROWTH = "baseline.growth", Error,
        "The instructions of a program have grown by more than the baseline allows.",
        "Shorten them, raise max-growth in the baseline, or accept the growth with --update.";
    BASELINE_OVER_BUDGET = "baseline.over-budget", Error,
        "The instructions of a program have more tokens than the baseline allows.",
        "Shorten them, or raise max-tokens in the baseline.";
    BASELINE_EDITION_NEW = "baseline.edition-new", Note,
        "The rules of a newer version of a program are known than those of the baseline.",
        "Write the baseline with --update --agent and the new edition, and look at the difference.";
}
