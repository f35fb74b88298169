//! The keys of a server.

use super::stamp::HmacKey;

/// Keys by name. If there are any, a client must have one of them. Limits per key refer to the name.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Vec<(String, HmacKey)>);

/// Why a text is not a valid key file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// A line has no name and key.
    #[error("line {0}: expected a name and a key with a space between them, or `#` and a remark")]
    Line(usize),
    /// A key is too short.
    #[error("line {line}: the key of {name} has {len} bytes: expected at least {}", HmacKey::LEAST)]
    Short {
        /// Number of the line, from 1.
        line: usize,
        /// The name of the key.
        name: String,
        /// The length of the key, bytes.
        len: usize,
    },
    /// A name occurs twice.
    #[error("line {line}: there is a key of {name} already")]
    Twice {
        /// Number of the line, from 1.
        line: usize,
        /// The name of the key.
        name: String,
    },
    /// The text has no key.
    #[error("there is no key in it")]
    Empty,
}

impl Keyring {
    /// Parses a text with one line per key: a name without spaces, a space, and the key. Empty lines and lines that
    /// start with `#` are ignored.
    ///
    /// # Errors
    /// The error of the first wrong line.
    pub fn read(text: &str) -> Result<Self, KeyringError> {
        let mut keys: Vec<(String, HmacKey)> = Vec::new();
        for (line, words) in (1..).zip(text.lines().map(str::trim)) {
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            let (name, key) = words.split_once([' ', '\t']).ok_or(KeyringError::Line(line))?;
            let (name, key) = (name.to_owned(), key.trim());
            let made = HmacKey::new(key.as_bytes());
            let made =
                made.ok_or_else(|| KeyringError::Short { line, name: name.clone(), len: key.len() })?;
            if keys.iter().any(|(other, _)| *other == name) {
                return Err(KeyringError::Twice { line, name });
            }
            keys.push((name, made));
        }
        if keys.is_empty() { Err(KeyringError::Empty) } else { Ok(Self(keys)) }
    }

    /// Whether there are no keys. Clients then need no key.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the key with which `proof` was made of `parts`. Returns its name and the key.
    pub fn whose(&self, parts: &[&[u8]], proof: &[u8]) -> Option<(&str, &HmacKey)> {
        self.0.iter().find(|(_, key)| key.verify(parts, proof)).map(|(name, key)| (name.as_str(), key))
    }
}

/// A single key gets the name `key`.
impl From<Option<HmacKey>> for Keyring {
    fn from(key: Option<HmacKey>) -> Self {
        Self(key.map(|key| ("key".to_owned(), key)).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_a_name_and_a_key() {
        let keys = Keyring::read("# lab\n\nann 0123456789abcdef\n  bob\tanother key with spaces \n").unwrap();
        let proof = |key: &[u8]| HmacKey::new(key).unwrap().digest(&[b"x"]);
        let whose = |key: &[u8]| keys.whose(&[b"x"], &proof(key)).map(|(name, _)| name);
        assert_eq!(whose(b"0123456789abcdef"), Some("ann"));
        assert_eq!(whose(b"another key with spaces"), Some("bob"));
        assert_eq!(whose(b"0123456789abcdeF"), None);
    }

    #[test]
    fn what_is_no_key_is_said() {
        for (text, error) in [
            ("alone", "line 1: expected a name and a key with a space between them, or `#` and a remark"),
            ("#\na short", "line 2: the key of a has 5 bytes: expected at least 16"),
            ("a 0123456789abcdef\na 0123456789abcdef", "line 2: there is a key of a already"),
            ("# nothing", "there is no key in it"),
        ] {
            assert_eq!(Keyring::read(text).unwrap_err().to_string(), error);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_keys_or_not(text in ".{0,100}") {
            let _ = Keyring::read(&text);
        }
    }
}
