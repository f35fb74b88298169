//! Scenario files, which specify the messages of a call: they are checked, converted and run.

mod arguments;
mod check;
mod load;
mod spelling;

pub use arguments::{LoadScriptArguments, ServedScenario};
pub use check::{ScenarioArguments, scenario};
pub use load::{load_of, serve};
pub use spelling::spelled;
