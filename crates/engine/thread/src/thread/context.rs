//! The context of a thread: complete at the start, and only changes between turns.
//!
//! Like Codex, a thread builds its initial context once, not for every turn, and again on resume, fork and compaction;
//! otherwise it sends only changes.

use convoke_core::diagnostic::Diagnostic;

use super::Thread;
use super::settings::TurnContext;
use crate::environment::EnvironmentContext;
use crate::history::{Entry, Section};
use crate::instructions::DeveloperInstructions;
use crate::permissions::Permissions;
use crate::personality;
use convoke_core::diagnostics;
use convoke_files::absolute;

impl Thread<'_> {
    /// Builds the initial context, in a fixed order.
    pub(super) fn build_initial_context(
        &self,
        context: &TurnContext,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Entry> {
        let settings = &context.settings;
        let mut entries = vec![self.permissions(context, diagnostics)];
        if let Some(text) = &self.config.developer_instructions {
            entries.push(DeveloperInstructions::new(text.clone()).into());
        }
        if let Some(text) = settings.collaboration.text() {
            entries.push(collaboration(text, diagnostics));
        }
        let base = &self.base_instructions.text;
        if let Some(text) = personality::injected(&context.model, base, settings.personality) {
            entries.push(self.personality(text));
        }
        if let Some(instructions) = &self.user_instructions {
            let text = instructions.render(&settings.cwd);
            entries.push(Entry::message("user", Section::UserInstructions, text));
        }
        entries.push(self.environment(context, diagnostics));
        entries
    }

    /// Builds the changes since the previous turn, in a fixed order.
    pub(super) fn build_updates(
        &self,
        before: &TurnContext,
        now: &TurnContext,
        resumed_model: Option<&str>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Entry> {
        let (old, new) = (&before.settings, &now.settings);
        let mut entries = Vec::new();
        if old.cwd != new.cwd {
            entries.push(self.environment(now, diagnostics));
        }
        if old.sandbox_policy != new.sandbox_policy || old.approval_policy != new.approval_policy {
            entries.push(self.permissions(now, diagnostics));
        }
        if old.collaboration != new.collaboration
            && let Some(text) = new.collaboration.text()
        {
            entries.push(collaboration(text, diagnostics));
        }
        let model_before = resumed_model.unwrap_or(&before.model.slug);
        let wrapper = self.setup.pack.wrappers.model_switch.as_ref();
        let announced = wrapper.filter(|_| model_before != now.model.slug);
        let instructions = now.model.instructions(new.personality);
        if let Some(wrapper) = announced
            && !instructions.is_empty()
        {
            let message = DeveloperInstructions::model_switch_message(wrapper, &instructions);
            entries.push(message.into());
        }
        // If the instructions of a new model are sent, they already include its personality.
        let told = wrapper.is_some() && before.model.slug != now.model.slug;
        let changed = personality::changed(&now.model, old.personality, new.personality);
        if let Some(text) = changed.filter(|_| !told) {
            entries.push(self.personality(text));
        }
        entries
    }

    fn permissions(&self, context: &TurnContext, diagnostics: &mut Vec<Diagnostic>) -> Entry {
        let settings = &context.settings;
        let machine = self.setup.machine;
        let tmpdir = machine.tmpdir.as_deref().filter(|it| !it.as_os_str().is_empty());
        let tmpdir = tmpdir.map(|it| absolute(&machine.cwd, it));
        let permissions = Permissions {
            sandbox: &settings.sandbox_policy,
            approval: settings.approval_policy,
            prefixes: self.config.request_rule.then_some(&self.prefixes),
            cwd: &settings.cwd,
            tmpdir: tmpdir.as_deref(),
        };
        let texts = &self.setup.pack.permissions;
        let text = permissions.render(texts, self.setup.files, diagnostics);
        check_closing(text.text(), "</permissions instructions>", diagnostics);
        DeveloperInstructions::permissions(text).into()
    }

    fn personality(&self, text: &str) -> Entry {
        let wrapper = &self.setup.pack.wrappers.personality;
        DeveloperInstructions::personality_spec_message(wrapper, text).into()
    }

    fn environment(&self, context: &TurnContext, diagnostics: &mut Vec<Diagnostic>) -> Entry {
        let environment =
            EnvironmentContext { cwd: &context.settings.cwd, shell: &self.setup.machine.shell };
        let text = environment.render();
        check_closing(text.text(), "</environment_context>", diagnostics);
        Entry::message("user", Section::Environment, text)
    }
}

fn collaboration(text: &str, diagnostics: &mut Vec<Diagnostic>) -> Entry {
    let message = DeveloperInstructions::from_collaboration_mode(text);
    check_closing(message.text(), "</collaboration_mode>", diagnostics);
    message.into()
}

/// Reports a text that contains the closing tag of its wrapper.
fn check_closing(text: &str, tag: &str, diagnostics: &mut Vec<Diagnostic>) {
    if text.matches(tag).count() > 1 {
        let message = format!("a setting contains {tag}, which ends its own wrapper");
        diagnostics.push(Diagnostic::new(diagnostics::TEXT_CLOSES_WRAPPER, message));
    }
}
