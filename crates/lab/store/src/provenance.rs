//! Provenance: the machine and the build that produced runs.

use std::collections::BTreeMap;

use netrig_core::text::hex;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Store, StoreError};

/// The machine and the build that produced a run. They do not change the values of a run but may explain them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version and commit of netrig: `0.1.0+abc1234`.
    pub build: String,
    /// The operating system: `Debian GNU/Linux 12 (bookworm)`.
    pub os: String,
    /// The kernel's release: `6.1.0-28-amd64`.
    pub kernel: String,
    /// The processor's model.
    pub cpu: String,
    /// Number of processors that netrig may use.
    pub cpus: u32,
    /// The host's name.
    pub host: String,
    /// Other settings that affect measurements, by name: sysctls, offloads, the clock source.
    pub settings: BTreeMap<String, String>,
}

impl Provenance {
    fn digest(&self) -> String {
        // The JSON form has a fixed order of fields and delimited strings.
        digest(&serde_json::to_string(self).expect("strings and numbers always have a JSON form"))
    }
}

/// The key of a [`Provenance`] in one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProvenanceId(pub(crate) i64);

impl Store {
    /// Adds `provenance` to the store, unless the store already has it.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn add_provenance(&mut self, provenance: &Provenance) -> Result<ProvenanceId, StoreError> {
        let digest = provenance.digest();
        let settings =
            serde_json::to_string(&provenance.settings).expect("a map of strings always has a JSON form");
        let Provenance { build, os, kernel, cpu, cpus, host, settings: _ } = provenance;
        let id = self
            .connection
            .execute(
                "INSERT OR IGNORE INTO provenance (digest, build, os, kernel, cpu, cpus, host, settings)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                params![digest, build, os, kernel, cpu, cpus, host, settings],
            )
            .and_then(|_| {
                self.connection
                    .query_row("SELECT id FROM provenance WHERE digest = ?", [&digest], |row| row.get(0))
            })
            .map_err(|e| self.failed(e))?;
        Ok(ProvenanceId(id))
    }

    /// The provenance of a run of this store.
    ///
    /// # Errors
    /// If the store cannot be read, or has no such provenance.
    pub fn provenance(&self, id: ProvenanceId) -> Result<Provenance, StoreError> {
        let found = self
            .connection
            .query_row(
                "SELECT build, os, kernel, cpu, cpus, host, settings FROM provenance WHERE id = ?",
                [id.0],
                |row| {
                    let settings: String = row.get(6)?;
                    let provenance = Provenance {
                        build: row.get(0)?,
                        os: row.get(1)?,
                        kernel: row.get(2)?,
                        cpu: row.get(3)?,
                        cpus: row.get(4)?,
                        host: row.get(5)?,
                        settings: BTreeMap::new(),
                    };
                    Ok((provenance, settings))
                },
            )
            .optional()
            .map_err(|e| self.failed(e))?;
        let (mut provenance, settings) =
            found.ok_or_else(|| self.damaged(format!("it has no provenance {}", id.0)))?;
        provenance.settings = serde_json::from_str(&settings)
            .map_err(|e| self.damaged(format!("settings of provenance {}: {e}", id.0)))?;
        Ok(provenance)
    }
}

/// SHA-256 in lower-case hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}
