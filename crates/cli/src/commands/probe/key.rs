//! Keys from files and from the environment.

use netrig_host::user_file::read_secret;
use netrig_probe::stamp::HmacKey;

use super::path_arguments::KeyPlace;
use crate::failure::Failure;

/// The key, if one was named.
pub fn read(place: &KeyPlace) -> Result<Option<HmacKey>, Failure> {
    let (whence, octets) = match (&place.key, &place.key_env) {
        (Some(file), _) => {
            let octets = read_secret(file).map_err(|error| {
                Failure::request(format!("cannot read the key {}: {error}", file.display()))
            })?;
            (format!("the file {}", file.display()), octets)
        }
        (None, Some(name)) => {
            let text = std::env::var(name).map_err(|_| {
                Failure::request(format!("there is no variable {name} with a key in the environment"))
            })?;
            (format!("the variable {name}"), text.into_bytes())
        }
        (None, None) => return Ok(None),
    };
    let key = octets.trim_ascii();
    let made = HmacKey::new(key).ok_or_else(|| {
        let (len, least) = (key.len(), HmacKey::LEAST);
        Failure::request(format!(
            "the key in {whence} has {len} bytes: expected at least {least}; `openssl rand -hex 32` makes one"
        ))
    });
    made.map(Some)
}
