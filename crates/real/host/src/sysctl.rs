//! Settings of the kernel's network in the namespace of this process.

use std::io;
use std::path::{Path, PathBuf};

/// Why a sysctl is not as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// Not the name of a setting of the network.
    #[error("`{0}` is not a setting of the network such as `net.ipv4.tcp_sack`")]
    Name(String),
    /// The kernel refused it.
    #[error("sysctl {name} = {value}: {source}")]
    Refused {
        /// Its name.
        name: String,
        /// What was asked for.
        value: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// It reads back as something else.
    #[error("sysctl {name} did not take: `{asked}` was asked for, `{got}` is what it has")]
    DidNotTake {
        /// Its name.
        name: String,
        /// What was asked for.
        asked: String,
        /// What was read back.
        got: String,
    },
}

/// Sets `name` (`net.ipv4.tcp_sack`) to `value` and reads it back. Only settings under `net.`, which belong to the
/// network namespace.
///
/// # Errors
/// If the name is none, the kernel refuses it, or it reads back as something else.
pub fn set(name: &str, value: &str) -> Result<(), SysctlError> {
    let path = path_of(name).ok_or_else(|| SysctlError::Name(name.into()))?;
    let failed = |source| SysctlError::Refused { name: name.into(), value: value.into(), source };
    match set_and_read_back(&path, value).map_err(failed)? {
        None => Ok(()),
        Some(got) => Err(SysctlError::DidNotTake { name: name.into(), asked: value.into(), got }),
    }
}

/// Writes `value` into a setting, a file below `/proc/sys`, and reads it back: what it has now, if that is something else.
///
/// # Errors
/// If the kernel refuses it.
pub fn set_and_read_back(setting: &Path, value: &str) -> io::Result<Option<String>> {
    std::fs::write(setting, value)?;
    let got = std::fs::read_to_string(setting)?;
    // Several numbers are told apart by tabs, whatever they were written with.
    let took = got.split_whitespace().eq(value.split_whitespace());
    Ok((!took).then(|| got.trim().to_owned()))
}

/// Where a setting lies, if it is one of the network's.
fn path_of(name: &str) -> Option<PathBuf> {
    let word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    (name.starts_with("net.") && name.split('.').all(word))
        .then(|| std::iter::once("/proc/sys").chain(name.split('.')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_network_is_set() {
        assert_eq!(path_of("net.ipv4.tcp_sack"), Some("/proc/sys/net/ipv4/tcp_sack".into()));
        for name in ["kernel.hostname", "net", "net..core", "net.ipv4/../../kernel", "net.ipv4.tcp_sack\n"] {
            assert_eq!(path_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_setting_that_does_not_exist_is_named() {
        let error = set("net.ipv4.no_such_setting", "1").unwrap_err();
        assert!(error.to_string().starts_with("sysctl net.ipv4.no_such_setting = 1"), "{error}");
    }
}
