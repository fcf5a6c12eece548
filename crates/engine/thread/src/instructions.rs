//! The instructions of a thread, and messages of the developer role.

use convoke_core::ledger::Source;
use convoke_core::{Fragment, SourcedText, TextWriter};

use crate::history::{Entry, Section, Sources};
use crate::json::entry;
use crate::model::ModelInfo;
use crate::personality::Personality;

/// The instructions that every request of a thread contains besides its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseInstructions {
    pub text: String,
    /// Where the instructions come from.
    pub source: BaseSource,
    /// Whether the thread was started with these instructions in an earlier run.
    pub is_restored: bool,
}

/// The source of a thread's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BaseSource {
    /// The configuration or a client set them.
    Given,
    /// The record of the thread does not name their source.
    #[default]
    History,
    /// The model's own, with its personality.
    Model,
}

impl BaseSource {
    /// Returns the name that records use.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::History => "history",
            Self::Model => "model",
        }
    }

    /// Finds a source by its name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Given, Self::History, Self::Model].into_iter().find(|it| it.name() == name)
    }
}

impl BaseInstructions {
    /// Chooses the instructions: explicit ones, else those of the restored thread, else the model's own.
    pub fn resolve(
        given: Option<&str>,
        history: Option<(&str, BaseSource)>,
        model: &ModelInfo,
        personality: Option<Personality>,
    ) -> Self {
        let (text, source) = match (given, history) {
            (Some(text), _) => (text.to_owned(), BaseSource::Given),
            (None, Some((text, source))) => (text.to_owned(), source),
            (None, None) => (model.instructions(personality).into_owned(), BaseSource::Model),
        };
        Self { text, source, is_restored: given.is_none() && history.is_some() }
    }

    /// Returns the sources of the text.
    pub(crate) fn sources(&self) -> Sources<'static> {
        let source = match self.source {
            BaseSource::Given => Source::setting("base_instructions"),
            BaseSource::History => Source::History { index: None },
            BaseSource::Model => Source::setting("model"),
        };
        Sources::one(entry("instructions", source), self.is_restored)
    }
}

/// A message of the developer role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeveloperInstructions {
    section: Section,
    text: SourcedText<'static>,
}

impl DeveloperInstructions {
    /// Creates the message of configured instructions.
    pub fn new(text: SourcedText<'static>) -> Self {
        Self { section: Section::DeveloperInstructions, text }
    }

    /// Creates the message about permissions.
    pub fn permissions(text: SourcedText<'static>) -> Self {
        Self { section: Section::Permissions, text }
    }

    /// Creates the message about a mode of collaboration.
    pub fn from_collaboration_mode(text: &str) -> Self {
        let wrapper = "<collaboration_mode>{text}</collaboration_mode>";
        Self::wrapped(Section::CollaborationMode, wrapper, "{text}", text, "collaboration_mode")
    }

    /// Creates the message about a personality.
    pub fn personality_spec_message(wrapper: &str, spec: &str) -> Self {
        Self::wrapped(Section::Personality, wrapper, "{spec}", spec, "personality")
    }

    /// Creates the message about a change of model.
    pub fn model_switch_message(wrapper: &str, instructions: &str) -> Self {
        let place = "{model_instructions}";
        Self::wrapped(Section::ModelSwitch, wrapper, place, instructions, "model")
    }

    /// Inserts a setting into a wrapper.
    fn wrapped(
        section: Section,
        wrapper: &str,
        place: &str,
        text: &str,
        setting: &'static str,
    ) -> Self {
        let mut out = TextWriter::new(section.name());
        match wrapper.split_once(place) {
            Some((before, after)) => {
                out.frame("wrapper", before);
                out.fragment(Fragment::new(text.to_owned(), Source::setting(setting)));
                out.frame("wrapper", after);
            }
            None => out.frame("wrapper", wrapper),
        }
        Self { section, text: out.finish() }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        self.text.text()
    }
}

impl From<DeveloperInstructions> for Entry {
    fn from(instructions: DeveloperInstructions) -> Self {
        Self::message("developer", instructions.section, instructions.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::World;

    #[test]
    fn what_is_given_beats_the_history_and_the_history_beats_the_model() {
        let world = World::new("model = \"person\"\n");
        let config = world.config();
        let models = &world.pack.models;
        let model = ModelInfo::find("person", &[], models, &config.model_overrides).unwrap();
        let friendly = Some(Personality::Friendly);
        let cases = [
            (Some("given"), Some(("old", BaseSource::Model)), "given", BaseSource::Given),
            (Some(""), Some(("old", BaseSource::Model)), "", BaseSource::Given),
            (None, Some(("old", BaseSource::Model)), "old", BaseSource::Model),
            (None, Some(("old", BaseSource::History)), "old", BaseSource::History),
            (None, None, "template [warm]", BaseSource::Model),
        ];
        for (given, history, text, source) in cases {
            let base = BaseInstructions::resolve(given, history, &model, friendly);
            assert_eq!((&*base.text, base.source), (text, source));
        }
    }
}
