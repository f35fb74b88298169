//! One setting and its verdict.

use schemars::JsonSchema;
use serde::Serialize;

use super::path::TunedPath;

/// Whether a setting is what a path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingVerdict {
    /// It is.
    Fits,
    /// It is less.
    TooSmall,
    /// It is something else.
    Unfit,
    /// It cannot be told: the setting cannot be read, or the path is not known well enough.
    Unknown,
}

/// A setting, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingFinding {
    /// What it is called.
    pub name: String,
    /// What it is; nothing if it cannot be read.
    pub now: Option<String>,
    /// What this path needs; nothing if that cannot be told.
    pub needs: Option<String>,
    /// Whether it is so.
    pub verdict: SettingVerdict,
    /// Why, in a sentence.
    pub why: String,
    /// The command that mends it, if anything is to be mended.
    pub mend: Option<String>,
}

impl SettingFinding {
    pub(super) fn new(
        name: impl Into<String>,
        now: Option<impl Into<String>>,
        why: impl Into<String>,
    ) -> Self {
        let now = now.map(Into::into);
        Self {
            name: name.into(),
            now,
            needs: None,
            verdict: SettingVerdict::Unknown,
            why: why.into(),
            mend: None,
        }
    }

    pub(super) fn fits(self) -> Self {
        Self { verdict: SettingVerdict::Fits, ..self }
    }

    pub(super) fn needs(self, needs: impl Into<String>) -> Self {
        Self { needs: Some(needs.into()), ..self }
    }

    /// It is to be mended by this command.
    pub(super) fn mended(self, verdict: SettingVerdict, by: impl Into<String>) -> Self {
        Self { verdict, mend: Some(by.into()), ..self }
    }

    /// The same where the path's rate decides: of a path that may be slower than that nothing can be told.
    pub(super) fn lacks(self, path: &TunedPath, verdict: SettingVerdict, by: impl Into<String>) -> Self {
        if path.is_known() {
            return self.mended(verdict, by);
        }
        let needs = self.needs.map(|needs| format!("{needs}, if the path is as fast as the interface"));
        Self { needs, ..self }
    }
}
