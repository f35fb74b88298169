//! Scenarios: files that say what a call does, which are checked, carried out, and written anew.

mod arguments;
mod check;
mod load;
mod spelling;

pub use arguments::{LoadScriptArguments, ServedScenario};
pub use check::{ScenarioArguments, scenario};
pub use load::{load_of, serve};
pub use spelling::spelled;
