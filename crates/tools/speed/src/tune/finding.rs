//! One setting and its verdict.

use netrig_core::named;
use schemars::JsonSchema;
use serde::Serialize;

use super::path::TunedPath;

named! {
    /// Whether a setting is what a path needs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum SettingVerdict {
        /// The setting suffices.
        Fits = "fits",
        /// The value is too small.
        TooSmall = "too small",
        /// The value is unsuitable.
        Unfit = "unfit",
        /// Not known: the setting cannot be read, or the path is not known well enough.
        Unknown = "unknown",
    }
}

/// A setting and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingFinding {
    /// The name of the setting.
    pub name: String,
    /// The current value. Absent if it cannot be read.
    pub now: Option<String>,
    /// The value that the path needs. Absent if not known.
    pub needs: Option<String>,
    /// The verdict.
    pub verdict: SettingVerdict,
    /// The reason, as a sentence.
    pub why: String,
    /// The command that corrects the setting, if needed.
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

    /// Sets the verdict on a numeric setting whose value `now` must be at least `needed`. The command gets the next
    /// power of two. If the setting cannot be read, the finding does not change.
    pub(super) fn at_least(
        self,
        path: &TunedPath,
        needed: u64,
        now: Option<u64>,
        command: impl FnOnce(u64) -> String,
    ) -> Self {
        match now {
            None => self,
            Some(now) if now >= needed => self.fits(),
            Some(_) => self.lacks(path, SettingVerdict::TooSmall, command(needed.next_power_of_two())),
        }
    }

    /// Sets the verdict, and `by` as the command that corrects the setting.
    pub(super) fn mended(self, verdict: SettingVerdict, by: impl Into<String>) -> Self {
        Self { verdict, mend: Some(by.into()), ..self }
    }

    /// Like [`mended`](Self::mended), for a setting that depends on the rate of the path. If only a bound of the rate
    /// is known, the verdict stays unknown.
    pub(super) fn lacks(self, path: &TunedPath, verdict: SettingVerdict, by: impl Into<String>) -> Self {
        if path.is_known() {
            return self.mended(verdict, by);
        }
        let needs = self.needs.map(|needs| format!("{needs}, if the path is as fast as the interface"));
        Self { needs, ..self }
    }
}
