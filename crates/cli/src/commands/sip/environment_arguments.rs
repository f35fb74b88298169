//! Arguments about the file of settings.

use std::path::PathBuf;

use clap::Args;

/// The file of settings.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Environment")]
pub struct EnvironmentArguments {
    /// Take settings from a file that `--save-environment` has written; flags override it
    #[arg(long, value_name = "FILE.toml")]
    pub environment: Option<PathBuf>,
    /// Write all settings to a file before it begins
    #[arg(long, value_name = "FILE.toml")]
    pub save_environment: Option<PathBuf>,
}
