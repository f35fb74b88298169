//! Which messages of a load are kept, and in which files.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use netrig_core::Fraction;
use serde::{Deserialize, Serialize};

/// Which messages of a load are kept, and in which files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepOrder {
    /// Which messages are kept.
    pub policy: KeepPolicy,
    /// Path of the files without the extensions `.log` and `.pcapng`.
    pub to: PathBuf,
    /// Size limit of both files together, bytes. Further messages are dropped and counted.
    pub most_bytes: u64,
}

impl KeepOrder {
    /// The log and the capture.
    pub fn files(&self) -> [PathBuf; 2] {
        ["log", "pcapng"].map(|ending| {
            let mut path = self.to.as_os_str().to_owned();
            path.push(".");
            path.push(ending);
            path.into()
        })
    }
}

/// Which messages of a load are kept. In text `all`, `failed`, `slowest:100` or `sample:1%`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepPolicy {
    /// Every message.
    All,
    /// The messages of failed attempts.
    Failed,
    /// The messages of this number of attempts: those with the longest time from the first request to the final
    /// response. An attempt without a final response counts as longest.
    Slowest(u32),
    /// The messages of this share of the attempts, selected by a hash of the Call-ID. Either all messages of an attempt
    /// are kept or none.
    Sample(Fraction),
}

/// A text that is not a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not what can be kept: expected `all`, `failed`, `slowest:100` or `sample:1%`")]
pub struct ParseKeepPolicyError(String);

impl FromStr for KeepPolicy {
    type Err = ParseKeepPolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseKeepPolicyError(text.to_owned());
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            None if text == "failed" => Ok(Self::Failed),
            Some(("slowest", count)) => {
                count.parse().ok().filter(|count| *count > 0).map(Self::Slowest).ok_or_else(wrong)
            }
            Some(("sample", share)) => {
                let share: Fraction = share.parse().map_err(|_| wrong())?;
                if share.get() > 0.0 { Ok(Self::Sample(share)) } else { Err(wrong()) }
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for KeepPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Failed => f.write_str("failed"),
            Self::Slowest(count) => write!(f, "slowest:{count}"),
            Self::Sample(share) => write!(f, "sample:{share}"),
        }
    }
}

impl KeepPolicy {
    /// Whether messages have to be assigned to their attempts.
    pub const fn needs_attempts(self) -> bool {
        !matches!(self, Self::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_others_refused() {
        for text in ["all", "failed", "slowest:100", "sample:1 %"] {
            let policy: KeepPolicy = text.parse().unwrap();
            assert_eq!(policy.to_string().parse(), Ok(policy), "{text}");
        }
        assert_eq!("slowest:7".parse(), Ok(KeepPolicy::Slowest(7)));
        for text in
            ["", "some", "slowest", "slowest:0", "slowest:-1", "sample:", "sample:0", "sample:200%", "all:1"]
        {
            let error = text.parse::<KeepPolicy>().unwrap_err();
            assert!(error.to_string().contains("expected `all`"), "{error}");
        }
    }
}
