//! `netrig sip conform`: a server is tested against test purposes.

mod arguments;
mod plan;

use std::process::ExitCode;

use netrig_runner::provenance;
use netrig_sip_tester::conformance::{
    CapabilityClaims, ConformanceDocument, PurposeResult, PurposeVerdict, purposes_text, write_evidence,
};

use crate::build::BUILD;
use crate::commands::sip::load;
use crate::failure::{Failure, exit_code, print, print_report};
use crate::interruption::until_interrupted;
use crate::output;

pub use arguments::Conform;

/// Tests a server against test purposes.
pub fn conform(typed: &Conform) -> Result<ExitCode, Failure> {
    if typed.capability_template {
        print(CapabilityClaims::template(typed.role).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let purposes = plan::purposes(typed)?;
    if typed.selection.list {
        print(purposes_text(&purposes).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = plan::plan(typed, purposes)?;
    let stop = until_interrupted()?;
    let say = |result: &PurposeResult| {
        if typed.json || typed.quiet {
            return;
        }
        if let Some(line) = result.text(output::terminal_width()) {
            eprintln!("{line}");
        }
    };
    let result = plan.run(&stop, &say).map_err(load::failure)?;
    let document = ConformanceDocument::new(&plan, &result, plan::typed_target(typed)?, &BUILD, &machine());
    if let Some(out) = &typed.junit {
        output::replace(out, document.to_junit().as_bytes())?;
    }
    if let Some(out) = &typed.html {
        output::replace(out, document.to_html().as_bytes())?;
    }
    if let Some(out) = &typed.out {
        let text = serde_json::to_string_pretty(&document).map_err(Failure::failed)?;
        output::replace(out, format!("{text}\n").as_bytes())?;
    }
    if let Some(out) = &typed.messages {
        let mut bytes = Vec::new();
        write_evidence(&mut bytes, &result).map_err(Failure::failed)?;
        output::replace(out, &bytes)?;
    }
    print_report(typed.json, &document, || document.text(output::terminal_width()))?;
    let has_failed = document.with_verdict(PurposeVerdict::Fail).next().is_some()
        || document.false_claims().next().is_some();
    Ok(exit_code(document.interrupted, true, !has_failed))
}

/// The operating system, the kernel and the processors of this machine, as text.
fn machine() -> String {
    let found = provenance(&BUILD, &[]);
    format!("{}, Linux {}, {}, {} processors", found.os, found.kernel, found.cpu, found.cpus)
}
