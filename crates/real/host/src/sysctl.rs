//! Network settings of the kernel (sysctls) in the network namespace of this process.

use std::io;
use std::path::{Path, PathBuf};

/// Why a sysctl does not have the requested value.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// The name is not the name of a network setting.
    #[error("`{0}` is not a network setting such as `net.ipv4.tcp_sack`")]
    Name(String),
    /// The kernel refused the value.
    #[error("sysctl {name} = {value}: {source}")]
    Refused {
        /// The name of the sysctl.
        name: String,
        /// The requested value.
        value: String,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The value that was read back is not the value that was set.
    #[error("sysctl {name} did not take effect: requested `{asked}`, read back `{got}`")]
    DidNotTake {
        /// The name of the sysctl.
        name: String,
        /// The requested value.
        asked: String,
        /// The value that was read back.
        got: String,
    },
}

/// The value of the sysctl `name` (such as `kernel.osrelease`), without leading and trailing white space.
///
/// # Errors
/// If it cannot be read.
pub fn get(name: &str) -> io::Result<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/")))?;
    Ok(text.trim().to_owned())
}

/// Sets the sysctl `name` (such as `net.ipv4.tcp_sack`) to `value` and reads it back. Accepts only settings under
/// `net.`, which belong to the network namespace.
///
/// # Errors
/// If the name is invalid, the kernel refuses the value, or another value is read back.
pub fn set(name: &str, value: &str) -> Result<(), SysctlError> {
    let path = path_of(name).ok_or_else(|| SysctlError::Name(name.into()))?;
    let failed = |source| SysctlError::Refused { name: name.into(), value: value.into(), source };
    match set_and_read_back(&path, value).map_err(failed)? {
        None => Ok(()),
        Some(got) => Err(SysctlError::DidNotTake { name: name.into(), asked: value.into(), got }),
    }
}

/// Writes `value` to a setting, which is a file below `/proc/sys`, and reads it back. Returns the value that was read
/// if it differs from `value`.
///
/// # Errors
/// If the kernel refuses the value.
pub fn set_and_read_back(setting: &Path, value: &str) -> io::Result<Option<String>> {
    std::fs::write(setting, value)?;
    let got = std::fs::read_to_string(setting)?;
    // The kernel separates several numbers by tabs, even if they were written with another separator.
    let took = got.split_whitespace().eq(value.split_whitespace());
    Ok((!took).then(|| got.trim().to_owned()))
}

/// The file of a setting; `None` if `name` is not a network setting.
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
